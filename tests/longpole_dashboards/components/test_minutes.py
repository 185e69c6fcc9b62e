import pytest

from longpole_dashboards.addresses import Query
from longpole_dashboards.components.minutes import minutes_choice

OPTIONS = [("10", "10 min"), ("60", "1 h")]


@pytest.mark.parametrize(
    ("search", "value"),
    [("", "10"), ("?span=60", "60"), ("?span=60&time=1-2", ""), ("?zoom=3-4", "")],
)
def test_no_minutes_are_marked_while_another_time_is_shown(search: str, value: str) -> None:
    control = minutes_choice("minutes", OPTIONS, Query.parse(search))
    assert getattr(control, "value", None) == value
