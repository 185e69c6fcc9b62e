"""From facts to a diagnosis: the entry of this package. Pure: no clock, no store, no HTTP."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from longpole.conventions import stages
from longpole_server.analysis.decomposition import decompose
from longpole_server.analysis.mfu import measure_mfu
from longpole_server.analysis.step_table import Rows, StepTable
from longpole_server.diagnosis.baseline import BASELINE_STEPS, Baseline, find_baseline, mean_known
from longpole_server.diagnosis.changes import find_changes
from longpole_server.diagnosis.decide import Decision, decide
from longpole_server.diagnosis.findings import find_all
from longpole_server.diagnosis.look import look_at
from longpole_server.diagnosis.overrides import read_limits
from longpole_server.diagnosis.quality import collect_notes
from longpole_server.diagnosis.regressions import find_regressions
from longpole_server.diagnosis.view import View, make_view, sum_window
from longpole_server.diagnosis.wording import no_closed_step, seconds
from longpole_server.model.diagnosis import (
    Diagnosis,
    NextLook,
    Outside,
    StepVerdict,
    Throughput,
    WindowChange,
)
from longpole_server.model.facts import RunFacts, StepFacts
from longpole_server.model.step import Confidence, Note

# Steps of a longer range that are looked into: the newest, and as many evenly spread at most.
NEWEST_LOOKS = 50
# Steps of a whole run that are compared with its past, as many as a live run's default window has.
NEWEST_STEPS = 20
MAX_LOOKS = 200
_HOURS_PER_DAY = 24
# Of fewer steps the halves tell of noise.
MIN_STEPS_TO_HALVE = 10

# Returns the facts of some steps, in their order.
ReadFacts = Callable[[StepTable], Sequence[StepFacts]]
# Where stages may be told that a console leaves out, as TRL's and prime-rl's do.
_WITHOUT_STAGES = (
    NextLook(
        "Give the files of the trainer's tracker (wandb, MLflow, TensorBoard, JSONL) in place of "
        "its console: some trainers write the times of stages there alone."
    ),
    NextLook("Put spans around the stages (`longpole.stage`)."),
)


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
        overrides: Thresholds by name, in place of the defaults and of the run's own settings.

    Returns:
        A diagnosis; its verdict is None when no step could be judged.

    Raises:
        ConfigError: An override names no threshold.
    """
    known = {(facts.step.attempt, facts.step.step): facts for facts in steps}
    return diagnose_window(
        run,
        StepTable.of([facts.step for facts in steps]),
        lambda chosen: [known[step.attempt, step.step] for step in chosen],
        baseline,
        asked=asked,
        attempt_starts=attempt_starts,
        overrides=overrides,
    )


def diagnose_run(
    run: RunFacts, steps: Sequence[StepFacts], overrides: Mapping[str, float] | None = None
) -> Diagnosis:
    """Judge all steps of a run that are at hand, against the run's own past.

    What changed is told of the newest steps, as a live run's default window tells it: in the mean
    of a whole run a change of its last hour is lost.

    Args:
        run: What the run says about itself.
        steps: Its steps in order, the latest attempt of each.
        overrides: Thresholds by name.

    Raises:
        ConfigError: An override names no threshold.
    """
    ledgers = [facts.step for facts in steps]
    closed = [facts for facts in steps if facts.step.duration_s]
    # A short run would be compared with itself.
    baseline = find_baseline(run, ledgers, ledgers) if len(closed) >= 2 * BASELINE_STEPS else None
    whole = diagnose(run, steps, baseline, overrides=overrides)
    newest = closed[-NEWEST_STEPS:]
    if len(newest) == len(closed):
        return whole
    starts: dict[int, int] = {}
    for facts in closed:
        starts.setdefault(facts.step.attempt, facts.step.step)
    baseline = find_baseline(run, ledgers, [facts.step for facts in newest])
    limits, _ = read_limits(run.config, overrides)
    looks = [look_at(run, facts, limits) for facts in newest]
    view = make_view(run, looks, baseline, limits, starts)
    if not view.window.judged:
        return whole
    changes = find_regressions(view)
    kept = [f for f in whole.findings if not f.code.startswith(("regression.", "shape."))]
    return replace(whole, findings=(*kept, *changes))


def diagnose_window(
    run: RunFacts,
    steps: StepTable,
    read_facts: ReadFacts,
    baseline: Baseline | None = None,
    *,
    asked: tuple[int | None, int | None] = (None, None),
    attempt_starts: Mapping[int, int] | None = None,
    overrides: Mapping[str, float] | None = None,
) -> Diagnosis:
    """Judge a range as `diagnose` does, asking for the facts of those steps alone that matter.

    Shares are sums over all steps; what happened inside them shows in the newest and in evenly
    spread ones, and in those that nobody judged yet.
    """
    limits, ignored = read_limits(run.config, overrides)
    window = sum_window(run, steps, baseline, attempt_starts)
    judged = window.judged
    looked = read_facts(judged.take(_choose_looks(len(judged)))) if judged else ()
    looks = [look_at(run, facts, limits) for facts in looked]
    view = View(run, limits, window, tuple(looks), baseline)
    if not judged:
        return _assemble(view, steps, asked, _undecided(steps, asked), (), ignored)
    decision = decide(view)
    verdicts: list[str | None] = judged.columns.verdicts.tolist()
    confidences: list[Confidence | None] = judged.columns.confidences.tolist()
    if len(judged) == 1:
        verdicts, confidences = [decision.verdict], [decision.confidence]
    else:
        unjudged = _find_unjudged(judged, anew=bool(overrides))
        alone = read_facts(judged.take(unjudged)) if len(unjudged) else ()
        for row, facts in zip(unjudged.tolist(), alone, strict=True):
            of_step = decide(make_view(run, [look_at(run, facts, limits)], baseline, limits))
            verdicts[row], confidences[row] = of_step.verdict, of_step.confidence
    of_steps = _list_verdicts(judged, verdicts, confidences)
    return _assemble(view, steps, asked, decision, of_steps, ignored)


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


def _undecided(steps: StepTable, asked: tuple[int | None, int | None]) -> Decision:
    if not steps.has_duration.any():
        return Decision(None, None, None, no_closed_step(*asked), None, (), ())
    step_s = float(np.median(steps.column("duration_s")[steps.has_duration]))
    summary = f"Steps take {seconds(step_s)}, but nothing tells what they are spent on."
    return Decision(None, None, None, summary, None, (), _WITHOUT_STAGES)


def _choose_looks(count: int) -> Rows:
    """Return the rows of the steps that are looked into.

    The distance of the spread ones is a power of two from the first step on: as a run grows, what
    was read of them serves again.
    """
    if count <= MAX_LOOKS:
        return np.arange(count, dtype=np.intp)
    distance = 1 << ((count - 1) // MAX_LOOKS).bit_length()
    spread = np.arange(0, count - NEWEST_LOOKS, distance, dtype=np.intp)
    return np.concatenate([spread, np.arange(count - NEWEST_LOOKS, count, dtype=np.intp)])


def _find_unjudged(judged: StepTable, *, anew: bool) -> Rows:
    """Return the rows of the steps that have no verdict from when they closed.

    Then more was known of a step than is kept of an old one.
    """
    if anew:
        return np.arange(len(judged), dtype=np.intp)
    return np.flatnonzero(judged.columns.verdicts == None)  # noqa: E711 - for every entry


def _list_verdicts(
    judged: StepTable,
    verdicts: Sequence[str | None],
    confidences: Sequence[Confidence | None],
) -> tuple[StepVerdict, ...]:
    durations_s: list[float] = np.nan_to_num(judged.column("duration_s"), nan=0.0).tolist()
    return tuple(
        map(
            StepVerdict,
            judged.numbers.tolist(),
            durations_s,
            verdicts,
            confidences,
            judged.list_shares(),
        )
    )


def _assemble(
    view: View,
    steps: StepTable,
    asked: tuple[int | None, int | None],
    decision: Decision,
    verdicts: tuple[StepVerdict, ...],
    ignored: tuple[Note, ...],
) -> Diagnosis:
    run, window = view.run, view.window
    numbers: list[int] = steps.numbers.tolist()
    notes = (*collect_notes(view, steps, asked), *ignored)
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
        decomposition=_decompose_halves(window.judged),
        step_s=window.step_s,
    )


def _decompose_halves(judged: StepTable) -> WindowChange | None:
    """Return what made the later half of a window faster or slower than the earlier one."""
    if len(judged) < MIN_STEPS_TO_HALVE:
        return None
    half = len(judged) // 2
    first, second = judged[:half], judged[half:]
    return WindowChange(
        (int(first.numbers[0]), int(first.numbers[-1])),
        (int(second.numbers[0]), int(second.numbers[-1])),
        decompose(first, second),
    )


def _all_unattributed(steps: StepTable) -> dict[str, float]:
    """Closed steps without any stage are unattributed as a whole."""
    if steps.has_duration.any():
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
    tokens_total = np.nan_to_num(judged.column("tokens_total"), nan=0.0)
    counted = judged.has_duration & (tokens_total != 0)
    num_counted = int(np.count_nonzero(counted))
    tokens = math.fsum(tokens_total[counted].tolist())
    total_s = math.fsum(judged.column("duration_s")[counted].tolist())
    reported = mean_known(judged.known("throughput_tokens_per_s_per_gpu"))
    gpus = view.gpu_count
    rate = tokens / (total_s * gpus) if gpus and total_s else reported
    return Throughput(
        tokens_per_s_per_gpu=rate,
        tokens=tokens / num_counted if num_counted else None,
        step_s=mean_known(judged.known("duration_s")),
        gpus=gpus,
        baseline=view.baseline.tokens_per_s_per_gpu if view.baseline is not None else None,
    )
