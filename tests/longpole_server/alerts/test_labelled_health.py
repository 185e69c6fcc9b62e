"""Every labelled run of training health, with every rule that is judged when a step closes."""

import numpy as np
import pytest

from longpole_server.alerts.catalogue import BUILT_IN_RULES
from support.alert_health_cases import HEALTH_CASES
from support.alert_labels import judge_labelled

RULES = [rule for rule in BUILT_IN_RULES if rule.trigger == "step"]


@pytest.mark.parametrize("name", HEALTH_CASES)
def test_labelled_runs(name: str):
    outcome = judge_labelled(HEALTH_CASES[name](np.random.default_rng(3)), RULES)
    assert not outcome.false
    assert not outcome.missed
