"""Shares over a window of steps: sums of exclusive seconds over the sum of step seconds.

Costs that come every few steps (validation, checkpoints) count with their mean seconds over their
period, so that a window that cuts a cycle does not over- or understate them. Single outliers
are drawn in within their stage, so that one hiccup does not decide what a whole window waits for.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from longpole.conventions import stages
from longpole_server.analysis.step_table import Column, Flags, Rows, StepTable
from longpole_server.model.diagnosis import Excluded
from longpole_server.model.step import Step

PERIODIC_STAGES = frozenset({stages.TESTING, stages.SAVE_CHECKPOINT})
# Fewer steps of an attempt than this are all judged, the first included.
MIN_STEPS_TO_DROP_FIRST = 3

# Of two values nobody can say which is the outlier.
_MIN_STEPS_TO_DRAW_IN = 3
# One value in this many may be an outlier, and one in any case.
_STEPS_AN_OUTLIER = 50
# As many at even distances are no outliers but a cost that comes every few steps.
_MIN_TO_RECUR = 3
# Robust standard deviations above the median from which a value is an outlier, if it also adds
# half of the median and a twentieth of a usual step.
_OUTLIER_DEVIATIONS = 6.0
_OUTLIER_OF_MEDIAN = 0.5
_OUTLIER_OF_STEP = 0.05
DEVIATION_OF_MAD = 1.4826


@dataclass(frozen=True, slots=True)
class Cycle:
    """A cost that comes every few steps.

    Attributes:
        period: Steps from one occurrence to the next.
        seconds: What one occurrence takes.
    """

    period: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Cycles:
    """What comes every few steps, by stage: timed inside the steps, and between them."""

    inside: Mapping[str, Cycle] = field(default_factory=dict[str, Cycle])
    outside: Mapping[str, Cycle] = field(default_factory=dict[str, Cycle])


NO_CYCLES = Cycles()


@dataclass(frozen=True, slots=True)
class Window:
    """The judged steps of a range, summed.

    Attributes:
        judged: Closed steps that count, in order.
        stage_s: Exclusive seconds a step by stage, `unattributed` included.
        shares: The same as parts of 1.
        outside_s: Seconds a step spent between steps, by stage.
        step_s: Mean seconds of a step: the sum of `stage_s`; None when no step counts.
        cycles: What comes every few steps, as these steps show it.
    """

    judged: StepTable
    excluded: tuple[Excluded, ...]
    stage_s: Mapping[str, float]
    shares: Mapping[str, float]
    outside_s: Mapping[str, float]
    step_s: float | None
    cycles: Cycles = NO_CYCLES


def summarise_window(
    steps: Sequence[Step],
    attempt_starts: Mapping[int, int] | None = None,
    periods: Mapping[str, float] | None = None,
    cycles: Cycles = NO_CYCLES,
) -> Window:
    """Sum a range of steps.

    Args:
        steps: Steps in order, one attempt of each.
        attempt_starts: First step of each attempt, since it warms up and is left out where its
            attempt has three or more; None takes the first that is seen of each attempt.
        periods: Steps between two occurrences of a periodic stage, where the run says so.
        cycles: What other steps of the run show of periodic stages: it stands for the ones
            whose turn did not come in this window.
    """
    judged, excluded = _choose(StepTable.of(steps), attempt_starts)
    if not judged:
        return Window(judged, tuple(excluded), {}, {}, {}, None)
    usual_s = float(np.median(judged.column("duration_s")))
    numbers: list[int] = judged.numbers.tolist()
    inside, outside = _inside(judged), _outside(judged)
    stage_s = _means(numbers, inside, usual_s, periods or {}, cycles.inside)
    outside_s = _means(numbers, outside, usual_s, periods or {}, cycles.outside)
    step_s = math.fsum(stage_s.values())
    return Window(
        judged=judged,
        excluded=tuple(excluded),
        stage_s=stage_s,
        shares={stage: seconds / step_s for stage, seconds in stage_s.items()} if step_s else {},
        outside_s=outside_s,
        step_s=step_s,
        cycles=Cycles(
            _find_cycles(numbers, inside, usual_s, periods or {}),
            _find_cycles(numbers, outside, usual_s, periods or {}),
        ),
    )


def _choose(
    steps: StepTable, attempt_starts: Mapping[int, int] | None
) -> tuple[StepTable, list[Excluded]]:
    closed = steps.has_duration
    counts = closed & steps.has_stages
    is_first = _find_first(steps, np.flatnonzero(counts), attempt_starts)
    excluded: list[Excluded] = []
    for row in np.flatnonzero(~counts | is_first).tolist():
        number = int(steps.numbers[row])
        if not closed[row]:
            excluded.append(Excluded(number, "not closed"))
        elif not counts[row]:
            excluded.append(Excluded(number, "no stage was reported"))
        else:
            excluded.append(Excluded(number, "first step of an attempt: it warms up"))
    return steps.where(counts & ~is_first), excluded


def _find_first(steps: StepTable, rows: Rows, attempt_starts: Mapping[int, int] | None) -> Flags:
    """Flag the first step of each attempt that has enough others among some rows."""
    found = np.zeros(len(steps), dtype=np.bool_)
    attempts, numbers = steps.attempts[rows], steps.numbers[rows]
    for attempt in np.unique(attempts).tolist():
        mine = attempts == attempt
        if attempt_starts is None:
            start = int(numbers[mine].min())
        elif attempt in attempt_starts:
            start = attempt_starts[attempt]
        else:
            continue
        if np.count_nonzero(mine) >= MIN_STEPS_TO_DROP_FIRST:
            found[rows[mine & (numbers == start)]] = True
    return found


def _inside(judged: StepTable) -> dict[str, Column]:
    """Return seconds by stage, one value a step, 0 where the step did not have it."""
    columns = {
        name: np.nan_to_num(column, nan=0.0)
        for name, column in judged.columns.exclusive_s.items()
        if not np.isnan(column).all()
    }
    columns[stages.UNATTRIBUTED] = np.nan_to_num(judged.column("unattributed_s"), nan=0.0)
    return columns


def _outside(judged: StepTable) -> dict[str, Column]:
    return {
        name: np.nan_to_num(column, nan=0.0)
        for name, column in judged.columns.outside_s.items()
        if not np.isnan(column).all()
    }


def _means(
    numbers: Sequence[int],
    columns: Mapping[str, Column],
    usual_s: float,
    periods: Mapping[str, float],
    cycles: Mapping[str, Cycle],
) -> dict[str, float]:
    """Return seconds a step by stage."""
    means: dict[str, float] = {}
    for stage, column in columns.items():
        if stage not in PERIODIC_STAGES:
            means[stage] = _mean(_draw_in(column, numbers, usual_s))
            continue
        occurrences, seconds = _occurrences(numbers, column, usual_s)
        cycle = cycles.get(stage)
        known = [periods.get(stage), None if cycle is None else cycle.period]
        rate = _rate(occurrences, len(numbers), known)
        means[stage] = _mean(seconds) * rate if occurrences else 0.0
    if len(numbers) > 1:
        for stage, cycle in cycles.items():
            if not means.get(stage):
                rate = _rate((), len(numbers), [periods.get(stage), cycle.period])
                means[stage] = cycle.seconds * rate
    return {stage: seconds for stage, seconds in means.items() if seconds or stage in columns}


def _find_cycles(
    numbers: Sequence[int],
    columns: Mapping[str, Column],
    usual_s: float,
    periods: Mapping[str, float],
) -> dict[str, Cycle]:
    """Return the periodic stages that came at least once."""
    found: dict[str, Cycle] = {}
    for stage in sorted(PERIODIC_STAGES & columns.keys()):
        occurrences, seconds = _occurrences(numbers, columns[stage], usual_s)
        rate = _rate(occurrences, len(numbers), [periods.get(stage)])
        if rate > 0:
            found[stage] = Cycle(1 / rate, _mean(seconds))
    return found


def _mean(column: Column) -> float:
    return math.fsum(column.tolist()) / len(column)


def _occurrences(
    numbers: Sequence[int], column: Column, usual_s: float
) -> tuple[list[int], Column]:
    """Return the numbers of the steps that had a periodic stage, and its seconds there."""
    rows: list[int] = np.flatnonzero(column > 0).tolist()
    occurrences = [numbers[row] for row in rows]
    return occurrences, _draw_in(column[rows], occurrences, usual_s)


def _rate(numbers: Sequence[int], num_steps: int, known: Iterable[float | None]) -> float:
    """Return occurrences a step of a cost that comes every few steps.

    Of a cost of period P, `num_steps` steps in a row see `num_steps / P` occurrences, rounded
    down or up. A period that fits what was seen so counts before what was seen.

    Args:
        numbers: Steps at which it came.
        num_steps: Steps looked at.
        known: Periods as others know them, the most trusted first.
    """
    least, most = (len(numbers) - 1) / num_steps, (len(numbers) + 1) / num_steps
    rates = [1 / period for period in known if period is not None and period >= 1]
    if len(numbers) > 1 and numbers[-1] > numbers[0]:
        rates.append((len(numbers) - 1) / (numbers[-1] - numbers[0]))
    return next((rate for rate in rates if least < rate < most), len(numbers) / num_steps)


def _draw_in(column: Column, numbers: Sequence[int], usual_step_s: float) -> Column:
    """Draw single high outliers in to the highest usual value.

    Args:
        column: Seconds of one stage.
        numbers: The steps that they are of.
        usual_step_s: Seconds of a usual step.
    """
    if len(column) < _MIN_STEPS_TO_DRAW_IN:
        return column
    median = float(np.median(column))
    deviation = DEVIATION_OF_MAD * float(np.median(np.abs(column - median)))
    limit = median + max(
        _OUTLIER_DEVIATIONS * deviation,
        _OUTLIER_OF_MEDIAN * median,
        _OUTLIER_OF_STEP * usual_step_s,
    )
    above: list[int] = np.flatnonzero(column > limit).tolist()
    if not 0 < len(above) <= max(1, len(column) // _STEPS_AN_OUTLIER):
        return column
    if _recurs([numbers[row] for row in above]):
        return column
    return np.minimum(column, column[column <= limit].max())


def _recurs(numbers: Sequence[int]) -> bool:
    """Tell whether steps come at even distances, give or take one."""
    gaps = [second - first for first, second in pairwise(numbers)]
    return len(numbers) >= _MIN_TO_RECUR and max(gaps) - min(gaps) <= 1
