import pytest

from longpole_dashboards.addresses import Query
from longpole_dashboards.formats import NS_PER_S
from longpole_dashboards.pages.step_window import StepWindow

START_NS = 1_760_000_000 * NS_PER_S
WHOLE_NS = (START_NS, START_NS + 100 * NS_PER_S)


def parse(asked: str) -> StepWindow:
    return StepWindow.parse(Query({"t": asked}), *WHOLE_NS)


def test_seconds_from_the_start_choose_a_part() -> None:
    window = parse("12.5-30")
    assert window.chosen_ns == (START_NS + 12_500_000_000, START_NS + 30 * NS_PER_S)
    # A little more is read.
    assert window.read_ns == (START_NS + 2_500_000_000, START_NS + 32 * NS_PER_S)


def test_what_reaches_out_of_the_step_ends_with_it() -> None:
    window = parse("90-900")
    assert window.chosen_ns == (START_NS + 90 * NS_PER_S, WHOLE_NS[1])
    assert window.read_ns[1] == WHOLE_NS[1]


@pytest.mark.parametrize(
    "asked", ["", "0-100", "0-1000", "200-300", "30-20", "5-5.001", "a-b", "nan-3", "1-inf", "-5-3"]
)
def test_what_makes_no_sense_or_covers_the_step_is_all_of_it(asked: str) -> None:
    window = parse(asked)
    assert window.chosen_ns is None
    assert window.read_ns == WHOLE_NS
