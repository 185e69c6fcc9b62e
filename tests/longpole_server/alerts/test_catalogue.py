import re

import pytest

from longpole_server.alerts.catalogue import BUILT_IN_RULES
from longpole_server.alerts.history import History, Moment
from longpole_server.alerts.rule import Rule
from support.alert_histories import (
    RUN,
    history_at,
    history_of,
    make_point,
    make_run,
    points_of,
)

CLOSED_LIST = [
    "kv.leak",
    "kv.pressure",
    "staleness.drift",
    "staleness.bound_exceeded",
    "staleness.drops",
    "reward.jump",
    "reward.collapse",
    "kl.high",
    "entropy.collapse",
    "length.collapse",
    "length.explosion",
    "clip.high",
    "mfu.low",
    "throughput.decay",
    "throughput.regression",
    "grad.spike",
    "loss.nan",
    "advantage.variance",
    "mismatch.high",
    "sync.slow",
    "sync.failed",
    "replica.gone",
    "trainer.gone",
    "reward.timeout",
    "run.stalled",
    "run.hang",
    "gpu.lost",
    "gpu.xid",
    "gpu.throttled",
    "gpu.idle",
    "node.silent",
    "clock.skew",
    "spool.filling",
    "disk.filling",
    "ingest.dropping",
]

each_rule = pytest.mark.parametrize("rule", BUILT_IN_RULES, ids=lambda rule: rule.rule_id)


def test_the_ids_are_the_closed_list() -> None:
    assert sorted(rule.rule_id for rule in BUILT_IN_RULES) == sorted(CLOSED_LIST)


@each_rule
def test_a_rule_says_everything(rule: Rule) -> None:
    for text in (rule.title, rule.condition, rule.summary, rule.cause, rule.first_look):
        assert text.strip()
    assert rule.summary.endswith(".")
    assert rule.detector.reads
    assert rule.for_steps >= 1
    assert not (rule.for_steps > 1 and rule.for_s > 0)
    assert not (rule.for_steps > 1 and rule.trigger == "time")
    assert set(re.findall(r"\{(\w+)\}", rule.cause + rule.first_look)) <= {"entity"}


@each_rule
def test_without_data_a_rule_says_why_it_is_quiet(rule: Rule) -> None:
    for history in (
        history_of([make_point(1)]),
        history_at(1.0, make_run(state="live")),
        History(Moment(0, 0), entity=RUN),
    ):
        judgement = rule.detector.judge(history)
        assert not judgement.firing
        assert judgement.quiet_because


@each_rule
def test_an_unjudged_rule_never_looks_healthy(rule: Rule) -> None:
    judgement = rule.detector.judge(history_of([make_point(1)]))
    if not judgement.is_judged:
        assert (judgement.quiet_because or "").startswith("not judgeable: ")
        assert not judgement.cleared


@pytest.mark.parametrize(
    ("newest", "is_firing"),
    [([0.9], False), ([1.5], False), ([4.0], True), ([1.5, 1.5], False), ([1.5, 1.4, 1.6], True)],
    ids=["three times", "five times", "thirteen times", "twice five times", "thrice five times"],
)
def test_a_gradient_spikes_by_eight_times_or_for_three_steps(newest: list[float], is_firing: bool):
    (rule,) = (each for each in BUILT_IN_RULES if each.rule_id == "grad.spike")
    usual = [0.3 * (1 + 0.1 * (step % 3 - 1)) for step in range(40)]
    judgement = rule.detector.judge(history_of(points_of("grad_norm", [*usual, *newest])))
    assert judgement.firing is is_firing
