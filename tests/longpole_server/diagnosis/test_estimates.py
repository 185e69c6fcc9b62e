"""What fixing a verdict gives back: a range whose bounds are derived, never the bound alone."""

from dataclasses import replace

import pytest

from longpole_server.diagnosis import diagnose, make_baseline
from longpole_server.diagnosis.baseline import Baseline
from longpole_server.model.diagnosis import Diagnosis
from longpole_server.model.facts import GpuFacts, RunFacts, StepFacts, TrajectoryFacts
from support.steps import facts, samples

RUN = RunFacts("run", "run", system="verl", gpu_count=16)
LONG_GEN = {"gen": 100.0, "old_log_prob": 8.0, "update_actor": 30.0}
LONG_UPDATE = {"gen": 20.0, "old_log_prob": 8.0, "update_actor": 100.0}
LOOP = "timing_s/agent_loop/"


def estimate(diagnosis: Diagnosis, verdict: str) -> tuple[float, float, float]:
    """Return low, estimate and high, after checks that hold for all of them."""
    assert diagnosis.verdict == verdict
    usual_s, bounds = diagnosis.recoverable_s_per_step, diagnosis.recoverable_s_per_step_range
    assert usual_s is not None
    assert bounds is not None
    low_s, high_s = bounds
    assert 0 <= low_s <= usual_s < high_s
    return low_s, usual_s, high_s


def of_samples(many: TrajectoryFacts) -> Diagnosis:
    return diagnose(RUN, [facts(LONG_GEN, run=RUN, trajectories=many)])


@pytest.mark.parametrize("kind", ["tool_s", "score_s"])
def test_slow_calls_of_a_few_come_down_to_the_usual_one_at_least(kind: str):
    spent: list[float | None] = [*[10.0] * 90, *[85.0] * 10]
    many = samples([40.0] * 90 + [98.0] * 10, [1500] * 100, **{kind: spent})  # pyright: ignore[reportArgumentType]
    found = estimate(of_samples(many), "rollout.tool" if kind == "tool_s" else "rollout.reward")
    # Without any call others end last, at 30 s; with half of them the same ones at 55.5 s; with
    # calls of 10 s at the most those of 23 s are behind the others of 40 s.
    assert found == pytest.approx((42.5, 42.5, 68.0))


def test_equally_slow_calls_may_all_be_needed():
    many = samples([98.0] * 100, [1500] * 100, tool_s=[80.0] * 100)
    assert estimate(of_samples(many), "rollout.tool") == pytest.approx((0.0, 40.0, 80.0))


def test_slow_tools_of_the_agent_loop_come_down_to_the_mean_at_least():
    scalars = {
        f"{LOOP}generate_sequences/max": 30.0,
        f"{LOOP}generate_sequences/mean": 20.0,
        f"{LOOP}slowest/generate_sequences": 20.0,
        f"{LOOP}slowest/tool_calls": 75.0,
        f"{LOOP}tool_calls/mean": 50.0,
        "response_length/mean": 1500.0,
    }
    found = diagnose(RUN, [facts(LONG_GEN, scalars, run=RUN)])
    assert estimate(found, "rollout.tool") == pytest.approx((25.0, 37.5, 65.0))


@pytest.mark.parametrize("replicas", [2, 4, 8])
def test_samples_of_a_slow_replica_can_be_shared_out(replicas: int):
    names = [f"replica-{at % replicas}" for at in range(64)]
    times = [98.0 if name == "replica-0" else 49.0 for name in names]
    many = samples(times, [1500] * 64, replicas=names, preemptions=[0] * 64)
    low_s, usual_s, high_s = estimate(of_samples(many), "rollout.imbalance")
    assert high_s == pytest.approx(49.0)
    assert low_s == pytest.approx(49.0 * (1 - 1 / replicas))
    assert usual_s == pytest.approx((low_s + high_s) / 2)
    # What sharing out by pace gives is never less.
    shared_out_s = 98.0 - replicas * 49.0 / (replicas - 1 + 0.5)
    assert low_s <= shared_out_s <= high_s


def test_slow_engines_of_a_known_past_go_back_to_it():
    even = samples([97.0] * 64, [1500] * 64, preemptions=[0] * 64)
    lengths = {"response_length/mean": 1500.0, "response_length/max": 1500.0}
    lengths |= {"perf/total_num_tokens": 64 * 1800.0, "prompt_length/mean": 300.0}
    before = [
        facts(LONG_GEN | {"gen": 50.0 + 0.1 * at}, lengths, run=RUN, step=at) for at in range(1, 12)
    ]
    now = facts(LONG_GEN, lengths, run=RUN, step=20, trajectories=even)
    found = estimate(diagnose(RUN, [now], make_baseline(before)), "rollout.engine")
    # 50.65 s were usual; at least to within 1.25 of it; at most to 100 tokens/s.
    fastest_s = 100 * (1 - 1500 / 97.0 / 100)
    assert found == pytest.approx((100 - 1.25 * 50.65, 100 - 50.65, fastest_s), abs=0.1)


def test_a_slow_rate_alone_may_be_all_that_the_model_allows():
    even = samples([97.0] * 64, [1500] * 64, preemptions=[0] * 64)
    rate = 1500 / 97.0
    found = estimate(of_samples(even), "rollout.engine")
    assert found == pytest.approx((0.0, 100 * (1 - rate / 30), 100 * (1 - rate / 100)))


def update(scalars: dict[str, float], baseline: Baseline | None = None) -> Diagnosis:
    return diagnose(RUN, [facts(LONG_UPDATE, scalars, run=RUN)], baseline)


def test_an_inefficient_update_reaches_the_low_band_at_least_and_the_target_at_most():
    found = estimate(update({"perf/mfu/actor": 0.10}), "update.inefficient")
    assert found == pytest.approx((50.0, 100 * (1 - 0.10 / 0.35), 80.0))


def test_an_update_that_fell_goes_back_to_within_scatter_of_its_past_at_least():
    before = [
        facts(LONG_UPDATE, {"perf/mfu/actor": 0.36}, run=RUN, step=number) for number in range(1, 9)
    ]
    found = estimate(update({"perf/mfu/actor": 0.24}, make_baseline(before)), "update.inefficient")
    usual_s = 100 * (1 - 0.24 / 0.36)
    assert found == pytest.approx((100 * (1 - 0.24 * 1.25 / 0.36), usual_s, 52.0))


def test_unbalanced_ranks_come_within_the_limit_at_least():
    scalars = {"global_seqlen/mean": 50_000.0, "global_seqlen/balanced_max": 70_000.0}
    low_s, usual_s, high_s = estimate(update(scalars), "update.imbalance")
    assert (low_s, high_s) == pytest.approx((100 * (1 - 1.15 / 1.4), 100 * (1 - 1 / 1.4)))
    assert usual_s == pytest.approx((low_s + high_s) / 2)


def test_a_slow_clock_comes_within_the_limit_at_least():
    gpus = [
        GpuFacts(f"gpu-{at}", "node", at, "trainer", busy_sm_clock_hz=1.0e9 if at == 3 else 2.0e9)
        for at in range(8)
    ]
    step = replace(facts(LONG_UPDATE, {"perf/mfu/actor": 0.3}, run=RUN), gpus=gpus)
    low_s, _, high_s = estimate(diagnose(RUN, [step]), "update.imbalance")
    assert (low_s, high_s) == pytest.approx((100 * (1 - 0.5 / 0.85), 50.0))


def test_a_reward_stage_leaves_its_slowest_score():
    many = samples([10.0] * 64, [1500] * 64, score_s=[12.0] * 63 + [60.0])
    seconds = {"gen": 20.0, "reward": 100.0, "update_actor": 30.0}
    step: StepFacts = facts(seconds, run=RUN, trajectories=many)
    assert estimate(diagnose(RUN, [step]), "reward") == pytest.approx((40.0, 70.0, 100.0))
