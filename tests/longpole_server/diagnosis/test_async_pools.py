"""Separate pools: who waits for whom, and whether anything runs side by side at all."""

from dataclasses import replace

import pytest

from longpole_server.analysis.ledger import assemble_step
from longpole_server.diagnosis import diagnose, diagnose_step
from longpole_server.model.facts import EngineWindow, GpuWindow, RunFacts, StepFacts
from support.steps import NS, facts, inputs, loop, samples, span

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
    # Nobody tells whether their samples are in tools meanwhile.
    assert (diagnosis.verdict, diagnosis.confidence) == ("async.rollout_starved", "medium")
    assert diagnosis.recoverable_s_per_step == pytest.approx(100 * 0.7 / 2)


def test_engines_that_wait_for_tools_do_not_clear_the_rollout():
    windows = (EngineWindow("replica-0", 120.0, idle_s=100.0),)
    step = replace(facts(STARVED, run=RUN), engine_windows=windows)
    diagnosis = diagnose_step(RUN, step)
    assert (diagnosis.verdict, diagnosis.confidence) == ("async.trainer_starved", "low")
    assert "contradicts" in {row.effect for row in diagnosis.evidence}


TOOLS = {"gen": 100.0, "old_log_prob": 3.0, "update_actor": 15.0, "timing_s/param_sync": 2.0}


def gpus_of_rollout(waiting: float, training: float) -> tuple[GpuWindow, ...]:
    """Return what 16 rollout GPUs do while the trainer waits, and while it trains."""
    return (
        GpuWindow("trainer_wait", "rollout", 16, 60.0, sm_active_ratio=waiting),
        GpuWindow("update_actor", "rollout", 16, 50.0, sm_active_ratio=training),
        GpuWindow("trainer_wait", "trainer", 8, 60.0, sm_active_ratio=0.0),
        GpuWindow("update_actor", "trainer", 8, 50.0, sm_active_ratio=0.7),
    )


def test_engines_idle_in_tools_are_not_taken_for_turns():
    windows = (EngineWindow("replica-0", 120.0, idle_s=35.0, running_mean=4.0, running_max=32.0),)
    steps = [
        replace(facts(TOOLS, run=RUN, step=number), engine_windows=windows)
        for number in range(1, 7)
    ]
    diagnosis = diagnose(RUN, steps)
    assert (diagnosis.verdict, diagnosis.cause) == ("async.trainer_starved", "rollout.unexplained")
    assert diagnosis.confidence != "high"


def test_gpus_idle_in_tools_are_not_taken_for_turns():
    # Bursts of decoding between tool calls, as often beside training as beside the wait.
    steps = [
        replace(facts(TOOLS, run=RUN, step=number), gpu_windows=gpus_of_rollout(0.14, 0.13))
        for number in range(1, 7)
    ]
    diagnosis = diagnose(RUN, steps)
    assert diagnosis.verdict == "async.trainer_starved"
    assert diagnosis.confidence == "low"


def test_gpus_that_decode_a_tail_while_the_trainer_waits_only_take_turns():
    # Most slots stand empty in a tail: the mean over GPUs is low, though one of them is at work.
    steps = [
        replace(facts(STARVED, run=RUN, step=number), gpu_windows=gpus_of_rollout(0.17, 0.0))
        for number in range(1, 7)
    ]
    diagnosis = diagnose(RUN, steps)
    assert diagnosis.verdict == "async.serial"
    # GPUs do not see tools and scoring.
    assert diagnosis.confidence == "medium"


def test_a_wait_that_is_the_longest_window_is_never_balanced():
    # Both sides idle: more GPU-seconds on the rollout's, and nothing tells when samples ran.
    windows = (
        GpuWindow("trainer_wait", "trainer", 8, 60.0, sm_active_ratio=0.0),
        GpuWindow("trainer_wait", "rollout", 16, 60.0, sm_active_ratio=0.12),
    )
    seconds = {"gen": 60.0, "old_log_prob": 30.0, "update_actor": 40.0}
    steps = [
        replace(facts(seconds, run=RUN, step=number), gpu_windows=windows) for number in range(1, 7)
    ]
    diagnosis = diagnose(RUN, steps)
    assert (diagnosis.verdict, diagnosis.confidence) == ("async.trainer_starved", "low")
    assert "contradicts" in {row.effect for row in diagnosis.evidence}


def test_a_wait_beside_a_longer_update_is_not_starved_when_the_rollout_idles_more():
    windows = (
        GpuWindow("trainer_wait", "trainer", 8, 30.0, sm_active_ratio=0.0),
        GpuWindow("trainer_wait", "rollout", 16, 30.0, sm_active_ratio=0.0),
    )
    seconds = {"gen": 30.0, "update_actor": 70.0}
    step = replace(facts(seconds, run=RUN), gpu_windows=windows)
    assert diagnose_step(RUN, step).verdict == "update.unknown"


def test_engines_held_up_by_a_weight_sync_are_not_held_back():
    busy = {"gen": 1.0, "old_log_prob": 10.0, "update_actor": 75.0, "timing_s/param_sync": 14.0}
    windows = (EngineWindow("replica-0", 100.0, idle_s=15.0, running_mean=4.0, running_max=32.0),)
    step = replace(facts(busy, run=RUN), engine_windows=windows)
    assert diagnose_step(RUN, step).verdict == "update.unknown"


def test_samples_that_run_all_the_time_contradict_idle_engines():
    # Engines stand idle while their samples are in tools; the samples themselves never stop.
    busy = [
        span("update_actor", 0.0, 110.0, span_id="update", parent="loop"),
        span("gen", 110.0, 115.0, span_id="gen", parent="loop"),
    ]
    windows = (EngineWindow("replica-0", 120.0, idle_s=60.0, running_mean=4.0, running_max=32.0),)
    steps: list[StepFacts] = []
    for step in range(1, 7):
        begin = 120.0 * step
        spans = [
            loop(begin, begin + 120),
            *(
                replace(
                    s,
                    start_ns=s.start_ns + round(begin * NS),
                    step=step,
                    end_ns=s.end_ns + round(begin * NS),
                )
                for s in busy
            ),
        ]
        made = assemble_step(inputs(spans, run=RUN, step=step))
        ran = samples([119.0] * 16, [2000] * 16, start_s=begin - 118.0)
        steps.append(StepFacts(made, {}, ran, engine_windows=windows))
    assert diagnose(RUN, steps).verdict == "update.unknown"


def test_old_samples_are_not_taken_for_a_rollout_that_stands_still():
    # Samples wait two steps in the queue: those beside the newest steps are still to come.
    steps = [with_samples(-2 * 120.0 - 50.0, step) for step in range(1, 7)]
    assert diagnose(RUN, steps).verdict == "async.trainer_starved"
    few = [with_samples(-2 * 120.0 + 2.0, step) for step in range(1, 3)]
    assert diagnose(RUN, few).verdict == "async.trainer_starved"


def test_a_rollout_held_back_names_what_the_trainer_does():
    busy = {"gen": 1.0, "old_log_prob": 10.0, "update_actor": 89.0}
    scalars = {"fully_async/count/staleness_samples": 0.0}
    windows = (EngineWindow("replica-0", 100.0, idle_s=70.0, running_mean=4.0, running_max=32.0),)
    step = replace(facts(busy, scalars, run=RUN), engine_windows=windows)
    diagnosis = diagnose_step(RUN, step)
    assert (diagnosis.verdict, diagnosis.cause) == ("async.rollout_starved", "update.unknown")


def test_a_wait_beside_a_dominating_update_is_starved_as_long_as_nobody_saw_the_rollout():
    seconds = {"gen": 31.0, "old_log_prob": 15.0, "update_actor": 50.0}
    diagnosis = diagnose_step(RUN, facts(seconds, run=RUN))
    assert (diagnosis.verdict, diagnosis.confidence) == ("async.trainer_starved", "low")


@pytest.mark.parametrize(
    ("size", "verdict"), [(122, "async.rollout_starved"), (90, "update.unknown")]
)
def test_a_buffer_that_is_read_after_a_batch_was_taken(size: float, verdict: str):
    scalars = {
        "fully_async/monitor/queue/mq_queue_size": size,
        "fully_async/static/max_queue_size": 128.0,
    }
    busy = {"gen": 1.0, "old_log_prob": 10.0, "update_actor": 89.0}
    assert diagnose_step(RUN, facts(busy, scalars, run=RUN)).verdict == verdict
