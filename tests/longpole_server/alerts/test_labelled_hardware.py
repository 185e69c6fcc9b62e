"""Labelled runs of GPUs, nodes and the server, with every rule that is judged as time goes by."""

import zlib

import numpy as np
import pytest

from longpole_server.alerts.catalogue import BUILT_IN_RULES
from support.alert_hardware_cases import HARDWARE_CASES
from support.alert_labels import judge_labelled

TIME_RULES = [rule for rule in BUILT_IN_RULES if rule.trigger == "time"]


@pytest.mark.parametrize("name", HARDWARE_CASES)
def test_hardware(name: str):
    rng = np.random.default_rng([5, zlib.crc32(name.encode())])
    outcome = judge_labelled(HARDWARE_CASES[name](rng), TIME_RULES)
    assert not outcome.false
    assert not outcome.missed


def test_every_rule_has_a_case():
    labelled = [case(np.random.default_rng(1)) for case in HARDWARE_CASES.values()]
    assert {rule for each in labelled for rule in each.expected} == {
        rule.rule_id for rule in TIME_RULES
    }
