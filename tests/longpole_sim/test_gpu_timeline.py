import itertools
import statistics

import pytest

from longpole_sim import Cluster, Run, StepPlan, make_run, plan_run
from longpole_sim.cluster import Gpu
from longpole_sim.gpu_timeline import GpuTimeline, make_timeline

CLUSTER = Cluster(nodes=2, gpus_per_node=8)
GPUS = [Gpu(node, index) for node in range(2) for index in range(8)]


def first_step(scenario: str) -> tuple[Run, StepPlan, GpuTimeline]:
    run = make_run(scenario, 5, cluster=CLUSTER)
    plan = next(plan_run(run))
    return run, plan, make_timeline(run, plan)


def window(plan: StepPlan, stage: str) -> tuple[float, float]:
    found = plan.stage(stage)
    assert found is not None
    return found.start_s, found.end_s


def test_segments_cover_the_step_without_holes() -> None:
    _, plan, timeline = first_step("long_tail")
    assert set(timeline.segments) == set(GPUS)
    for segments in timeline.segments.values():
        assert segments[0].start_s == 0.0
        for before, after in itertools.pairwise(segments):
            assert after.start_s == pytest.approx(before.end_s)
        assert segments[-1].end_s == pytest.approx(plan.next_s)


def test_gpus_of_a_replica_go_idle_as_its_samples_end() -> None:
    _, plan, timeline = first_step("long_tail")
    _, gen_end_s = window(plan, "gen")
    finished = sorted(item.end_s for item in plan.trajectories)
    late_s = (finished[-2] + finished[-1]) / 2
    early = [timeline.mean_levels(gpu, 0.5, 1.0) for gpu in GPUS]
    late = [timeline.mean_levels(gpu, late_s, late_s + 0.01) for gpu in GPUS]
    assert min(level.utilization_ratio for level in early) == 1.0
    busy = [level for level in late if level.utilization_ratio > 0]
    assert len(busy) == 2  # the replica that holds the last sample
    assert late_s < gen_end_s
    idle_power = max(level.power_watts for level in late if level.utilization_ratio == 0)
    assert idle_power < 140 < min(level.power_watts for level in early)


def test_utilisation_is_high_wherever_kernels_run_but_power_and_tensors_tell_apart() -> None:
    _, plan, timeline = first_step("long_tail")
    gpu = GPUS[0]
    decode = timeline.mean_levels(gpu, 0.3, 0.8)
    update = timeline.mean_levels(gpu, *window(plan, "update_actor"))
    sync = timeline.mean_levels(gpu, *window(plan, "update_weights"))
    assert decode.utilization_ratio == 1.0
    assert update.utilization_ratio > 0.95
    assert sync.utilization_ratio > 0.6
    assert update.tensor_active_ratio > 4 * decode.tensor_active_ratio > 0
    assert update.power_watts > decode.power_watts > sync.power_watts
    assert decode.dram_active_ratio > update.dram_active_ratio
    assert decode.memory_used_bytes > update.memory_used_bytes


def test_an_inefficient_update_shows_in_tensor_activity() -> None:
    efficient = first_step("update_compute")
    inefficient = first_step("update_inefficient")
    tensor = [
        timeline.mean_levels(GPUS[0], *window(plan, "update_actor")).tensor_active_ratio
        for _, plan, timeline in (efficient, inefficient)
    ]
    assert tensor[0] > 2.5 * tensor[1]


def test_a_throttled_replica_shows_in_its_clock() -> None:
    _, _, timeline = first_step("replica_slow")
    clocks = {gpu: timeline.mean_levels(gpu, 0.3, 0.8).sm_clock_hz for gpu in GPUS}
    slow = [
        gpu for gpu, clock in clocks.items() if clock < 0.7 * statistics.median(clocks.values())
    ]
    assert slow == [Gpu(0, 4), Gpu(0, 5)]
    assert timeline.mean_levels(slow[0], 0.3, 0.8).clocks_event_reasons & 0x40


def test_a_hang_spins_for_ever() -> None:
    run = make_run("hang", 5, cluster=CLUSTER)
    plan = list(plan_run(run))[-1]
    levels = make_timeline(run, plan).mean_levels(GPUS[3], 1e4, 1e4 + 1)
    assert levels.utilization_ratio == 1.0
    assert levels.tensor_active_ratio == 0.0
    assert levels.power_watts < 150
    assert make_timeline(run, plan).stage_at(1e4) == "update_actor"


def test_means_weigh_by_time() -> None:
    _, plan, timeline = first_step("long_tail")
    start_s, end_s = window(plan, "old_log_prob")
    before = timeline.mean_levels(GPUS[0], start_s - 0.01, start_s)
    inside = timeline.mean_levels(GPUS[0], start_s, end_s)
    mixed = timeline.mean_levels(GPUS[0], start_s - 0.01, start_s + 0.01)
    assert mixed.power_watts == pytest.approx((before.power_watts + inside.power_watts) / 2)


def test_stage_at_names_what_runs() -> None:
    _, plan, timeline = first_step("long_tail")
    start_s, end_s = window(plan, "gen")
    assert timeline.stage_at(start_s) == "gen"
    assert timeline.stage_at((start_s + end_s) / 2) == "gen"
    assert timeline.stage_at(plan.next_s + 1) == ""


def test_validation_decodes_too() -> None:
    run = make_run("long_tail", 5, cluster=CLUSTER)
    plan = list(plan_run(run, 10))[-1]
    start_s, _ = window(plan, "testing")
    levels = make_timeline(run, plan).mean_levels(GPUS[0], start_s + 0.1, start_s + 0.3)
    assert levels.dram_active_ratio > 0.3


def test_a_lost_gpu_shows_nothing_and_an_idle_one_nothing_of_use() -> None:
    run = make_run("gpu_lost", 5, cluster=CLUSTER)
    lost = [make_timeline(run, plan).lost for plan in plan_run(run, 4)]
    assert [len(gpus) for gpus in lost] == [0, 0, 1, 1]
    _, plan, timeline = first_step("gpu_idle")
    busy = [timeline.mean_levels(gpu, 0.0, plan.duration_s).utilization_ratio for gpu in GPUS]
    assert sum(ratio == 0.0 for ratio in busy) == 1


def test_pools_of_their_own_work_at_the_same_time() -> None:
    run = make_run("async_long_tail", 5, cluster=CLUSTER)
    plan = list(plan_run(run, 3))[-1]
    timeline = make_timeline(run, plan)
    update = window(plan, "update_actor")
    trainer = timeline.mean_levels(run.cluster.trainer_gpus[0], *update)
    rollout = timeline.mean_levels(run.cluster.replicas[0].gpus[0], *update)
    assert trainer.tensor_active_ratio > 0.3 > rollout.tensor_active_ratio
    assert rollout.dram_active_ratio > 0.3
    waiting = timeline.mean_levels(run.cluster.trainer_gpus[0], *window(plan, "gen"))
    assert waiting.utilization_ratio == 0.0
