"""Whether a series rises over a window: robustly, and with how much."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

# Slopes of all pairs: more points are thinned out evenly.
_MAX_POINTS = 256


@dataclass(frozen=True, slots=True)
class Trend:
    """A robust line through a series (Theil-Sen).

    Attributes:
        rise: Slope times the number of steps from first to last point.
        monotone_ratio: Part of the pairs of points of which the later one is higher.
        first, last: Medians of the first and last quarter.
    """

    rise: float
    monotone_ratio: float
    first: float
    last: float


def fit_trend(series: Sequence[float | None], min_points: float) -> Trend | None:
    """Return the trend of what is known of a series, None with too few points."""
    at = [index for index, value in enumerate(series) if value is not None]
    if len(at) < max(2, min_points):
        return None
    if len(at) > _MAX_POINTS:
        at = [at[index * (len(at) - 1) // (_MAX_POINTS - 1)] for index in range(_MAX_POINTS)]
    x = np.array(at, dtype=np.float64)
    y = np.array([series[index] for index in at], dtype=np.float64)
    row, column = np.triu_indices(len(x), 1)
    rises, runs = y[column] - y[row], x[column] - x[row]
    slope = float(np.median(rises / runs))
    quarter = max(1, len(y) // 4)
    return Trend(
        rise=slope * float(x[-1] - x[0]),
        monotone_ratio=float(np.mean(rises > 0)),
        first=statistics.median(y[:quarter].tolist()),
        last=statistics.median(y[-quarter:].tolist()),
    )
