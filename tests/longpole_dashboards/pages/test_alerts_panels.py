# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

from dataclasses import replace

import pytest

from longpole_dashboards.pages.alerts_panels import MAX_CARDS, PANELS
from longpole_dashboards.pages.run_panels import PANELS as RUN_PANELS
from longpole_dashboards.pages.run_slow_panels import PANELS as SLOW_PANELS
from longpole_dashboards.reading import Reader
from longpole_dashboards.theme import ThemeName
from support.dashboard_components import find_all, words
from support.dashboard_fake_service import HANGING_RUN, LIVE_RUN, FakeService
from support.dashboard_rendering import NOW_NS, make_view, render


def cards(query: dict[str, str], service: FakeService | None = None) -> list[str]:
    shown = render(PANELS, service or FakeService(NOW_NS), make_view(query))
    return [words(card) for card in find_all(shown["alerts-cards.children"], "lp-alert")]


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_the_whole_page(theme: ThemeName) -> None:
    shown = render(PANELS, FakeService(NOW_NS), make_view({}, theme))
    assert "3  firing" in words(shown["alerts-counts.children"])
    assert "by mira" in words(shown["alerts-silences.children"])
    assert "2 waiting" in words(shown["alerts-channels.children"])
    assert "3 firing, 1 pending" in shown["alerts-rules-aside.children"]
    assert "to tell" in words(shown["alerts-history.children"])
    assert "no channel" not in words(shown["alerts-history.children"])


def test_without_a_channel_no_event_says_that_somebody_was_told() -> None:
    service = FakeService(NOW_NS)
    service.alerts.channels = []
    shown = render(PANELS, service, make_view({}))
    rows = words(shown["alerts-history.children"])
    assert "no channel" in rows
    assert "yes" not in rows.split()


def test_what_nobody_looks_after_comes_first() -> None:
    found = cards({})
    assert ["critical" in card for card in found] == [True, True, False, False]
    assert "jun looks after it" in found[2]
    assert "pending" in found[3]


def test_alerts_of_one_state_and_one_run() -> None:
    assert len(cards({"state": "firing"})) == 3
    assert len(cards({"state": "resolved"})) == 1
    assert len(cards({"run": LIVE_RUN})) == 2
    assert len(cards({"run": HANGING_RUN, "state": "pending"})) == 0


def test_a_silence_covers_an_alert_from_the_moment_it_is_made() -> None:
    service = FakeService(NOW_NS)
    service.alerts.add_silence({"rule": "run.hang", "author": "kim", "duration_s": 60})
    found = cards({}, service)
    assert "silenced by kim" in found[1]
    assert "run.hang" in found[1]


@pytest.mark.parametrize(
    ("state", "count"), [("all", 35), ("open", 4), ("quiet", 4), ("not_judgeable", 27)]
)
def test_rules_of_one_state(state: str, count: int) -> None:
    shown = render(PANELS, FakeService(NOW_NS), make_view({"rules": state}))
    assert len(find_all(shown["alerts-rules.children"], "lp-rule")) == count


def test_rules_that_are_not_judged_are_told_first() -> None:
    service = FakeService(NOW_NS)
    service.alerts.blindness = "No rule has been judged for 3 min: what fires now is not known."
    shown = render(PANELS, service, make_view({}))
    assert words(shown["alerts-counts.children"]).startswith("No rule has been judged for 3 min")


def test_a_calm_cluster_says_what_watches() -> None:
    shown = render(PANELS, FakeService(NOW_NS, specs=()), make_view({}))
    said = words(shown["alerts-cards.children"])
    assert "Nothing fires" in said
    assert "35 rules watch" in said
    assert "LONGPOLE_SLACK_WEBHOOK_URL" in words(shown["alerts-channels.children"])
    assert "No silence is in force" in words(shown["alerts-silences.children"])
    assert "No alert was ever noticed" in words(shown["alerts-history.children"])


def test_rules_that_are_held_back_are_not_counted_as_quiet_on_what_they_saw() -> None:
    service = FakeService(NOW_NS)
    because = "not judged: the step holds save_checkpoint"
    (seen,) = service.alerts.inputs["clip.high"]
    service.alerts.inputs["clip.high"] = [replace(seen, quiet_because=because)]
    service.alerts.alerts = []
    shown = render(PANELS, service, make_view({"rules": "held_back"}))
    (rule,) = find_all(shown["alerts-rules.children"], "lp-rule")
    assert words(rule).startswith("held back")
    assert "quiet because" not in words(rule)
    assert "3 quiet, 1 held back" in shown["alerts-rules-aside.children"]
    said = words(shown["alerts-cards.children"])
    assert "3 are quiet on what they saw, 1 is not judged at this step" in said


def test_a_calm_page_counts_anew_when_a_rule_is_held_back() -> None:
    service = FakeService(NOW_NS)
    service.alerts.alerts = []
    (cards_panel,) = [each for each in PANELS.panels if each.outputs[0][0] == "alerts-cards"]

    def find_key() -> object:
        return cards_panel.key(PANELS.read(Reader(service), make_view({})))

    before = find_key()
    (seen,) = service.alerts.inputs["clip.high"]
    service.alerts.inputs["clip.high"] = [replace(seen, quiet_because="not judged: it warms up")]
    assert find_key() != before


def test_a_rule_that_is_held_back_in_one_run_alone_is_quiet() -> None:
    service = FakeService(NOW_NS)
    (seen,) = service.alerts.inputs["clip.high"]
    held = replace(seen, quiet_because="not judged: the run warms up (the first 5 steps)")
    service.alerts.inputs["clip.high"] = [held, held, seen]
    shown = render(PANELS, service, make_view({"rules": "quiet"}))
    said = words(shown["alerts-rules.children"])
    assert "quiet because 0.12 is within 0.3" in said


def test_thousands_of_alerts_are_counted_and_the_gravest_shown() -> None:
    service = FakeService(NOW_NS)
    (one, *_) = [alert for alert in service.alerts.alerts if alert.rule == "node.silent"]
    service.alerts.alerts += [replace(one, alert_id=f"many-{number}") for number in range(5_000)]
    shown = render(PANELS, service, make_view({}))["alerts-cards.children"]
    assert len(find_all(shown, "lp-alert")) == MAX_CARDS
    assert "and 4904 more: 49" in words(shown)


def test_thousands_of_alerts_of_a_run_leave_room_for_the_run() -> None:
    service = FakeService(NOW_NS)
    (one, *_) = [alert for alert in service.alerts.alerts if alert.run_id == LIVE_RUN]
    service.alerts.alerts = [
        replace(one, alert_id=f"a-{number}", rule=f"own.{number % 50}") for number in range(5_000)
    ]
    shown = render(RUN_PANELS, service, make_view({"id": LIVE_RUN}))["run-alerts.children"]
    assert len(find_all(shown, "lp-alert-line")) == 20
    assert "own.0 × 100" in words(shown)
    assert "and 3000 more alerts" in words(shown)


def test_the_panel_that_an_alert_leads_to_shows_what_its_rule_reads() -> None:
    service = FakeService(NOW_NS)
    (one, *_) = [alert for alert in service.alerts.alerts if alert.run_id == LIVE_RUN]
    for rule, name in (("grad.spike", "gradient norm"), ("entropy.collapse", "entropy")):
        service.alerts.alerts = [replace(one, rule=rule, evidence=())]
        for asked, is_first in (({"alert": one.alert_id}, True), ({}, rule != "grad.spike")):
            shown = render(SLOW_PANELS, service, make_view({"id": LIVE_RUN, **asked}))
            texts = [each.text for each in shown["run-health.figure"].layout.annotations]
            assert (name in texts) == is_first, (rule, asked, texts)
            assert len(shown["run-health.figure"].data) == 6


def test_alerts_rules_and_history_are_searched() -> None:
    shown = render(PANELS, FakeService(NOW_NS), make_view({"q": "hangs"}))
    (card,) = find_all(shown["alerts-cards.children"], "lp-alert")
    assert "run.hang" in words(card)
    assert len(find_all(shown["alerts-rules.children"], "lp-rule")) == 1
    assert "Node silent" not in words(shown["alerts-history.children"])
    nothing = render(PANELS, FakeService(NOW_NS), make_view({"q": "no such thing"}))
    for place in ("cards", "rules", "history"):
        assert "match" in words(nothing[f"alerts-{place}.children"])
