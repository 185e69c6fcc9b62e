import pytest

from longpole_server.errors import BadRequestError
from longpole_server.service.ranges import check_range


@pytest.mark.parametrize(
    ("first", "last"), [(None, None), (3, None), (None, 3), (3, 3), (-1, 0), (2, 3)]
)
def test_ranges(first: int | None, last: int | None):
    check_range(first, last)


def test_one_that_ends_before_it_begins_is_refused():
    with pytest.raises(BadRequestError) as raised:
        check_range(3, 2, "with_")
    assert raised.value.message == "with_from 3 to 2 is no range of steps"
    assert raised.value.hint == "`with_from` is at most `with_to`"
