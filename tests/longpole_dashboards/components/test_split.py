from longpole_dashboards.components.split import Share, split
from support.dashboard_components import find_all, words


def test_parts_are_shown_with_seconds_and_share_and_gaps_as_not_reported() -> None:
    shown = split(10.0, [Share("tool", "#fff", 2.5), Share("paused", "#000", None)])
    assert "2.5 s 25.0 %" in words(shown)
    assert "– not reported" in words(shown)
    assert len(find_all(shown, "lp-split-row")) == 2


def test_nothing_divides_by_zero() -> None:
    assert "–" in words(split(0.0, [Share("tool", "#fff", 0.0)]))
