"""From facts to a diagnosis: the entry of this package. Pure: no clock, no store, no HTTP."""

import math
from collections.abc import Mapping, Sequence

from longpole.conventions import stages
from longpole_server.analysis.mfu import measure_mfu
from longpole_server.diagnosis.baseline import Baseline, mean_known
from longpole_server.diagnosis.changes import find_changes
from longpole_server.diagnosis.decide import Decision, decide
from longpole_server.diagnosis.findings import find_all
from longpole_server.diagnosis.look import look_at
from longpole_server.diagnosis.quality import collect_notes
from longpole_server.diagnosis.thresholds import Limits, resolve_limits
from longpole_server.diagnosis.view import View, make_view, sum_window
from longpole_server.diagnosis.wording import no_closed_step
from longpole_server.model.diagnosis import Diagnosis, Outside, StepVerdict, Throughput
from longpole_server.model.facts import RunFacts, StepFacts
from longpole_server.model.step import Confidence, Step

# Steps of a range that are looked into, beside those with samples.
MAX_LOOKS = 200
_HOURS_PER_DAY = 24


def diagnose(
    run: RunFacts,
    steps: Sequence[StepFacts],
    baseline: Baseline | None = None,
    *,
    asked: tuple[int | None, int | None] = (None, None),
    attempt_starts: Mapping[int, int] | None = None,
    overrides: Mapping[str, float] | None = None,
) -> Diagnosis:
    """Judge a range of steps of one run.

    Args:
        run: What the run says about itself.
        steps: Steps in order, the latest attempt of each; open ones are excluded.
        baseline: What is usual for this run, None when nothing is known.
        asked: First and last step as they were asked for, where they were: the diagnosis names
            them in place of the first and last of `steps`.
        attempt_starts: First step of each attempt: it warms up and is left out where its attempt
            has three steps or more. None takes the first step seen of each attempt.
        overrides: Thresholds by name, in place of the defaults.

    Returns:
        A diagnosis; its verdict is None when no step could be judged.

    Raises:
        ConfigError: An override names no threshold.
    """
    limits = resolve_limits(overrides)
    window = sum_window(run, [facts.step for facts in steps], baseline, attempt_starts)
    kept = {(step.attempt, step.step) for step in window.judged}
    judged = [facts for facts in steps if (facts.step.attempt, facts.step.step) in kept]
    looks = [look_at(run, facts, limits) for facts in _spread(judged)]
    view = make_view(run, looks, baseline, limits, window=window)
    if not judged:
        return _assemble(view, steps, asked, _undecided(steps, asked), ())
    decision = decide(view)
    if len(judged) == 1:
        verdicts = [_step_verdict(judged[0].step, decision.verdict, decision.confidence)]
    else:
        verdicts = _judge_steps(run, judged, baseline, limits, anew=bool(overrides))
    return _assemble(view, steps, asked, decision, tuple(verdicts))


def diagnose_step(
    run: RunFacts,
    facts: StepFacts,
    baseline: Baseline | None = None,
    *,
    overrides: Mapping[str, float] | None = None,
) -> Diagnosis:
    """Judge one step alone.

    Raises:
        ConfigError: An override names no threshold.
    """
    return diagnose(run, [facts], baseline, overrides=overrides)


def _undecided(steps: Sequence[StepFacts], asked: tuple[int | None, int | None]) -> Decision:
    if any(facts.step.duration_s for facts in steps):
        summary = "Steps are known, but not what their time is spent on."
    else:
        summary = no_closed_step(*asked)
    return Decision(None, None, None, summary, None, (), ())


def _spread(judged: Sequence[StepFacts]) -> Sequence[StepFacts]:
    """Return the steps of a long range that are looked into: those with samples, and some others.

    Shares are sums over all steps; what happened inside them shows in evenly spread ones.
    """
    if len(judged) <= MAX_LOOKS:
        return judged
    stride = -(-len(judged) // MAX_LOOKS)
    last = len(judged) - 1
    return [
        facts
        for place, facts in enumerate(judged)
        if facts.trajectories is not None or (last - place) % stride == 0
    ]


def _judge_steps(
    run: RunFacts,
    judged: Sequence[StepFacts],
    baseline: Baseline | None,
    limits: Limits,
    *,
    anew: bool,
) -> list[StepVerdict]:
    """Return the verdict of each step: the one that it was given when it closed, if it was.

    Then more was known of it than is kept of an old step.
    """
    verdicts: list[StepVerdict] = []
    for facts in judged:
        step = facts.step
        if step.verdict is not None and not anew:
            verdicts.append(_step_verdict(step, step.verdict, step.confidence))
            continue
        decision = decide(make_view(run, [look_at(run, facts, limits)], baseline, limits))
        verdicts.append(_step_verdict(step, decision.verdict, decision.confidence))
    return verdicts


def _step_verdict(step: Step, verdict: str | None, confidence: Confidence | None) -> StepVerdict:
    shares = _shares_of_step(step)
    return StepVerdict(step.step, step.duration_s or 0.0, verdict, confidence, shares)


def _shares_of_step(step: Step) -> dict[str, float]:
    total_s = step.duration_s
    if not total_s:
        return {}
    shares = {stage.stage: stage.exclusive_s / total_s for stage in step.stages}
    shares[stages.UNATTRIBUTED] = (step.unattributed_s or 0.0) / total_s
    return shares


def _assemble(
    view: View,
    steps: Sequence[StepFacts],
    asked: tuple[int | None, int | None],
    decision: Decision,
    verdicts: tuple[StepVerdict, ...],
) -> Diagnosis:
    run, window = view.run, view.window
    numbers = [facts.step.step for facts in steps]
    notes = collect_notes(view, steps, asked)
    first, last = asked
    return Diagnosis(
        run_id=run.run_id,
        run_name=run.name,
        system=run.system,
        mode=view.mode,
        first_step=min(numbers, default=None) if first is None else first,
        last_step=max(numbers, default=None) if last is None else last,
        num_judged=len(window.judged),
        excluded=window.excluded,
        verdict=decision.verdict,
        cause=decision.cause,
        confidence=decision.confidence,
        summary=decision.summary,
        recoverable_s_per_step=decision.recoverable_s,
        recoverable_gpu_hours_per_day=_gpu_hours_per_day(view, decision.recoverable_s),
        shares=window.shares or _all_unattributed(steps),
        outside={
            stage: Outside(seconds, seconds / view.step_s if view.step_s else 0.0)
            for stage, seconds in window.outside_s.items()
        },
        throughput=_throughput(view),
        mfu=measure_mfu(view.run, view.facts, view.mode),
        evidence=decision.evidence,
        findings=find_all(view, notes) if window.judged else (),
        next=decision.next,
        data_quality=notes,
        annotations=find_changes((verdict.step, verdict.verdict) for verdict in verdicts),
        steps=verdicts,
        recoverable_s_per_step_range=decision.recoverable_range_s,
        recoverable_formula=decision.recoverable_formula,
        sources=decision.sources,
    )


def _all_unattributed(steps: Sequence[StepFacts]) -> dict[str, float]:
    """Closed steps without any stage are unattributed as a whole."""
    if any(facts.step.duration_s for facts in steps):
        return {stages.UNATTRIBUTED: 1.0}
    return {}


def _gpu_hours_per_day(view: View, recoverable_s: float | None) -> float | None:
    """GPU-hours a day = recoverable part of the loop's time x GPUs x 24 hours.

    The loop's time is a step with what runs between the steps.
    """
    loop_s = view.step_s + sum(view.window.outside_s.values())
    if recoverable_s is None or view.gpu_count is None or loop_s <= 0:
        return None
    return recoverable_s / loop_s * view.gpu_count * _HOURS_PER_DAY


def _throughput(view: View) -> Throughput:
    judged = view.window.judged
    counted = [step for step in judged if step.tokens_total and step.duration_s]
    tokens = math.fsum(step.tokens_total or 0 for step in counted)
    total_s = math.fsum(step.duration_s or 0.0 for step in counted)
    reported = mean_known([step.throughput_tokens_per_s_per_gpu for step in judged])
    gpus = view.gpu_count
    rate = tokens / (total_s * gpus) if gpus and total_s else reported
    return Throughput(
        tokens_per_s_per_gpu=rate,
        tokens=tokens / len(counted) if counted else None,
        step_s=mean_known([step.duration_s for step in judged]),
        gpus=gpus,
        baseline=view.baseline.tokens_per_s_per_gpu if view.baseline is not None else None,
    )
