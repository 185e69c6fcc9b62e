import dataclasses
import itertools
from functools import cache

import pytest

from longpole.conventions.stages import GEN, UPDATE_WEIGHTS
from longpole_sim import Cluster, StepPlan, make_run, plan_run
from longpole_sim.library import LIBRARY
from longpole_sim.scalars import step_scalars

CLUSTER = Cluster(nodes=2, gpus_per_node=8)
POOLS = sorted(name for name, scenario in LIBRARY.items() if scenario.pools is not None)


@cache
def plan(name: str, steps: int = 4) -> tuple[StepPlan, ...]:
    run = make_run(name, 1, cluster=CLUSTER)
    return tuple(plan_run(run, run.scenario.first_step - 1 + steps))


@pytest.mark.parametrize("name", POOLS)
def test_trainer_and_rollout_share_no_gpu(name: str) -> None:
    cluster = make_run(name, cluster=CLUSTER).cluster
    rollout = {gpu for replica in cluster.replicas for gpu in replica.gpus}
    assert not rollout & set(cluster.trainer_gpus)
    assert len(rollout) + len(cluster.trainer_gpus) == cluster.gpu_count


@pytest.mark.parametrize("name", POOLS)
def test_a_step_takes_its_samples_once_all_are_there(name: str) -> None:
    for step in plan(name):
        gen = step.stage(GEN)
        assert gen is not None
        assert gen.end_s >= max(item.end_s for item in step.trajectories)
        assert {item.step for item in step.trajectories} == {step.step}


@pytest.mark.parametrize("name", POOLS)
def test_what_the_rollout_works_on_is_seen_by_every_step_it_lies_in(name: str) -> None:
    steps = plan(name)
    for before, after in itertools.pairwise(steps):
        late = {item.trajectory_id for item in before.rollout if item.end_s > before.next_s}
        assert late <= {item.trajectory_id for item in after.rollout}
        assert all(item.end_s > 0 and item.start_s < before.next_s for item in before.rollout)


def test_weights_that_arrive_pause_the_samples_under_way() -> None:
    paused = [item for step in plan("async_long_tail", 6) for item in step.trajectories]
    paused = [item for item in paused if item.paused_s > 0]
    assert paused
    for item in paused:
        assert item.policy_version_end == item.policy_version + 1
        generated = sum(part.tokens for part in item.parts)
        assert generated == pytest.approx(item.output_tokens, abs=len(item.parts))


def test_a_serial_rollout_begins_when_the_trainer_is_done() -> None:
    for step in plan("async_serial")[1:]:
        assert min(item.start_s for item in step.trajectories) >= 0


def test_an_ahead_rollout_begins_before_its_step() -> None:
    for step in plan("async_long_tail")[1:]:
        assert min(item.start_s for item in step.trajectories) < 0


def test_lag_is_as_asked() -> None:
    run = make_run("async_bound_exceeded", 1, cluster=CLUSTER)
    for step in plan_run(run, run.scenario.first_step + 2):
        scalars = step_scalars(run, step)
        assert step.step - 1 - step.trajectories[0].policy_version == 5
        assert scalars["training/off_policy/trajectory_staleness_worst/max"] == 5


def test_one_step_off_syncs_before_it_trains_and_logs_the_rollout_apart() -> None:
    scenario = dataclasses.replace(LIBRARY["async_long_tail"], mode="one_step_off", trainer="v0")
    run = make_run(scenario, 1, cluster=CLUSTER)
    step = list(plan_run(run, 2))[-1]
    assert [stage.stage for stage in step.stages[:2]] == [GEN, UPDATE_WEIGHTS]
    scalars = step_scalars(run, step)
    assert scalars["timing_s/generate_async"] > scalars["timing_s/gen"]
    assert scalars["timing_s/sync_rollout_weights"] == scalars["timing_s/update_weights"]


def test_a_fully_asynchronous_trainer_logs_its_buffer_and_no_agent_loop() -> None:
    scenario = dataclasses.replace(LIBRARY["async_rollout_starved"], mode="fully_async")
    run = make_run(scenario, 1, cluster=CLUSTER)
    scalars = step_scalars(run, list(plan_run(run, 3))[-1])
    full = scalars["fully_async/static/max_queue_size"]
    assert scalars["fully_async/monitor/queue/mq_queue_size"] == full
    assert "timing_s/timing_s/param_sync" in scalars
    assert not [name for name in scalars if "agent_loop" in name]
