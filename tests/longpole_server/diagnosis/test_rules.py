from longpole_server.diagnosis.families import (
    LOGPROB,
    OUTSIDE,
    OVERHEAD,
    REWARD,
    ROLLOUT,
    SYNC,
    UPDATE,
)
from longpole_server.diagnosis.layers import LAYERS
from longpole_server.diagnosis.rules import RULES, rules_of
from longpole_server.diagnosis.thresholds import THRESHOLDS
from support.diagnosis_schema import VERDICTS


def test_codes_are_of_the_closed_list_and_unique():
    codes = [rule.code for rule in RULES]
    assert set(codes) <= VERDICTS
    assert len(set(codes)) == len(codes)


def test_every_family_has_rules():
    for family in (ROLLOUT, REWARD, LOGPROB, UPDATE, SYNC, OVERHEAD, OUTSIDE):
        assert rules_of(family)


def test_rollout_precedence():
    assert [rule.code for rule in rules_of(ROLLOUT)] == [
        "rollout.preemption",
        "rollout.tool",
        "rollout.reward",
        "rollout.truncation",
        "rollout.imbalance",
        "rollout.long_tail",
        "rollout.engine",
        "rollout.unexplained",
    ]


def test_rules_explain_themselves():
    names = {threshold.name for threshold in THRESHOLDS}
    for rule in RULES:
        assert set(rule.thresholds) <= names
        assert rule.title
        assert rule.proof
        assert rule.recoverable
        assert rule.next
        assert rule.sources
        assert set(rule.sources) <= set(LAYERS)


def test_thresholds_give_reason_and_source():
    assert len({threshold.name for threshold in THRESHOLDS}) == len(THRESHOLDS)
    for threshold in THRESHOLDS:
        assert threshold.reason
        assert threshold.source
        assert threshold.unit
