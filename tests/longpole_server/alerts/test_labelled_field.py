"""The second set of labelled runs, after cases that users of trainers and engines reported."""

import numpy as np
import pytest

from longpole_server.alerts.catalogue import BUILT_IN_RULES
from support.alert_field_cases import FIELD_CASES
from support.alert_field_health import FIELD_HEALTH_CASES
from support.alert_labels import judge_labelled

LEAK_RULES = [rule for rule in BUILT_IN_RULES if rule.rule_id == "kv.leak"]
STEP_RULES = [rule for rule in BUILT_IN_RULES if rule.trigger == "step"]


@pytest.mark.parametrize("name", FIELD_CASES)
def test_engines_that_serve_requests(name: str):
    outcome = judge_labelled(FIELD_CASES[name](np.random.default_rng(11)), LEAK_RULES)
    assert not outcome.false
    assert not outcome.missed


@pytest.mark.parametrize("name", FIELD_HEALTH_CASES)
def test_what_trainers_log(name: str):
    outcome = judge_labelled(FIELD_HEALTH_CASES[name](np.random.default_rng(11)), STEP_RULES)
    assert not outcome.false
    assert not outcome.missed
