import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from longpole_server.alerts.catalogue import BUILT_IN_RULES
from longpole_server.alerts.detectors.leak import KvLeak
from longpole_server.alerts.engines import EngineStep, Rest
from longpole_server.alerts.history import TRAINER, History, StepPoint
from longpole_server.alerts.rule import Judgement
from longpole_server.model.diagnosis import Entity
from support.alert_engine_series import EnginePlan, EngineRun, make_points
from support.alert_histories import history_of, make_point, make_run
from support.alert_labels import judge_labelled
from support.alert_leak_cases import LEAK_CASES

RULES = [rule for rule in BUILT_IN_RULES if rule.rule_id == "kv.leak"]


def rng() -> np.random.Generator:
    return np.random.default_rng(5)


def rest_point(
    step: int,
    kv: float | None,
    tokens: float | None = None,
    replica: str = "engine",
    **fields: float,
) -> StepPoint:
    rest = Rest("update_actor", "awake", 3, kv_used_ratio=kv, **fields)
    tokens = 1_000.0 * step if tokens is None else tokens
    engine = EngineStep(replica, 20, (rest,), tokens_first=tokens - 900, tokens_last=tokens)
    return replace(make_point(step), engines={replica: engine})


def judge(points: list[StepPoint], replica: str = "engine") -> Judgement:
    return KvLeak().judge(look(points, replica))


def look(points: list[StepPoint], replica: str = "engine") -> History:
    return history_of(points, make_run(state="live")).focus(Entity("replica", replica))


def rising(step: int) -> float:
    return 0.005 * step


def test_a_floor_that_rises_and_goes_on():
    judgement = judge([rest_point(step, rising(step)) for step in range(1, 31)])
    assert judgement.firing
    assert judgement.words["pool"] == "KV pool"
    assert judgement.words["left"] == "is full in 170 steps"
    assert {each.name for each in judgement.evidence} >= {"kv/slope_low_per_step", "kv/p_value"}


def test_a_pool_that_is_full_did_not_rise_by_more_than_all_of_it():
    judgement = judge([rest_point(step, min(1.0, 0.035 * step)) for step in range(1, 32)])
    assert judgement.words["left"] == "is full"
    assert float(judgement.words["rise"].split()[0]) <= 100


def test_ten_points_are_not_enough_in_an_engines_first_steps():
    judgement = judge([rest_point(step, rising(step)) for step in range(1, 15)])
    assert not judgement.firing
    assert judgement.quiet_because is not None
    assert "plateau in its first 20 steps" in judgement.quiet_because
    few = judge([rest_point(step, rising(step)) for step in range(1, 8)])
    assert few.quiet_because == "not judgeable: 7 of 10 steps with a rest are known"


def under_load(point: StepPoint, preemptions: float) -> StepPoint:
    """The same step, with as much running as ever."""
    engines = {
        name: replace(engine, preemptions=preemptions, running_mean=64.0, context_mean=2_000.0)
        for name, engine in point.engines.items()
    }
    return replace(point, engines=engines)


def test_a_pool_that_is_full_in_a_moment_is_not_waited_for_when_more_speaks_for_a_leak():
    points = [rest_point(step, 0.05 * step) for step in range(1, 13)]
    assert not judge(points).firing, "a cache that gives way fills a pool as quickly"
    assert judge([under_load(each, 5.0 * each.step.step) for each in points]).firing
    assert not judge([under_load(each, 5.0) for each in points]).firing


def test_a_standing_engine_says_nothing_new():
    points = [rest_point(step, rising(step), tokens=5_000.0) for step in range(1, 40)]
    assert not judge(points).is_judged


def test_a_restart_begins_anew_and_is_told_when_it_leaks_again():
    tokens = [1_000.0 * (step if step < 40 else step - 39) for step in range(1, 75)]
    levels = [0.006 * (step if step < 40 else step - 40) for step in range(1, 75)]
    points = [
        rest_point(step, level, count)
        for step, level, count in zip(range(1, 75), levels, tokens, strict=True)
    ]
    assert judge(points[:39]).firing
    after = judge(points[:43])
    assert after.cleared
    assert after.quiet_because is not None
    assert after.quiet_because.startswith("a restart in step 40 reset the floor")
    again = judge(points)
    assert again.firing
    assert "had reset it from 23.4 %" in again.words["support"]


def test_what_is_given_back_without_a_restart_was_evictable():
    levels = [0.012 * (step % 16) for step in range(1, 80)]
    points = [rest_point(step, level) for step, level in enumerate(levels, 1)]
    assert not any(judge(points[:count]).firing for count in range(10, 80))


def test_a_resized_pool_moves_the_floor():
    sizes = [1_000.0 - 20 * max(0, step - 20) for step in range(1, 50)]
    points = [rest_point(step, 200 / size, pool_size=size) for step, size in enumerate(sizes, 1)]
    judgement = judge(points)
    assert not judgement.firing
    assert judgement.quiet_because == (
        "its floor moved with the pool, which was resized at a wake-up"
    )


def test_a_never_resting_engine_is_not_judgeable():
    run = EngineRun({"engine": EnginePlan(lambda index: 0.0)}, 12, is_never_at_rest=True)
    judgement = judge(make_points(run, rng()))
    assert not judgement.is_judged
    assert judgement.quiet_because is not None
    assert "never at rest in 10 steps" in judgement.quiet_because
    assert not judge([make_point(1)]).is_judged


@pytest.mark.parametrize(
    ("fields", "label"),
    [
        ({"device_bytes": 80.0, "device_total_bytes": 100.0}, "device memory"),
        ({"host_bytes": 80.0, "host_total_bytes": 100.0}, "host memory"),
    ],
)
def test_pools_are_kept_apart(fields: dict[str, float], label: str):
    used = next(name for name in fields if name.endswith("_bytes") and "total" not in name)
    points = [
        rest_point(step, 0.0, None, "engine", **{**fields, used: 40.0 + 0.5 * step})
        for step in range(1, 41)
    ]
    judgement = judge(points)
    assert judgement.firing
    assert judgement.words["pool"] == label


def memory_points(allocated: Callable[[int], float], reserved: float) -> list[StepPoint]:
    gib = float(1 << 30)
    return [
        make_point(
            step, {"memory_allocated": allocated(step) * gib, "memory_reserved": reserved * gib}
        )
        for step in range(1, 50)
    ]


def test_torchs_memory_is_judged_where_the_trainer_logs_it():
    points = memory_points(lambda step: 20 + 0.8 * step, 70.0)
    assert [each.id for each in look(points).list_entities("replica")] == [TRAINER]
    judgement = judge(points, TRAINER)
    assert judgement.firing
    assert judgement.words["pool"] == "memory allocated by torch"


def test_a_peak_since_the_start_is_no_floor():
    points = memory_points(lambda step: 20 + 5 * (step // 6), 40.0)
    judgement = judge(points, TRAINER)
    assert not judgement.firing


def test_many_replicas_do_not_make_a_false_alarm_likelier():
    generator = rng()
    points = [make_point(step) for step in range(1, 41)]
    names = [f"engine-{index}" for index in range(24)]
    walks = {name: np.cumsum(generator.normal(0, 0.012, 40)) + 0.3 for name in names}
    points = [
        replace(
            point,
            engines={
                name: rest_point(
                    point.step.step, min(1.0, max(0.0, float(walks[name][index]))), replica=name
                ).engines[name]
                for name in names
            },
        )
        for index, point in enumerate(points)
    ]
    firing = [name for name in names if judge(points, name).firing]
    assert len(firing) <= 1


def wandering(seed: int, num_steps: int) -> list[StepPoint]:
    """A resident cache that remembers where it was: some draws rise for dozens of steps."""
    generator = np.random.default_rng(seed)
    level, memory = generator.uniform(0.15, 0.5), generator.uniform(0.0, 0.9)
    spread = generator.uniform(0.005, 0.03) * math.sqrt(1 - memory**2)
    noise = math.pow(10, generator.uniform(-3.5, -2.2))
    generator.integers(1, 5)
    points: list[StepPoint] = []
    away = 0.0
    for step in range(1, num_steps + 1):
        away = memory * away + generator.normal(0, spread)
        points.append(rest_point(step, level + away + generator.normal(0, noise)))
    return points


@pytest.mark.parametrize(
    ("seed", "num_steps"), [(116, 52), (1321, 28), (1849, 59), (13273, 30), (14193, 50)]
)
def test_a_cache_that_wanders_upward_is_no_leak(seed: int, num_steps: int):
    assert not judge(wandering(seed, num_steps)).firing


@pytest.mark.parametrize("name", LEAK_CASES)
def test_labelled_runs(name: str):
    outcome = judge_labelled(LEAK_CASES[name](np.random.default_rng(1)), RULES)
    assert not outcome.false
    assert not outcome.missed
