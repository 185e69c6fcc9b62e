"""Findings beside the verdict: each with what makes it, and with what must not."""

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from longpole_server.diagnosis import diagnose
from longpole_server.model.diagnosis import Finding
from longpole_server.model.facts import EngineWindow, GpuFacts, RunFacts, StepFacts
from support.steps import NS, facts, samples

RUN = RunFacts("run", "run", system="verl", gpu_count=8, staleness_bound=4.0)
SECONDS = {"gen": 50.0, "old_log_prob": 20.0, "update_actor": 40.0}


def make_steps(count: int = 10, **scalars: Sequence[float]) -> list[StepFacts]:
    return [
        facts(
            SECONDS,
            {name.replace("__", "/"): values[number] for name, values in scalars.items()},
            run=RUN,
            step=number + 1,
        )
        for number in range(count)
    ]


def find(steps: Sequence[StepFacts], code: str, run: RunFacts = RUN) -> list[Finding]:
    return [finding for finding in diagnose(run, steps).findings if finding.code == code]


def make_gpus(step: StepFacts, **changed: object) -> StepFacts:
    """Return a step with eight like GPUs, the third of them changed."""
    end_ns = step.step.end_ns
    gpus = [
        GpuFacts(f"GPU-{index}", "node", index, "hybrid", 90.0, 20.0, 1.9e9, 0.0, (), end_ns)
        for index in range(8)
    ]
    gpus[3] = replace(gpus[3], **changed)
    return replace(step, gpus=tuple(gpus))


def test_like_gpus_are_no_finding():
    steps = [make_gpus(step) for step in make_steps()]
    codes = {finding.code for finding in diagnose(RUN, steps).findings}
    assert not {code for code in codes if code.startswith(("gpu.", "straggler"))}


def test_a_slow_clock_is_a_straggler_and_its_reason_is_named():
    changed = {
        "busy_sm_clock_hz": 1.1e9,
        "throttled_ratio": 0.8,
        "throttle_reasons": ("hw_thermal_slowdown",),
    }
    steps = [make_gpus(step, **changed) for step in make_steps()]
    (straggler,) = find(steps, "straggler.gpu")
    assert straggler.entity is not None
    assert straggler.entity.id == "GPU-3"
    assert "hw_thermal_slowdown" in straggler.summary
    (throttled,) = find(steps, "gpu.throttled")
    assert throttled.evidence[0].value == pytest.approx(0.8)


def test_an_idle_gpu_beside_busy_ones():
    steps = [make_gpus(step, busy_s=1.0, idle_s=109.0) for step in make_steps()]
    (idle,) = find(steps, "gpu.idle")
    assert idle.entity is not None
    assert idle.entity.id == "GPU-3"


def test_a_silent_gpu_beside_reporting_ones():
    steps = [make_gpus(step) for step in make_steps()]
    end_ns = steps[-1].step.end_ns or 0
    steps[-1] = make_gpus(steps[-1], reported_to_ns=end_ns - 60 * NS)
    assert [finding.severity for finding in find(steps, "gpu.lost")] == ["critical"]
    steps[-1] = make_gpus(steps[-1], reported_to_ns=None)
    assert len(find(steps, "gpu.lost")) == 1


def test_a_gpu_that_never_reported_is_not_lost():
    steps = [make_gpus(step, reported_to_ns=None) for step in make_steps()]
    assert not find(steps, "gpu.lost")


def make_engine_steps(at_rest: Sequence[float]) -> list[StepFacts]:
    return [
        replace(step, engine_windows=(EngineWindow("replica-0", 50.0, kv_usage_idle_ratio=usage),))
        for step, usage in zip(make_steps(len(at_rest)), at_rest, strict=True)
    ]


def test_what_stays_taken_at_rest_and_rises_may_leak():
    rising = [0.01 * number for number in range(12)]
    assert len(find(make_engine_steps(rising), "kv.leak")) == 1


@pytest.mark.parametrize(
    "at_rest", [[0.3] * 12, [0.0, 0.1] * 6, [0.01 * number for number in range(6)]]
)
def test_what_does_not_rise_is_no_leak(at_rest: list[float]):
    assert not find(make_engine_steps(at_rest), "kv.leak")


def test_lag_above_its_bound():
    steps = make_steps(training__off_policy__trajectory_staleness__max=[5.0] * 10)
    (found,) = find(steps, "staleness.bound_exceeded")
    assert found.evidence[0].value == 5
    steps = make_steps(training__off_policy__trajectory_staleness__max=[4.0] * 10)
    assert not find(steps, "staleness.bound_exceeded")


def test_lag_by_the_oldest_version_of_a_sample():
    made = samples([30.0] * 4)
    made = replace(made, policy_versions_start=[1, 7, 8, 8], policy_versions_end=[8, 8, 8, 8])
    steps = [replace(step, trajectories=made) for step in make_steps()]
    (found,) = find(steps, "staleness.bound_exceeded")
    assert found.evidence[0].source == "trajectories"
    assert not find(steps, "staleness.bound_exceeded", replace(RUN, staleness_basis="tokens"))


def test_lag_that_grows_and_lag_that_is_held():
    mean = "training__off_policy__trajectory_staleness__mean"
    growing = [0.5 + 0.2 * number for number in range(10)]
    assert len(find(make_steps(10, **{mean: growing}), "staleness.drift")) == 1
    assert len(find(make_steps(10, **{mean: [4.0] * 10}), "staleness.drift")) == 1
    assert not find(make_steps(10, **{mean: [1.0, 1.2] * 5}), "staleness.drift")


def test_mismatch():
    assert find(make_steps(rollout_corr__kl=[0.4] * 10), "mismatch.rollout_train")
    assert not find(make_steps(rollout_corr__kl=[0.004] * 10), "mismatch.rollout_train")


def test_discarded_groups():
    steps = make_steps(train__num_gen_batches=[2.0] * 10)
    (found,) = find(steps, "rollout.filtered")
    assert found.evidence[0].value == pytest.approx(0.5)
    run = replace(RUN, system="openrlhf")
    steps = make_steps(dynamic_filtering_pass_rate=[60.0] * 10)
    (found,) = find(steps, "rollout.filtered", run)
    assert found.evidence[0].value == pytest.approx(0.4)
    assert not find(make_steps(train__num_gen_batches=[1.0] * 10), "rollout.filtered")


def test_a_reward_that_only_scatters_has_not_jumped():
    # Six steps that happen to lie on a line, and two that scatter as rewards do.
    few = [0.500, 0.502, 0.504, 0.506, 0.508, 0.510, 0.57, 0.58]
    assert not find(make_steps(8, critic__score__mean=few), "health.reward_mean")
    chance = random.Random(4)
    for _ in range(40):
        scattered = [chance.gauss(0.5, 0.06) for _ in range(12)]
        assert not find(make_steps(12, critic__score__mean=scattered), "health.reward_mean")


def test_a_reward_that_jumps_and_one_that_rises():
    rising = [0.30 + 0.01 * number for number in range(16)]
    assert not find(make_steps(16, critic__score__mean=rising), "health.reward_mean")
    jumping = [*rising[:12], 0.9, 0.91, 0.92, 0.93]
    assert len(find(make_steps(16, critic__score__mean=jumping), "health.reward_mean")) == 1


def test_responses_that_collapse():
    lengths = [1000.0 - 90 * number for number in range(10)]
    found = find(make_steps(response_length__mean=lengths), "health.response_length_mean")
    assert len(found) == 1
    slow = [1000.0 + 20 * number for number in range(10)]
    assert not find(make_steps(response_length__mean=slow), "health.response_length_mean")


def test_a_rate_that_falls_for_no_reason():
    rates = [5000.0 - 200 * number for number in range(10)]
    assert find(make_steps(rollout_throughput=rates), "health.rollout_throughput")
    longer = [1000.0 + 80 * number for number in range(10)]
    steps = make_steps(rollout_throughput=rates, response_length__mean=longer)
    assert not find(steps, "health.rollout_throughput")
