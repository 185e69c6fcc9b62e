"""The third set of labelled runs: leaks and lags of other shapes, seen by other scrapers."""

import zlib

import numpy as np
import pytest

from longpole_server.alerts.catalogue import BUILT_IN_RULES
from support.alert_foreign_cases import FOREIGN_CASES
from support.alert_labels import judge_labelled

RULES = [rule for rule in BUILT_IN_RULES if rule.rule_id.startswith(("kv.leak", "staleness."))]


@pytest.mark.parametrize("name", FOREIGN_CASES)
def test_foreign_runs(name: str):
    rng = np.random.default_rng([13, zlib.crc32(name.encode())])
    labelled = FOREIGN_CASES[name](rng)
    rules = [rule for rule in RULES if "kv.leak" not in labelled.expected or "leak" in rule.rule_id]
    outcome = judge_labelled(labelled, rules)
    assert not outcome.false
    assert not outcome.missed
