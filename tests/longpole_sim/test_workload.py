import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longpole_sim import Cluster, StepPlan, make_run, plan_run, plan_steps
from longpole_sim.scenarios import SCENARIOS
from longpole_sim.workload import first_step_of_attempt

SMALL = Cluster(nodes=1, gpus_per_node=2)
every_scenario = pytest.mark.parametrize("name", sorted(SCENARIOS))


def take(count: int, scenario: str, seed: int = 0) -> list[StepPlan]:
    return list(itertools.islice(plan_steps(scenario, seed, cluster=SMALL), count))


@every_scenario
def test_same_seed_same_run(name: str) -> None:
    assert take(3, name, seed=7) == take(3, name, seed=7)
    assert take(3, name, seed=7) != take(3, name, seed=8)


@every_scenario
def test_stages_follow_each_other_and_nearly_fill_the_step(name: str) -> None:
    for plan in take(12, name):
        ends = [0.0]
        for stage in plan.stages:
            assert stage.start_s >= ends[-1]
            assert stage.end_s > stage.start_s
            ends.append(stage.end_s)
        assert ends[-1] <= plan.duration_s + 1e-9
        covered = sum(stage.duration_s for stage in plan.stages)
        assert 0.95 * plan.duration_s <= covered <= plan.duration_s + 1e-9


@every_scenario
def test_trajectories_lie_inside_gen_and_their_parts_inside_them(name: str) -> None:
    for plan in take(2, name):
        gen = plan.stage("gen")
        assert gen is not None
        for item in plan.trajectories:
            assert gen.start_s <= item.start_s < item.end_s < gen.end_s
            assert item.parts[0].start_s == item.start_s
            assert item.parts[-1].end_s == item.end_s


@every_scenario
def test_steps_of_a_run_follow_each_other(name: str) -> None:
    for before, after in itertools.pairwise(take(8, name)):
        assert after.start_s >= before.start_s + before.duration_s


def test_a_default_step_has_hundreds_of_samples_in_groups_of_sixteen() -> None:
    plan = next(plan_steps())
    assert len(plan.trajectories) == 512
    groups: dict[str, set[str]] = {}
    for item in plan.trajectories:
        groups.setdefault(item.group_id, set()).add(item.replica)
    assert len(groups) == 32
    assert all(len(replicas) == 1 for replicas in groups.values())
    assert len({item.trajectory_id for item in plan.trajectories}) == 512


def test_validation_is_between_steps_and_checkpoints_are_inside() -> None:
    plans = list(plan_steps("long_tail", steps=20, cluster=SMALL))
    assert [plan.step for plan in plans if plan.between] == [10, 20]
    assert [plan.step for plan in plans if plan.stage("save_checkpoint")] == [5, 10, 15, 20]
    testing = plans[9].between[0]
    assert testing.start_s >= plans[9].duration_s
    assert plans[9].validation
    for item in plans[9].validation:
        assert item.phase == "validation"
        assert testing.start_s <= item.start_s < item.end_s <= testing.end_s


def test_sync_phases_fill_their_stage() -> None:
    sync = next(plan_steps("sync_slow", cluster=SMALL)).stage("update_weights")
    assert sync is not None
    assert sync.phases[0].start_s == sync.start_s
    assert sync.phases[-1].end_s == pytest.approx(sync.end_s)
    assert [phase.phase for phase in sync.phases][3] == "transfer"
    assert sync.method == "shared_nvme"
    assert sync.num_bytes


@given(st.floats(0.1, 100.0))
@settings(max_examples=20)
def test_speed_changes_times_and_nothing_else(speed: float) -> None:
    slow = next(plan_steps("tool_slow", 3, cluster=SMALL))
    fast = next(plan_steps("tool_slow", 3, cluster=SMALL, speed=speed))
    assert fast.duration_s == pytest.approx(slow.duration_s / speed)
    for one, other in zip(slow.trajectories, fast.trajectories, strict=True):
        assert other.duration_s == pytest.approx(one.duration_s / speed)
        assert other.output_tokens == one.output_tokens
        assert other.parts[-1].end_s == pytest.approx(one.parts[-1].end_s / speed)
    assert fast.mfu == slow.mfu


def test_a_hang_is_the_last_step_and_ends_in_its_stage() -> None:
    plans = list(plan_steps("hang", cluster=SMALL))
    assert [plan.step for plan in plans] == [1, 2, 3, 4, 5, 6]
    assert plans[-1].incident is not None
    assert plans[-1].stages[-1].stage == "update_actor"


def test_after_a_crash_the_second_attempt_goes_on_from_the_checkpoint() -> None:
    plans = list(plan_steps("resume", steps=9, cluster=SMALL))
    assert [(plan.attempt, plan.step) for plan in plans] == [
        *[(1, step) for step in range(1, 8)],
        *[(2, step) for step in range(6, 10)],
    ]
    assert plans[6].incident is not None
    assert plans[7].start_s > plans[6].start_s + plans[6].duration_s
    assert first_step_of_attempt(SCENARIOS["resume"], 2) == 6


def test_attempts_can_be_planned_apart() -> None:
    run = make_run("resume", 1, cluster=SMALL)
    together = [plan for plan in plan_run(run, 9) if plan.attempt == 2]
    apart = list(plan_run(run, 9, first_attempt=2))
    assert [plan.trajectories for plan in apart] == [plan.trajectories for plan in together]


def test_an_unknown_scenario_is_refused() -> None:
    with pytest.raises(KeyError):
        next(plan_steps("no such thing"))
