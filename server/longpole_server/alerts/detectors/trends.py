"""Whether a figure rises, how fast, and whether it goes on: Mann-Kendall, Theil-Sen, Holm.

scipy.stats is imported where it is first needed: it takes a second, and most commands never do.
"""
# scipy's results are typed loosely.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

_Key = TypeVar("_Key", bound=Hashable)
# A line that explains so much of a series leaves no memory in it worth correcting for.
_STRAIGHT = 0.95
_MAX_INFLATION = 4.0
# Levels and the places where they change; slope, and where it begins.
_PARAMETERS_OF_LEVELS, _PARAMETERS_OF_LINE = 5, 2
_LEAST_FOR_STEPS = 8
# Correlations of a point with the one before that are tried: a random walk is nearly 1.
_MEMORIES = (0.0, 0.2, 0.4, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.99)


_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Trend:
    """A robust line through a series, and how sure it is that the series rises.

    Attributes:
        slope: Theil-Sen slope a step; `slope_low` is the lower end of its confidence interval.
        tau: Kendall's rank correlation with time, 1 when every later point is higher.
        p_value: One-sided, of the Mann-Kendall test, widened for points that remember the one
            before (Hamed and Rao 1998, first lag).
        rise: The line's rise from first to last point.
    """

    slope: float
    slope_low: float
    tau: float
    p_value: float
    rise: float


def fit_slope(steps: Sequence[float], values: Sequence[float]) -> float:
    """Return the Theil-Sen slope: the median of the slopes of all pairs; 0 of one point."""
    if len(values) < 2:
        return 0.0
    x, y = np.asarray(steps, dtype=np.float64), np.asarray(values, dtype=np.float64)
    row, column = _pair_up(len(x))
    slopes = np.sort((y[column] - y[row]) / (x[column] - x[row]))
    middle = len(slopes) // 2
    return float((slopes[middle] + slopes[~middle]) / 2)


@lru_cache(maxsize=128)
def _pair_up(count: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the indices of all pairs among so many: every step asks for the same few counts."""
    return np.triu_indices(count, 1)


def measure_trend(
    steps: Sequence[float],
    values: Sequence[float],
    confidence: float = 0.95,
    memory: float = 0.0,
) -> Trend:
    """Return the trend of a series of three points or more, in the order of time.

    Args:
        steps: When.
        values: The series.
        confidence: Of the slope's interval.
        memory: Correlation of a point with the one before, as it was before this series: so few
            points tell theirs badly.
    """
    return _measure_trend(tuple(steps), tuple(values), confidence, memory)


@lru_cache(maxsize=256)
def _measure_trend(
    steps: tuple[float, ...], values: tuple[float, ...], confidence: float, memory: float
) -> Trend:
    """Return a trend; a baseline stands still, and every step of a run asks for the same one."""
    x, y = np.asarray(steps, dtype=np.float64), np.asarray(values, dtype=np.float64)
    if np.ptp(y) == 0:
        return Trend(0.0, 0.0, 0.0, 1.0, 0.0)
    from scipy import stats

    line = stats.theilslopes(y, x, confidence)
    test = stats.kendalltau(x, y, alternative="greater")
    slope = float(line.slope)
    residuals = y - slope * x - float(line.intercept)
    return Trend(
        slope=slope,
        slope_low=float(line.low_slope),
        tau=float(test.statistic),
        p_value=_widen(float(test.pvalue), residuals, y, memory),
        rise=slope * float(x[-1] - x[0]),
    )


def adjust_holm(p_values: Mapping[_Key, float]) -> dict[_Key, float]:
    """Return p-values as they count among so many tests (Holm 1979): the family-wise error rate.

    Rejecting where the adjusted value is at most alpha keeps the chance of any false rejection
    at alpha, however the tests depend on each other.
    """
    adjusted: dict[_Key, float] = {}
    highest = 0.0
    for rank, key in enumerate(sorted(p_values, key=lambda key: p_values[key])):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[key]))
        adjusted[key] = highest
    return adjusted


def measure_memory(values: Sequence[float]) -> float:
    """Return the correlation of each value with the one before, 0 of values that do not change."""
    left = np.asarray(values, dtype=np.float64) - np.mean(values)
    power = float(left @ left)
    return float(left[1:] @ left[:-1]) / power if power > 0 else 0.0


def _widen(p_value: float, residuals: _Floats, values: _Floats, before: float) -> float:
    """Return the p-value of as many independent points as the series is worth."""
    total = float(np.var(values))
    left = residuals - residuals.mean()
    power = float(left @ left)
    if p_value >= 1.0 or power <= (1 - _STRAIGHT) * total * len(values):
        return p_value
    memory = max(before, float(left[1:] @ left[:-1]) / power)
    if memory <= 0:
        return p_value
    from scipy import stats

    inflation = min(_MAX_INFLATION, (1 + memory) / max(1e-9, 1 - memory))
    return float(stats.norm.sf(stats.norm.isf(p_value) / math.sqrt(inflation)))


def weigh_line(values: Sequence[float], before: Sequence[float] = ()) -> float:
    """Return how much better a line explains a series than wandering about a level does.

    Twice the logarithm of the ratio of their likelihoods (exact Gaussian, a point remembering the
    one before by any correlation up to 0.99, the likeliest for each). What rises by wandering is
    explained by its memory as well as by a line; a leak is not, as its steps all lead the same
    way. Of walks that wander without end, 10 to 56 steps long, 1.5 % rise with 15 and 0.3 % with
    20; of what comes back to a level, fewer.

    Args:
        values: Four or more, evenly spaced.
        before: What came right before them, when there was no line yet: how it wandered then tells
            how far it wanders now.
    """
    y = np.asarray([*before, *values], dtype=np.float64)
    if np.ptp(y) == 0:
        return 0.0
    line = np.maximum(0.0, np.arange(len(y), dtype=np.float64) - len(before))
    with_line = _find_likelihood(y, np.column_stack([np.ones_like(line), line]))
    return 2.0 * (with_line - _find_likelihood(y, np.ones((len(y), 1))))


def _find_likelihood(y: _Floats, columns: _Floats) -> float:
    """Return the log-likelihood of a regression whose errors remember (Prais and Winsten 1954)."""
    count, tiny = len(y), 1e-12 * max(1.0, float(y @ y))
    likeliest = -math.inf
    for memory in _MEMORIES:
        root = math.sqrt(1.0 - memory * memory)
        left = np.append(root * y[0], y[1:] - memory * y[:-1])
        right = np.vstack([root * columns[:1], columns[1:] - memory * columns[:-1]])
        errors = left - right @ np.linalg.lstsq(right, left, rcond=None)[0]
        power = max(tiny, float(errors @ errors))
        likeliest = max(likeliest, math.log(root) - count / 2 * math.log(power / count))
    return likeliest


def measure_shift(before: Sequence[float], after: Sequence[float]) -> float:
    """Return how likely values as high as `after` are among those of `before` (Mann-Whitney)."""
    if len(set(before) | set(after)) == 1:
        return 1.0
    from scipy import stats

    return float(stats.mannwhitneyu(after, before, alternative="greater").pvalue)


def is_in_steps(values: Sequence[float]) -> bool:
    """Tell whether three levels explain a series better than a line does (Schwarz 1978).

    What jumps once or twice and stands still between was kept once or twice; it does not leak.
    """
    y = np.asarray(values, dtype=np.float64)
    count = len(y)
    if count < _LEAST_FOR_STEPS:
        return False
    at = np.arange(count, dtype=np.float64)
    line = y - np.polynomial.Polynomial.fit(at, y, 1)(at)
    tiny = 1e-12 * max(1.0, float(y @ y))
    of_line = max(tiny, float(line @ line))
    of_levels = max(tiny, _fit_levels(y))
    penalty = (_PARAMETERS_OF_LEVELS - _PARAMETERS_OF_LINE) * math.log(count)
    return count * math.log(of_levels) + penalty < count * math.log(of_line)


def _fit_levels(y: _Floats) -> float:
    """Return the least sum of squares that three levels, one after the other, leave."""
    count = len(y)
    sums, squares = np.cumsum(np.append(0.0, y)), np.cumsum(np.append(0.0, y * y))

    def left(first: NDArray[np.intp], last: NDArray[np.intp]) -> _Floats:
        total = sums[last] - sums[first]
        return squares[last] - squares[first] - total * total / (last - first)

    row, column = _pair_up(count - 1)
    first, second = row + 1, column + 1
    zero, end = np.zeros_like(first), np.full_like(first, count)
    return float(np.min(left(zero, first) + left(first, second) + left(second, end)))
