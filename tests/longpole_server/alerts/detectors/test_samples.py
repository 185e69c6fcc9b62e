from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from longpole_server.alerts.detectors.samples import (
    Preempted,
    ReplicaGone,
    RewardTimeout,
    SyncFailed,
)
from longpole_server.alerts.detectors.staleness import StaleDrops
from longpole_server.alerts.engines import EngineStep
from longpole_server.alerts.history import History, StepPoint
from longpole_server.alerts.rule import Judgement
from longpole_server.model.diagnosis import Entity
from support.alert_histories import history_of, make_counts, make_point


def look(counts: Sequence[dict[str, Any]]) -> History:
    points = [
        make_point(step, samples=make_counts(**fields)) for step, fields in enumerate(counts, 1)
    ]
    return history_of(points)


BOTH: dict[str, Any] = {"replicas": ["a", "b"]}
ONE: dict[str, Any] = {"replicas": ["a"]}


@pytest.mark.parametrize(
    ("steps", "fires"),
    [
        ([BOTH] * 5, False),
        ([BOTH] * 5 + [ONE], False),
        ([BOTH] * 5 + [ONE] * 2, True),
        ([BOTH] * 2 + [ONE] * 2, False),
    ],
)
def test_a_replica_is_gone_after_two_steps_without_a_sample(
    steps: list[dict[str, Any]], fires: bool
):
    history = look(steps).focus(Entity("replica", "b"))
    assert ReplicaGone().judge(history).firing == fires


def with_engines(step: int, **scrapes: int) -> StepPoint:
    engines = {name: EngineStep(name, count) for name, count in scrapes.items()}
    return replace(make_point(step), engines=engines)


def test_an_engine_that_reports_nothing_more_is_gone_where_samples_name_no_replica():
    alive = [with_engines(step, a=20, b=20) for step in range(1, 6)]
    silent = [with_engines(6, a=20, b=0), with_engines(7, a=20)]
    short = [with_engines(6, a=1), with_engines(7, a=1)]

    def judge(points: list[StepPoint]) -> Judgement:
        return ReplicaGone().judge(history_of(points).focus(Entity("replica", "b")))

    assert judge([*alive, *silent]).firing
    assert not judge([*alive, silent[0]]).firing
    assert not judge([*alive, *short]).firing, "steps too short to be scraped say nothing"


def test_samples_without_a_score_after_there_were_scores():
    assert RewardTimeout().judge(look([{}, {"num_scored": 70, "num_unscored": 30}])).firing
    assert not RewardTimeout().judge(look([{"num_scored": 0}] * 5)).is_judged
    # Half of them were aborted at the sync, and were to have no score.
    thrown_away = {"num_scored": 50, "num_unscored": 0}
    assert not RewardTimeout().judge(look([{}, thrown_away])).firing
    none_due = {"num_scored": 0, "num_unscored": 0}
    assert not RewardTimeout().judge(look([{}, none_due])).is_judged


def test_zeros_after_the_longest_scoring_and_zeros_that_are_earned():
    usual = {"score_median_s": 1.0, "score_max_s": 2.0}
    timed_out = {
        "score_median_s": 1.0,
        "score_max_s": 30.0,
        "num_zero_rewards": 40,
        "num_zero_at_max": 30,
    }
    assert RewardTimeout().judge(look([usual] * 5 + [timed_out])).firing
    # A quick scorer takes about as long for wrong answers as for right ones.
    quick = {"score_median_s": 0.1, "score_max_s": 0.1, "num_zero_at_max": 60}
    assert not RewardTimeout().judge(look([quick] * 6)).firing


def test_a_policy_version_that_stands_still():
    advancing = [{"version_max": step} for step in range(10)]
    assert not SyncFailed().judge(look(advancing)).firing
    stuck = [*advancing, *[{"version_max": 9}] * 4]
    judgement = SyncFailed().judge(look(stuck))
    assert (judgement.firing, judgement.words["version"]) == (True, "9")
    every_fifth = [{"version_max": step // 5} for step in range(25)]
    assert not SyncFailed().judge(look(every_fifth)).firing
    assert not SyncFailed().judge(look([*every_fifth, *[{"version_max": 4}] * 6])).firing
    assert SyncFailed().judge(look([*every_fifth, *[{"version_max": 4}] * 7])).firing
    never = [{"version_max": 0}] * 10
    assert not SyncFailed().judge(look(never)).is_judged


def test_preempted_and_dropped_samples():
    preempted = {"num_preempted": 20, "num_reporting_preemptions": 100}
    assert Preempted().judge(look([preempted])).firing
    assert not Preempted().judge(look([{}])).is_judged
    assert StaleDrops().judge(look([{"num_dropped_stale": 30}])).firing
    assert not StaleDrops().judge(look([{}])).is_judged
    logged = history_of([make_point(1, {"stale_drop_ratio": 0.3})])
    assert StaleDrops().judge(logged).firing
