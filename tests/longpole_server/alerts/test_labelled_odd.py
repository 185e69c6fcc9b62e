"""Odd runs: nothing fires wrongly on them, and trouble in them is found."""

import zlib

import numpy as np
import pytest

from longpole_server.alerts.catalogue import BUILT_IN_RULES
from support.alert_labels import judge_labelled
from support.alert_odd_cases import ODD_CASES

STEP_RULES = [rule for rule in BUILT_IN_RULES if rule.trigger == "step"]


@pytest.mark.parametrize("name", ODD_CASES)
def test_odd_runs(name: str):
    rng = np.random.default_rng([7, zlib.crc32(name.encode())])
    outcome = judge_labelled(ODD_CASES[name](rng), STEP_RULES)
    assert not outcome.false
    assert not outcome.missed
