from dataclasses import replace

import pytest

from longpole_server.analysis.architectures_known import find_model_config
from longpole_server.analysis.ledger import assemble_step
from longpole_server.analysis.longtail_report import describe_tail, find_gen, trace_running
from longpole_server.model.facts import RunFacts, StepFacts, TrajectoryFacts
from support.steps import NS, facts, inputs, loop, samples, span

RUN = RunFacts(
    "run",
    "run",
    gpu_count=8,
    gpu_model="NVIDIA H100 80GB HBM3",
    model_config=find_model_config("qwen3-8b"),
)


def step_with(many: TrajectoryFacts | None) -> StepFacts:
    spans = [loop(0, 60), span("gen", 0, 50), span("update_actor", 50, 60)]
    return StepFacts(assemble_step(inputs(spans, run=RUN)), {}, many)


def many_samples(groups: int = 2) -> TrajectoryFacts:
    many = samples(
        [10.0, 20.0, 10.0, 40.0],
        [500, 1000, 500, 2000],
        tool_s=[0.0, 0.0, 0.0, 20.0],
        replicas=["a", "a", "b", "b"],
    )
    return replace(
        many,
        group_ids=[f"group {row % groups}" for row in range(4)],
        generate_s=[10.0, 20.0, 10.0, 20.0],
        tools=[None, None, None, "python"],
    )


def test_the_tail_of_a_step():
    tail, reason = describe_tail(RUN, step_with(many_samples()), "sync")
    assert reason is None
    assert tail is not None
    assert (tail.num_samples, tail.gen_s, tail.span_s, tail.most_running) == (4, 50, 40, 4)
    assert tail.idle_ratio == pytest.approx(1 - 80 / 200)
    assert (tail.rollout_gpus, tail.reason) == (8, None)
    assert tail.waste_gpu_s == pytest.approx(0.6 * 50 * 8)
    assert tail.unclaimed_ratio == pytest.approx(10 / 30)
    assert [stop.saved_s for stop in tail.stops] == [0, 0, 0]
    last, first = tail.by_replica
    assert (last.replica, last.end_s, last.early_s) == ("b", 40, 0)
    assert (first.replica, first.early_s, first.seconds_per_token) == ("a", 20, 0.02)
    assert last.waste_gpu_s == pytest.approx((10 * 0.5 / 2 + 20 * 0.75) * 8)
    assert last.stop_saved_s == (0, 0, 0)
    assert [share.id for share in tail.by_group] == ["group 1", "group 0"]
    assert tail.num_groups == 2
    assert {share.id for share in tail.by_activity} == {"python", "generate"}
    assert tail.time is not None
    assert tail.time.largest == 40
    assert tail.tokens is not None
    assert tail.tokens.mean == 1000
    assert tail.decode_bandwidth_ratio is not None


def test_unknown_gpus_leave_the_ratios():
    known = step_with(many_samples())
    known = replace(known, step=replace(known.step, gpu_count=None))
    tail, _ = describe_tail(replace(RUN, gpu_count=None), known, "sync")
    assert tail is not None
    assert tail.waste_gpu_s is None
    assert tail.reason == "the run's GPU count is not known"
    assert tail.by_replica[0].waste_gpu_s is None
    assert tail.by_replica[0].waste_ratio is not None
    assert tail.decode_bandwidth_reason is not None


def test_no_tail_says_why():
    assert describe_tail(RUN, step_with(None), "sync") == (
        None,
        "no training sample of this step is reported",
    )
    late = samples([5.0], start_s=52)
    assert describe_tail(RUN, step_with(late), "sync") == (
        None,
        "no training sample ran during gen",
    )


def test_with_separate_pools_samples_run_beside_the_trainer():
    known = step_with(samples([5.0], start_s=52))
    assert find_gen(known.step, "fully_async") is None
    tail, _ = describe_tail(RUN, known, "fully_async")
    assert tail is not None
    assert tail.gen_s == 5
    assert find_gen(facts({"gen": 5.0}).step, "sync") is None


def test_the_curve_of_running_samples():
    known = step_with(many_samples())
    gen = find_gen(known.step, "sync")
    curve = trace_running(many_samples(), gen)
    assert curve == ((0, 4), (10, 2), (20, 1), (40, 0), (50, 0))
    assert trace_running(samples([]), gen) == ()
    busy = samples([float(seconds) for seconds in range(1, 2000)])
    thinned = trace_running(busy, None, max_points=50)
    assert len(thinned) == 50
    assert thinned[0] == (0, 1999)
    assert thinned[-1] == (1999, 0)


def test_hours_of_wall_clock():
    many = replace(many_samples(), start_ns=[0] * 4, end_ns=[round(49.5 * NS)] * 4)
    tail, _ = describe_tail(RUN, step_with(many), "sync")
    assert tail is not None
    assert tail.idle_ratio == pytest.approx(0.01)
