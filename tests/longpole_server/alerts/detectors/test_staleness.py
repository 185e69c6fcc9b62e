from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from longpole_server.alerts.detectors.staleness import BoundExceeded, StaleDrops, StalenessDrift
from longpole_server.alerts.history import StepPoint
from support.alert_histories import (
    history_of,
    make_counts,
    make_point,
    make_run,
    make_stage,
    points_of,
)

LAG = "staleness_max"
MEAN = "staleness_mean"


def with_stage(points: Sequence[StepPoint], name: str, seconds: float) -> list[StepPoint]:
    stage = make_stage(name, seconds)
    return [replace(each, step=replace(each.step, stages=(stage,))) for each in points]


def with_scalars(points: Sequence[StepPoint], scalars: Mapping[str, float]) -> list[StepPoint]:
    return [replace(each, scalars={**each.scalars, **scalars}) for each in points]


def jitter(levels: Sequence[float], seed: int = 7) -> list[float]:
    rng = np.random.default_rng(seed)
    return [max(0.0, level + float(rng.normal(0, 0.15))) for level in levels]


def test_a_bound_is_compared_in_its_own_basis():
    run = make_run(staleness_bound=0.5, staleness_basis="sample_fraction")
    judgement = BoundExceeded().judge(history_of(points_of(LAG, [0.7]), run))
    assert (judgement.firing, judgement.unit) == (True, "sample_fraction")
    assert not BoundExceeded().judge(history_of(points_of(LAG, [0.7]))).is_judged


@pytest.mark.parametrize("basis", ["sample_fraction", "samples"])
def test_a_lag_in_versions_says_nothing_of_a_bound_in_another_basis(basis: str):
    points = points_of("training/off_policy/trajectory_staleness/max", [3.0])
    run = make_run(staleness_bound=0.5, staleness_basis=basis)
    judgement = BoundExceeded().judge(history_of(points, run))
    assert not judgement.is_judged
    assert judgement.quiet_because == (
        f"not judgeable: the bound is counted in {basis}, the lag in versions"
    )


def test_without_logged_lags_the_samples_versions_are_compared():
    counts = make_counts(version_max=9, version_min=4, lag_mean=2.0, flight_mean=1.5)
    point = make_point(1, samples=counts)
    judgement = BoundExceeded().judge(history_of([point], make_run(staleness_bound=4.0)))
    assert (judgement.firing, judgement.value) == (True, 5.0)
    assert judgement.words["side"] == (
        "samples age in flight (samples age 1.5 versions in flight, 0.5 in the queue): "
        "generation is slow"
    )


def test_a_lag_held_at_a_bound_of_two_or_more_says_which_side_is_slow():
    points = with_stage(points_of(LAG, [0.0, 1.0] + [4.0] * 10), "trainer_wait", 4.0)
    judgement = StalenessDrift().judge(history_of(points, make_run(staleness_bound=4.0)))
    assert judgement.firing
    assert judgement.words["what"] == "held at the bound of 4 for 10 steps"
    assert judgement.words["side"] == "the trainer waits 40 % of the step: generation is slow"


def test_a_bound_that_only_the_oldest_sample_touches_is_not_held():
    points = with_scalars(points_of(LAG, [4.0] * 50), {MEAN: 1.2})
    assert not StalenessDrift().judge(history_of(points, make_run(staleness_bound=4.0))).firing
    held = with_scalars(points_of(LAG, [4.0] * 50), {MEAN: 3.6})
    assert StalenessDrift().judge(history_of(held, make_run(staleness_bound=4.0))).firing


@pytest.mark.parametrize("bound", [1.0, None])
def test_one_step_off_lives_at_lag_one(bound: float | None):
    points = points_of(LAG, [0.0] + [1.0] * 60)
    assert not StalenessDrift().judge(history_of(points, make_run(staleness_bound=bound))).firing


def test_a_bound_in_another_basis_is_not_held():
    points = points_of(LAG, [4.0] * 60)
    run = make_run(staleness_bound=4.0, staleness_basis="tokens")
    assert not StalenessDrift().judge(history_of(points, run)).firing


def test_a_lag_that_drifts_away_from_its_start():
    run = make_run(staleness_bound=16.0)
    steady = points_of(MEAN, jitter([2.0] * 60))
    assert not StalenessDrift().judge(history_of(steady, run)).firing
    drifting = points_of(MEAN, jitter([2.0] * 40 + [2.0 + 0.15 * step for step in range(30)]))
    judgement = StalenessDrift().judge(history_of(drifting, run))
    assert judgement.firing
    assert judgement.baseline == pytest.approx(2.0, abs=0.15)
    assert "neither pauses nor waits are reported" in judgement.words["side"]


def test_filling_buffers_are_no_drift():
    warming = points_of(MEAN, jitter([min(3.0, 0.25 * step) for step in range(80)]))
    for count in range(12, 80):
        judgement = StalenessDrift().judge(
            history_of(warming[:count], make_run(staleness_bound=8.0))
        )
        assert not judgement.firing, count


def test_a_lag_without_a_baseline_yet_is_not_judged():
    judgement = StalenessDrift().judge(history_of(points_of(MEAN, [1.0] * 20)))
    assert judgement.quiet_because == (
        "not judgeable: its own baseline needs 40 steps of the attempt"
    )


@pytest.mark.parametrize(
    ("scalars", "side"),
    [
        ({"rollout_paused_ratio": 0.4}, "rollouts are paused 40 % of the time: the trainer"),
        (
            {"off_policy/in_flight/mean": 0.5, "off_policy/in_queue/mean": 2.5},
            "samples age in the queue (samples age 0.5 versions in flight, 2.5 in the queue)",
        ),
        (
            {
                "training/off_policy/trajectory_spans/mean": 3.5,
                "training/off_policy/trajectory_staleness/mean": 0.5,
            },
            "samples age in flight (samples age 2.5 versions in flight, 0.5 in the queue)",
        ),
        (
            {"rollout_paused_ratio": 0.3, "fully_async/trainer/idle_ratio": 0.3},
            "the two sides take turns",
        ),
        ({"rollout_paused_ratio": 0.0}, "neither side waits much"),
    ],
)
def test_the_side_is_told_by_waits_pauses_and_ages(scalars: dict[str, float], side: str):
    points = with_scalars(points_of(LAG, [4.0] * 12), {MEAN: 3.8, **scalars})
    judgement = StalenessDrift().judge(history_of(points, make_run(staleness_bound=4.0)))
    assert side in judgement.words["side"]


def counts_of(dropped: int, **fields: Any) -> StepPoint:
    return make_point(1, samples=make_counts(num_dropped_stale=dropped, **fields))


def test_drops_are_added_up_over_steps():
    points = [counts_of(0), counts_of(40), counts_of(10), counts_of(12)]
    judgement = StaleDrops().judge(history_of(points))
    assert judgement.firing
    assert judgement.value == pytest.approx(62 / 300)
    assert not StaleDrops().judge(history_of([counts_of(0), counts_of(40), counts_of(0)])).firing


def test_drops_are_read_off_counters_of_the_whole_training():
    names = ("dropped_stale_samples", "total_generated_samples")
    points = [
        make_point(
            step,
            {f"fully_async/count/{name}": value for name, value in zip(names, both, strict=True)},
        )
        for step, both in enumerate([(0, 100), (10, 200), (40, 300), (80, 400)], 1)
    ]
    judgement = StaleDrops().judge(history_of(points))
    assert judgement.value == pytest.approx(80 / 300)
    assert judgement.firing
    resumed = [*points, make_point(5, {f"fully_async/count/{name}": 0.0 for name in names})]
    assert not StaleDrops().judge(history_of(resumed)).is_judged
