import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole_server.api.paging import cut_page, make_cursor, read_cursor
from longpole_server.errors import BadRequestError


@given(st.lists(st.integers(), max_size=50), st.integers(1, 60))
def test_pages_hold_every_item_once(items: list[int], limit: int):
    seen: list[int] = []
    cursor: str | None = None
    while True:
        page, cursor = cut_page(items, cursor, limit)
        assert len(page) <= limit
        seen += page
        if cursor is None:
            break
    assert seen == items


@given(st.integers(0, 10**9))
def test_cursors_come_back(offset: int):
    assert read_cursor(make_cursor(offset)) == offset


@given(st.text(max_size=20))
def test_no_text_breaks_a_cursor(text: str):
    try:
        assert read_cursor(text) >= 0
    except BadRequestError as error:
        assert "cursor" in error.message


@pytest.mark.parametrize("cursor", ["", "-", "bzE1eA", "ü"])
def test_foreign_cursors_are_refused(cursor: str):
    with pytest.raises(BadRequestError):
        read_cursor(cursor)
