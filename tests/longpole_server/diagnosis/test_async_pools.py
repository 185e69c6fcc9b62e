"""Separate pools: who waits for whom, and whether anything runs side by side at all."""

from dataclasses import replace

import pytest

from longpole_server.analysis.ledger import assemble_step
from longpole_server.diagnosis import diagnose, diagnose_step
from longpole_server.model.facts import EngineWindow, GpuWindow, RunFacts, StepFacts
from support.steps import facts, inputs, loop, samples, span

RUN = RunFacts("run", "run", system="verl", mode="fully_async", gpu_count=24)
STARVED = {"gen": 60.0, "old_log_prob": 10.0, "update_actor": 50.0}
ONE_STEP = replace(RUN, mode="one_step_off")


def with_samples(start_s: float, step: int = 1) -> StepFacts:
    """Return a step of 120 s whose samples run for 55 s from some time on."""
    begin = 120.0 * step
    spans = [
        loop(begin, begin + 120),
        span("gen", begin, begin + 60, span_id="gen", parent="loop"),
        span("update_actor", begin + 60, begin + 119, span_id="update", parent="loop"),
    ]
    made = assemble_step(inputs(spans, run=RUN, step=step))
    return StepFacts(made, {}, samples([55.0] * 16, [2000] * 16, start_s=begin + start_s))


def test_samples_that_run_while_the_trainer_waits_only():
    for steps in ([with_samples(2.0)], [with_samples(2.0, step) for step in range(1, 7)]):
        diagnosis = diagnose(RUN, steps)
        assert (diagnosis.verdict, diagnosis.confidence) == ("async.serial", "high")
        # The shorter of both is the rollout.
        assert diagnosis.recoverable_s_per_step == pytest.approx(55)


def test_samples_that_run_while_the_step_before_trains():
    steps = [with_samples(-50.0, step) for step in range(1, 7)]
    assert diagnose(RUN, steps).verdict == "async.trainer_starved"
    # One step alone leaves open what they ran beside.
    assert diagnose_step(RUN, steps[0]).verdict == "async.trainer_starved"


def test_steps_between_which_one_is_missing_prove_nothing():
    steps = [with_samples(-50.0, step) for step in (1, 3, 5, 7)]
    assert diagnose(RUN, steps).verdict == "async.trainer_starved"


@pytest.mark.parametrize(
    ("rollout_s", "verdict"), [(62.0, "async.serial"), (110.0, "async.trainer_starved")]
)
def test_one_step_off_by_its_own_timers(rollout_s: float, verdict: str):
    step = facts(STARVED, {"timing_s/generate_async": rollout_s}, run=ONE_STEP)
    assert diagnose_step(ONE_STEP, step).verdict == verdict


def pools(trainer: float, rollout: float) -> tuple[GpuWindow, ...]:
    return tuple(
        GpuWindow("trainer_wait", role, count, 60.0, sm_active_ratio=activity)
        for role, count, activity in (("trainer", 16, trainer), ("rollout", 8, rollout))
    )


def test_the_side_that_idles_more_is_starved():
    step = replace(facts(STARVED, run=RUN), gpu_windows=pools(0.05, 0.6))
    diagnosis = diagnose_step(RUN, step)
    assert diagnosis.verdict == "async.trainer_starved"
    # A wait of 60 s, two thirds of the GPUs train.
    assert diagnosis.recoverable_s_per_step == pytest.approx(40)
    assert diagnosis.recoverable_s_per_step_range == pytest.approx((20, 60))
    # Nobody tells when samples ran: both sides may take turns as well.
    assert diagnosis.confidence == "medium"


def test_a_trainer_that_waits_less_than_the_rollout_is_not_starved():
    step = replace(facts(STARVED, run=RUN), gpu_windows=pools(0.3, 0.02))
    assert diagnose_step(RUN, step).verdict != "async.trainer_starved"


def test_lag_at_its_bound_decides_nothing():
    scalars = {"training/off_policy/trajectory_staleness/mean": 4.0}
    busy = {"gen": 10.0, "old_log_prob": 10.0, "update_actor": 60.0}
    run = replace(RUN, staleness_bound=4.0)
    diagnosis = diagnose_step(run, facts(busy, scalars, run=run))
    assert diagnosis.verdict == "update.unknown"
    assert "staleness.drift" in {finding.code for finding in diagnosis.findings}


def test_the_last_pause_alone_says_nothing():
    scalars = {"fully_async/rollouter/idle_ratio": 0.9}
    busy = {"gen": 1.0, "old_log_prob": 10.0, "update_actor": 60.0}
    assert diagnose_step(RUN, facts(busy, scalars, run=RUN)).verdict == "update.unknown"


def test_idle_engines_are_held_back():
    busy = {"gen": 1.0, "old_log_prob": 10.0, "update_actor": 89.0}
    windows = (EngineWindow("replica-0", 100.0, idle_s=70.0, running_mean=4.0, running_max=32.0),)
    steps = [
        replace(facts(busy, run=RUN, step=number), engine_windows=windows) for number in range(1, 7)
    ]
    diagnosis = diagnose(RUN, steps)
    assert (diagnosis.verdict, diagnosis.confidence) == ("async.rollout_starved", "high")
    assert diagnosis.recoverable_s_per_step == pytest.approx(100 * 0.7 / 2)


def test_engines_that_wait_for_tools_do_not_clear_the_rollout():
    windows = (EngineWindow("replica-0", 120.0, idle_s=100.0),)
    step = replace(facts(STARVED, run=RUN), engine_windows=windows)
    diagnosis = diagnose_step(RUN, step)
    assert (diagnosis.verdict, diagnosis.confidence) == ("async.trainer_starved", "low")
    assert "contradicts" in {row.effect for row in diagnosis.evidence}
