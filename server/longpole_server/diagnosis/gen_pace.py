"""Gen against the own past at equal responses.

Gen works through all response tokens and ends with its longest sample: from step to step its
seconds follow the sum, the longest one, or neither, and the past itself says which. Prompts are
read at once, while answers are decoded token by token: all tokens together do not tell them apart.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from longpole.conventions import stages
from longpole_server.analysis.step_table import Column, Flags, StepTable
from longpole_server.analysis.window import DEVIATION_OF_MAD
from longpole_server.model.step import Step

# What gen's seconds may follow, the most trusted first.
_MEASURES = ("tokens_response", "response_length_mean", "response_length_max")
_MIN_STEPS = 5
# More of it than was ever seen explains as much more time, whatever is followed.
_ALL_TOKENS = "tokens_total"
# A measure must leave so much less scatter than a more trusted one to be taken in its place.
_BETTER = 0.85
# Standard deviation of a median, as a multiple of that of the mean.
_DEVIATION_OF_MEDIAN = 1.2533
# Steps that a line is fitted through, spread evenly: it looks at every two of them.
_MAX_FITTED = 600
# A line takes two of the points' degrees of freedom.
_LINE = 2


@dataclass(frozen=True, slots=True)
class GenPace:
    """Gen's seconds over those that the past lets expect for as long responses.

    Attributes:
        growth: Median over the steps.
        scatter: Standard deviation of that median where nothing changed, as a part of it.
        measure: What gen's seconds follow, a field of a step.
    """

    growth: float
    scatter: float
    measure: str


@dataclass(frozen=True, slots=True)
class _Line:
    """Seconds by a measure, as the past shows them between the least and the most it has seen."""

    base_s: float
    slope: float
    lowest: float
    highest: float
    scatter: float

    def expect(self, work: Column) -> Column:
        """Return the expected seconds; none fewer than for the least work that was ever seen."""
        return self.base_s + self.slope * np.minimum(np.maximum(work, self.lowest), self.highest)


def measure_gen_pace(before: Sequence[Step], now: StepTable) -> GenPace | None:
    """Compare gen with the past at equal responses, None where nobody tells their lengths.

    Beyond what the past has seen, seconds are expected to grow in proportion to whatever grew
    most; fewer tokens than it has ever seen are no reason to expect less, since each costs more.

    Args:
        before: Steps of the past.
        now: The steps to compare.
    """
    past = StepTable.of(before)
    known = [
        name for name in _MEASURES if _count(past, name) >= _MIN_STEPS and _tells_most(now, name)
    ]
    if not known:
        return None
    lines = {name: _fit(past, name) for name in known}
    measure = known[0]
    for name in known[1:]:
        if lines[name].scatter < _BETTER * lines[measure].scatter:
            measure = name
    line = lines[measure]
    rows = _usable(now, measure)
    excess = np.ones(len(now))
    for name in (*known, _ALL_TOKENS):
        if _count(past, name):
            highest = past.column(name)[_usable(past, name)].max()
            excess = np.fmax(excess, now.column(name) / highest)
    ratios = now.seconds_of(stages.GEN)[rows] / (line.expect(now.column(measure)) * excess)[rows]
    own = _scatter(ratios) if len(ratios) >= _MIN_STEPS else 0.0
    spread = math.sqrt(1 / len(ratios) + 1 / _count(past, measure))
    scatter = _DEVIATION_OF_MEDIAN * max(line.scatter, own) * spread
    return GenPace(float(np.median(ratios)), scatter, measure)


def mean_response_tokens(steps: StepTable) -> float | None:
    """Return the response tokens of a mean step, None when not reported."""
    known = steps.known("tokens_response")
    return math.fsum(known) / len(known) if known else None


def _usable(steps: StepTable, name: str) -> Flags:
    return (steps.column(name) > 0) & (steps.seconds_of(stages.GEN) > 0)


def _count(steps: StepTable, name: str) -> int:
    return int(np.count_nonzero(_usable(steps, name)))


def _tells_most(steps: StepTable, name: str) -> bool:
    """Tell whether half of the steps or more report a measure."""
    return 0 < len(steps) <= 2 * _count(steps, name)


def _fit(past: StepTable, name: str) -> _Line:
    """Fit seconds = base + slope x work, both 0 or more, through medians.

    The slope is the median of those between any two steps (Theil and Sen), weighted by how far
    these lie apart: of steps with nearly the same work, noise alone makes the slope.
    """
    rows = np.flatnonzero(_usable(past, name))
    if len(rows) > _MAX_FITTED:
        rows = rows[np.linspace(0, len(rows) - 1, _MAX_FITTED, dtype=np.intp)]
    work, seconds = past.column(name)[rows], past.seconds_of(stages.GEN)[rows]
    first, second = np.triu_indices(len(work), 1)
    apart = work[first] != work[second]
    first, second = first[apart], second[apart]
    slope = 0.0
    if len(first):
        across = work[second] - work[first]
        rises = (seconds[second] - seconds[first]) / across
        slope = max(0.0, _weighted_median(rises, np.abs(across)))
    base_s = float(np.median(seconds - slope * work))
    if base_s < 0:
        base_s, slope = 0.0, float(np.median(seconds / work))
    expected_s = base_s + slope * work
    freedom = len(work) / (len(work) - _LINE)
    return _Line(
        base_s,
        slope,
        float(work.min()),
        float(work.max()),
        _scatter(seconds / expected_s) * math.sqrt(freedom),
    )


def _weighted_median(values: Column, weights: Column) -> float:
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(reached, reached[-1] / 2)])


def _scatter(ratios: Column) -> float:
    """Return the robust standard deviation of ratios, as a part of their median."""
    median = float(np.median(ratios))
    deviation = float(np.median(np.abs(ratios - median)))
    return DEVIATION_OF_MAD * deviation / median if median > 0 else 0.0
