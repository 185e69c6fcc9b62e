from longpole_dashboards.pages.alerts_rule_form import describe_trial, fill_form, make_document
from longpole_server.alerts.user_rules import make_rule, read_user_rule
from longpole_server.service.alert_service import describe_rule
from support.dashboard_components import words
from support.dashboard_fake_service import LIVE_RUN, FakeService
from support.dashboard_rendering import NOW_NS


def test_what_is_filled_in_is_a_rule():
    document = make_document(" step_duration_s ", "above", 90, 3, "critical", "", "team/*")
    rule = read_user_rule(document)
    assert (rule.metric, rule.threshold, rule.for_steps) == ("step_duration_s", 90.0, 3)
    assert (rule.severity, rule.run) == ("critical", "team/*")


def test_a_rule_that_is_changed_stands_in_the_form_as_it_was_saved():
    rule = make_rule(
        read_user_rule(
            {"metric": "kl_ref", "comparison": "below", "threshold": 2, "clear_threshold": 3,
             "for_steps": 4, "severity": "info", "title": "Low", "run": "team/*"}
        )
    )  # fmt: skip
    document = make_document(*fill_form(describe_rule(rule, [])))  # type: ignore[arg-type]
    assert read_user_rule(document) == rule.user


def test_an_empty_limit_is_left_to_the_rules_own_words():
    assert "threshold" not in make_document("kl_ref", "above", "", 3, "info", None, None)


def test_a_trial_says_when_it_would_have_fired():
    document = make_document("kl_ref", "above", 1, 1, "info", None, None)
    found = FakeService(NOW_NS).alerts.replay(LIVE_RUN, document)
    said = words(describe_trial(found, LIVE_RUN))
    assert "It would have fired" in said
    assert LIVE_RUN in said
    assert "It would not have fired" in words(describe_trial([], LIVE_RUN))
