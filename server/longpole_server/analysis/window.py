"""Shares over a window of steps: sums of exclusive seconds over the sum of step seconds.

Costs that come every few steps (validation, checkpoints) count with their mean seconds over their
period, so that a window that cuts a cycle does not over- or understate them. Single outliers
are drawn in within their stage, so that one hiccup does not decide what a whole window waits for.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from longpole.conventions import stages
from longpole_server.model.diagnosis import Excluded
from longpole_server.model.step import Step

PERIODIC_STAGES = frozenset({stages.TESTING, stages.SAVE_CHECKPOINT})
# Fewer steps of an attempt than this are all judged, the first included.
MIN_STEPS_TO_DROP_FIRST = 3

_MIN_STEPS_TO_WINSORISE = 5
# Robust standard deviations above the median from which a value is an outlier, if it also adds
# half of the median and a twentieth of a usual step.
_OUTLIER_DEVIATIONS = 6.0
_OUTLIER_OF_MEDIAN = 0.5
_OUTLIER_OF_STEP = 0.05
_DEVIATION_OF_MAD = 1.4826


@dataclass(frozen=True, slots=True)
class Window:
    """The judged steps of a range, summed.

    Attributes:
        judged: Closed steps that count, in order.
        stage_s: Exclusive seconds a step by stage, `unattributed` included.
        shares: The same as parts of 1.
        outside_s: Seconds a step spent between steps, by stage.
        step_s: Mean seconds of a step: the sum of `stage_s`; None when no step counts.
    """

    judged: tuple[Step, ...]
    excluded: tuple[Excluded, ...]
    stage_s: Mapping[str, float]
    shares: Mapping[str, float]
    outside_s: Mapping[str, float]
    step_s: float | None


def summarise_window(
    steps: Sequence[Step],
    attempt_starts: Mapping[int, int] | None = None,
    periods: Mapping[str, float] | None = None,
) -> Window:
    """Sum a range of steps.

    Args:
        steps: Steps in order, one attempt of each.
        attempt_starts: First step of each attempt, since it warms up and is left out where its
            attempt has three or more; None takes the first that is seen of each attempt.
        periods: Steps between two occurrences of a periodic stage, where the run says so.
    """
    judged, excluded = _choose(steps, attempt_starts)
    if not judged:
        return Window((), tuple(excluded), {}, {}, {}, None)
    usual_s = statistics.median(step.duration_s or 0.0 for step in judged)
    stage_s: dict[str, float] = {}
    for stage, seconds in _columns(judged).items():
        if stage in PERIODIC_STAGES:
            mean_s = _mean_of_periodic(judged, seconds, (periods or {}).get(stage))
        else:
            mean_s = statistics.fmean(_winsorise(seconds, usual_s))
        stage_s[stage] = mean_s
    step_s = math.fsum(stage_s.values())
    shares = {stage: seconds / step_s for stage, seconds in stage_s.items()} if step_s else {}
    return Window(
        tuple(judged), tuple(excluded), stage_s, shares, _outside(judged, periods or {}), step_s
    )


def _choose(
    steps: Sequence[Step], attempt_starts: Mapping[int, int] | None
) -> tuple[list[Step], list[Excluded]]:
    closed = [step for step in steps if step.duration_s and step.stages]
    starts = dict(attempt_starts or {})
    num_of: dict[int, int] = {}
    for step in closed:
        num_of[step.attempt] = num_of.get(step.attempt, 0) + 1
        if attempt_starts is None:
            starts[step.attempt] = min(starts.get(step.attempt, step.step), step.step)
    judged: list[Step] = []
    excluded: list[Excluded] = []
    for step in steps:
        is_first = starts.get(step.attempt) == step.step
        if not step.duration_s:
            excluded.append(Excluded(step.step, "not closed"))
        elif not step.stages:
            excluded.append(Excluded(step.step, "no stage was reported"))
        elif is_first and num_of[step.attempt] >= MIN_STEPS_TO_DROP_FIRST:
            excluded.append(Excluded(step.step, "first step of an attempt: it warms up"))
        else:
            judged.append(step)
    return judged, excluded


def _columns(judged: Sequence[Step]) -> dict[str, list[float]]:
    """Return seconds by stage, one value a step, 0 where the step did not have it."""
    columns: dict[str, list[float]] = {}
    for row, step in enumerate(judged):
        values = {stage.stage: stage.exclusive_s for stage in step.stages}
        values[stages.UNATTRIBUTED] = step.unattributed_s or 0.0
        for stage, seconds in values.items():
            columns.setdefault(stage, [0.0] * len(judged))[row] = seconds
    return columns


def _winsorise(seconds: Sequence[float], usual_step_s: float) -> Sequence[float]:
    """Draw single high outliers in to the highest usual value."""
    if len(seconds) < _MIN_STEPS_TO_WINSORISE:
        return seconds
    median = statistics.median(seconds)
    deviation = _DEVIATION_OF_MAD * statistics.median(abs(value - median) for value in seconds)
    limit = median + max(
        _OUTLIER_DEVIATIONS * deviation,
        _OUTLIER_OF_MEDIAN * median,
        _OUTLIER_OF_STEP * usual_step_s,
    )
    num_above = sum(value > limit for value in seconds)
    if num_above == 0 or num_above > max(1, len(seconds) // 10):
        return seconds
    highest = max(value for value in seconds if value <= limit)
    return [min(value, highest) for value in seconds]


def _mean_of_periodic(
    judged: Sequence[Step], seconds: Sequence[float], period: float | None
) -> float:
    """Return seconds a step of a cost that comes every few steps: mean seconds over period."""
    numbers = [step.step for step, value in zip(judged, seconds, strict=True) if value > 0]
    if not numbers:
        return 0.0
    mean_s = math.fsum(seconds) / len(numbers)
    if len(numbers) > 1 and numbers[-1] > numbers[0]:
        return mean_s * (len(numbers) - 1) / (numbers[-1] - numbers[0])
    if period is not None and period >= 1:
        return mean_s / period
    return mean_s / len(judged)


def _outside(judged: Sequence[Step], periods: Mapping[str, float]) -> dict[str, float]:
    columns: dict[str, list[float]] = {}
    for row, step in enumerate(judged):
        for outside in step.outside:
            column = columns.setdefault(outside.stage, [0.0] * len(judged))
            column[row] += outside.duration_s
    return {
        stage: _mean_of_periodic(judged, seconds, periods.get(stage))
        if stage in PERIODIC_STAGES
        else statistics.fmean(seconds)
        for stage, seconds in columns.items()
    }
