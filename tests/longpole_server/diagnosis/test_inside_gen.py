"""The inside of gen: what samples tell, and what several steps tell together."""

from dataclasses import replace

import pytest

from longpole_server.diagnosis import diagnose
from longpole_server.diagnosis.inside_gen import InsideGen, combine
from longpole_server.model.facts import EngineWindow, RunFacts
from support.steps import facts, samples

RUN = RunFacts("run", "run", system="verl", gpu_count=16)
LONG_GEN = {"gen": 100.0, "old_log_prob": 8.0, "update_actor": 30.0}


def of_replica(name: str) -> InsideGen:
    return InsideGen(replica_ratio=1.5, replica_length_ratio=1.0, slowest_replica=name)


def test_another_replica_that_is_slowest_in_each_step_is_no_slow_replica():
    assert combine([of_replica(str(step)) for step in range(6)]).replica_ratio is None
    mostly = [of_replica("a")] * 4 + [of_replica("b"), of_replica("c")]
    assert combine(mostly).replica_ratio == pytest.approx(1.5)


def test_tools_of_one_replica_are_not_taken_for_slow_decoding():
    # 95 s each; those of one replica are half of it in tools, and nobody tells decode seconds.
    many = samples(
        [95.0] * 64,
        [4000] * 32 + [2000] * 32,
        replicas=["a", "b"] * 16 + ["c"] * 32,
        tool_s=[0.0] * 32 + [47.5] * 32,
    )
    steps = [
        replace(facts(LONG_GEN, run=RUN, step=number), trajectories=many) for number in range(1, 4)
    ]
    assert "imbalance.replica" not in {f.code for f in diagnose(RUN, steps).findings}


@pytest.mark.parametrize(("most", "confidence"), [(0.0, "high"), (4.0, "medium")])
def test_samples_preempted_of_unknown_extent_leave_a_long_tail_unsure(most: float, confidence: str):
    loop = "timing_s/agent_loop/"
    scalars = {
        f"{loop}generate_sequences/max": 98.0,
        f"{loop}generate_sequences/mean": 40.0,
        f"{loop}slowest/generate_sequences": 98.0,
        f"{loop}slowest/response_length": 4000.0,
        f"{loop}num_preempted/max": most,
        "response_length/mean": 1500.0,
    }
    step = facts(LONG_GEN, scalars, run=RUN)
    diagnosis = diagnose(RUN, [step])
    assert (diagnosis.verdict, diagnosis.confidence) == ("rollout.long_tail", confidence)


def test_preempted_work_comes_in_bursts_and_one_step_does_not_make_it():
    bursts = [InsideGen(recomputed_ratio=ratio) for ratio in (0.04, 0.17, 0.02, 0.12, 0.0)]
    assert combine(bursts).recomputed_ratio == pytest.approx(0.06)
    once = [InsideGen(recomputed_ratio=ratio) for ratio in (0.0, 0.0, 0.0, 0.9)]
    assert combine(once).recomputed_ratio == 0


def test_preempted_work_that_may_reach_the_limit_leaves_later_causes_unsure():
    told = InsideGen(recomputed_ratio=0.04, recomputed_ratio_low=0.03, recomputed_ratio_high=0.06)
    assert told.leaves_preemption_open(0.05)
    assert not replace(told, recomputed_ratio_high=0.045).leaves_preemption_open(0.05)
    assert InsideGen().leaves_preemption_open(0.05)
    assert InsideGen(preempted_most=-1.0).leaves_preemption_open(0.05)
    assert not InsideGen(preempted_most=0.0).leaves_preemption_open(0.05)


LONG_TAIL = ([30.0] * 99 + [97.0], [1500] * 99 + [8000])
WITH_ROOM = EngineWindow("a", 100.0, kv_usage_max_ratio=0.6)
FULL = EngineWindow("a", 100.0, kv_usage_max_ratio=0.97)


@pytest.mark.parametrize(
    ("preemptions", "engines", "confidence"),
    [
        (None, (), "medium"),
        # verl's word for "my engine does not say".
        (-1, (), "medium"),
        (0, (), "high"),
        (None, (WITH_ROOM,), "high"),
        (None, (FULL,), "medium"),
        (None, (replace(FULL, preemptions=0.0),), "high"),
    ],
)
def test_a_long_tail_is_high_though_nobody_reports_preemption(
    preemptions: int | None, engines: tuple[EngineWindow, ...], confidence: str
):
    many = samples(*LONG_TAIL, preemptions=[preemptions] * 100)
    step = replace(facts(LONG_GEN, run=RUN, trajectories=many), engine_windows=engines)
    diagnosis = diagnose(RUN, [step])
    assert (diagnosis.verdict, diagnosis.confidence) == ("rollout.long_tail", confidence)
    assert ("nobody reports preemptions" in diagnosis.summary) == (confidence == "medium")
    is_silent = "preemptions" in diagnosis.sources.not_reported
    assert is_silent == (preemptions != 0 and (not engines or engines[0].preemptions is None))


@pytest.mark.parametrize("count", [16, 40])
def test_the_one_of_few_samples_that_all_wait_for_gives_back_its_time(count: int):
    num_long = max(1, count // 20)
    few = samples(
        [22.0] * (count - num_long) + [98.0] * num_long,
        [900] * (count - num_long) + [4000] * num_long,
        preemptions=[0] * count,
    )
    diagnosis = diagnose(RUN, [facts(LONG_GEN, run=RUN, trajectories=few)])
    assert diagnosis.verdict == "rollout.long_tail"
    assert diagnosis.recoverable_s_per_step == pytest.approx(76.0)
