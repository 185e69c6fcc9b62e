from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole_server.alerts.book import AlertBook
from longpole_server.alerts.evaluation import evaluate
from longpole_server.alerts.inputs import _OF_STEP
from longpole_server.alerts.user_rules import make_rule, read_user_rule
from longpole_server.errors import BadRequestError
from longpole_server.model.alert import STEP_FIGURES
from support.alert_histories import history_of, points_of, with_validation

GOOD: dict[str, Any] = {"metric": "critic/score/mean", "comparison": "below", "threshold": 0.1}


def test_a_rule_has_defaults_and_an_id_of_its_metric() -> None:
    rule = read_user_rule(GOOD)
    assert rule.rule_id == "user.critic-score-mean-below"
    assert rule.clear_threshold == rule.threshold == 0.1
    assert (rule.for_steps, rule.severity, rule.run) == (1, "warning", None)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"metric": ""}, "metric"),
        ({"metric": 3}, "metric"),
        ({"threshold": None}, "threshold"),
        ({"threshold": "high"}, "threshold"),
        ({"threshold": float("nan")}, "threshold"),
        ({"threshold": True}, "threshold"),
        ({"comparison": "near"}, "comparison"),
        ({"clear_threshold": 0.05}, "clear_threshold"),
        ({"severity": "loud"}, "severity"),
        ({"for_steps": 0}, "for_steps"),
        ({"for_steps": 1.5}, "for_steps"),
        ({"cooldown_s": -1}, "cooldown_s"),
        ({"rule_id": "kv.leak"}, "kv.leak"),
        ({"rule_id": "user.A b"}, "user.A b"),
        ({"treshold": 1}, "treshold"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(change: dict[str, Any], word: str) -> None:
    with pytest.raises(BadRequestError) as caught:
        read_user_rule({**GOOD, **change})
    assert word in caught.value.message


def test_it_fires_like_a_built_in_one_for_its_runs() -> None:
    points = points_of("critic/score/mean", [0.5] * 8 + [0.0])
    rule = make_rule(read_user_rule({**GOOD, "title": "reward {value}", "run": "team/*"}))
    (event,) = evaluate([rule], history_of(points), AlertBook(), "step").events
    assert event.summary == ("reward (value): critic/score/mean is 0, the limit is 0.1.")
    other = make_rule(read_user_rule({**GOOD, "run": "other/*"}))
    assert not evaluate([other], history_of(points), AlertBook(), "step").inputs


@given(
    st.dictionaries(
        st.sampled_from([*GOOD, "for_steps", "severity", "run", "title", "rule_id"]),
        st.none() | st.integers() | st.floats() | st.text(max_size=5) | st.lists(st.integers()),
    )
)
def test_nothing_but_a_clear_refusal_comes_of_anything(document: dict[str, Any]) -> None:
    try:
        make_rule(read_user_rule({**GOOD, **document}))
    except BadRequestError as error:
        assert error.message


def test_every_figure_of_a_step_is_offered():
    assert set(STEP_FIGURES) == set(_OF_STEP)


def test_a_metric_that_is_logged_by_validations_alone_is_judged_there() -> None:
    values: list[float | None] = [None] * 29 + [0.01]
    points = points_of("val-core/gsm8k/acc/mean@1", values)
    points[-1] = with_validation(points[-1])

    def fires(metric: str, threshold: float) -> bool:
        document = {"metric": metric, "comparison": "below", "threshold": threshold}
        rules = [make_rule(read_user_rule(document))]
        return bool(evaluate(rules, history_of(points), AlertBook(), "step").events)

    assert fires("val-core/gsm8k/acc/mean@1", 0.1)
    assert not fires("step_duration_s", 60.0), "a validation disturbs what is timed"
