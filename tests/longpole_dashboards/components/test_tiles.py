import pytest

from longpole_dashboards.components.tiles import Tile, change_ratio, tile
from support.dashboard_components import find_all, words


def make_tile(history: list[float | None], **changes: object) -> Tile:
    fields = {"label": "Step time", "value": "60 s", "unit": "", "hint": "", "better": "down"}
    return Tile(**{**fields, "history": history, **changes})  # pyright: ignore[reportArgumentType]


def test_the_change_is_against_the_median_of_earlier_steps() -> None:
    assert change_ratio([50.0, 60.0, 200.0, 66.0]) == pytest.approx(0.10)


@pytest.mark.parametrize(
    "history", [[], [1.0], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0, None], [None, None, 1.0, 2.0]]
)
def test_too_little_history_is_no_baseline(history: list[float | None]) -> None:
    assert change_ratio(history) is None
    assert "no baseline yet" in words(tile(make_tile(history), "dark"))


def test_longer_steps_are_bad_news_and_more_tokens_good() -> None:
    history: list[float | None] = [60.0, 60.0, 60.0, 75.0]
    assert find_all(tile(make_tile(history), "dark"), "lp-bad")
    assert find_all(tile(make_tile(history, better="up"), "dark"), "lp-good")
    assert not find_all(tile(make_tile(history, better="neither"), "dark"), "lp-bad")


def test_steps_differ_a_little_anyway() -> None:
    quiet = tile(make_tile([60.0, 60.0, 60.0, 61.0]), "dark")
    assert not find_all(quiet, "lp-bad")


def test_a_missing_value_says_why_and_is_no_zero() -> None:
    shown = words(tile(make_tile([], value="–", missing="needs the model"), "dark"))
    assert "needs the model" in shown
    assert "0" not in shown
