import pytest

from longpole_sim import Cluster, make_run, plan_run
from longpole_sim.engine_series import (
    COUNTERS,
    GENERATED,
    HITS,
    KV_USAGE,
    PREEMPTIONS,
    QUERIES,
    RECOMPUTED,
    RUNNING,
    WAITING,
    EngineMeter,
)
from longpole_sim.library import LIBRARY
from longpole_sim.plan import StepPlan

CLUSTER = Cluster(nodes=1, gpus_per_node=4)


def show(name: str) -> tuple[EngineMeter, StepPlan]:
    run = make_run(name, 2, cluster=CLUSTER)
    plan = next(plan_run(run))
    meter = EngineMeter(run.scenario, run.cluster.replicas[0])
    meter.show(plan.step, plan.trajectories)
    return meter, plan


def own(plan: StepPlan) -> list[int]:
    return [item.output_tokens for item in plan.trajectories if item.replica == "replica-0"]


def test_counters_add_up_to_what_the_samples_hold() -> None:
    meter, plan = show("long_tail")
    for second in range(int(plan.next_s) + 1):
        meter.advance(second, second + 1)
    reading = meter.read(plan.next_s)
    assert reading[GENERATED] == pytest.approx(sum(own(plan)))
    assert reading[HITS] / reading[QUERIES] == pytest.approx(15 / 16, abs=0.001)
    assert reading[PREEMPTIONS] == 0
    assert reading[RUNNING] == reading[WAITING] == 0
    assert reading[KV_USAGE] == 0


def test_counters_never_fall() -> None:
    meter, plan = show("preemption")
    before = dict.fromkeys(COUNTERS, 0.0)
    for second in range(int(plan.next_s) + 1):
        meter.advance(second, second + 1)
        reading = meter.read(second + 1)
        assert all(reading[name] >= before[name] for name in COUNTERS)
        before = dict(reading)
    assert before[PREEMPTIONS] > 0
    assert before[RECOMPUTED] > before[PREEMPTIONS]


def test_gauges_show_what_runs() -> None:
    meter, plan = show("long_tail")
    gen = plan.stages[0]
    early = meter.read(gen.start_s + 0.5)
    late = meter.read(gen.end_s - 0.3)
    assert early[RUNNING] > late[RUNNING] >= 0
    assert 0 < early[KV_USAGE] <= 0.5


def test_a_full_cache_is_full_and_a_leak_stays() -> None:
    meter, plan = show("kv_pressure")
    gen = plan.stages[0]
    steps = [gen.start_s + gen.duration_s * i / 200 for i in range(200)]
    assert max(meter.read(second)[KV_USAGE] for second in steps) == pytest.approx(0.985, abs=0.01)
    scenario = LIBRARY["kv_leak"]
    leaking = EngineMeter(scenario, CLUSTER.replicas[0])
    leaking.show(6, ())
    assert leaking.read(1.0)[KV_USAGE] == pytest.approx(5 * scenario.kv_floor_per_step)
