from longpole_dashboards.components.rules import rule_entry, rule_state
from longpole_server.model.alert import RuleStatus
from support.dashboard_components import words
from support.dashboard_fake_service import LIVE_RUN, FakeService

NAMES = {LIVE_RUN: "grpo"}


def rules() -> dict[str, RuleStatus]:
    service = FakeService(1_760_000_000 * 10**9)
    return {rule.rule_id: rule for rule in service.alerts.list_rules()}


def test_a_quiet_rule_says_why_and_on_what() -> None:
    said = words(rule_entry(rules()["clip.high"], NAMES))
    assert "quiet because 0.12 is within 0.3" in said
    assert "fires when" in said
    assert "grpo" in said
    assert "12.0 %" in said


def test_firing_and_pending_rules_name_what_they_fire_on() -> None:
    known = rules()
    assert "fires on node-a1/3" in words(rule_entry(known["gpu.throttled"], NAMES))
    assert "about to fire on" in words(rule_entry(known["kv.pressure"], NAMES))


def test_a_rule_without_anything_to_judge_says_so() -> None:
    known = rules()
    assert rule_state(known["loss.nan"]) == "not_judgeable"
    assert "no live run was judged" in words(rule_entry(known["loss.nan"], NAMES))
    assert "has not looked at anything" in words(rule_entry(known["loss.nan"], NAMES))
    assert "the run reports no MFU" in words(rule_entry(known["mfu.low"], NAMES))
