# pyright: reportUnknownMemberType=false

from dataclasses import replace

import pytest

from longpole_dashboards.components.alert_card import alert_card, alert_line, severity_mark
from longpole_dashboards.formats import Zone
from longpole_server.model.alert import Alert, Silence
from longpole_server.model.diagnosis import Entity
from support.dashboard_components import find_all, words
from support.dashboard_fake_service import FakeService

NOW_NS = 1_760_000_000 * 10**9
SILENCE = Silence("s", "run", None, None, "mira", "", NOW_NS, NOW_NS + 3600 * 10**9)


@pytest.fixture
def alerts() -> dict[str, Alert]:
    return {alert.rule: alert for alert in FakeService(NOW_NS).alerts.alerts}


def test_a_card_says_value_threshold_cause_and_where_to_look(alerts: dict[str, Alert]) -> None:
    hang = alerts["run.hang"]
    said = words(alert_card(hang, "Run hangs", None, Zone()))
    for part in (
        "critical",
        "Run hangs",
        "9 min 37 s",
        "12.6 s",
        hang.cause,
        hang.first_look,
        "ppo-llama-70b-code, step 9",
        "Acknowledge",
        "Silence",
    ):
        assert part in said


def test_what_is_looked_after_says_by_whom(alerts: dict[str, Alert]) -> None:
    said = words(alert_card(alerts["gpu.throttled"], "Hot", SILENCE, Zone()))
    assert "jun looks after it" in said
    assert "silenced by mira until" in said
    assert "Acknowledge" not in said
    assert "Comment" in said, "others have something to say too"


def test_what_is_over_says_how_long_it_lasted_and_asks_for_nothing(
    alerts: dict[str, Alert],
) -> None:
    card = alert_card(alerts["entropy.collapse"], "Entropy", None, Zone())
    assert "lasted 20 min" in words(card)
    assert not find_all(card, "lp-button")


def test_numbers_that_are_not_known_are_left_out(alerts: dict[str, Alert]) -> None:
    bare = replace(alerts["run.hang"], value=None, threshold=None, baseline=None)
    card = alert_card(bare, "Run hangs", None, Zone())
    assert "threshold" not in words(card)
    assert not find_all(card, "lp-bullet")


@pytest.mark.parametrize("value", [0.0, -3.0, 5.0])
def test_only_what_can_be_a_length_is_drawn_as_one(alerts: dict[str, Alert], value: float) -> None:
    card = alert_card(replace(alerts["run.hang"], value=value), "x", None, Zone())
    assert bool(find_all(card, "lp-bullet")) == (value >= 0)


def test_a_line_is_short(alerts: dict[str, Alert]) -> None:
    said = words(alert_line([alerts["gpu.throttled"]], "GPU throttled"))
    assert said.startswith("◆ warning GPU throttled firing")
    assert "✓ jun" in said


def test_what_ails_many_alike_is_one_line(alerts: dict[str, Alert]) -> None:
    newest = replace(alerts["gpu.throttled"], acknowledged=None)
    others = [replace(newest, entity=Entity("gpu", f"GPU-{number}")) for number in range(1, 6)]
    said = words(alert_line([newest, *others[:2]], "GPU throttled"))
    assert "GPU throttled × 3 firing" in said
    assert said.count(newest.summary) == 1
    assert "Also GPU-1, GPU-2." in said
    assert "GPU-3 and 2 more." in words(alert_line([newest, *others], "GPU throttled"))


def test_severities_differ_by_sign() -> None:
    signs = {words(severity_mark(name)).split()[0] for name in ("critical", "warning", "info")}
    assert len(signs) == 3
