"""Whether values stand in two groups: the best cut of one dimension (Otsu 1979)."""

from collections.abc import Sequence

import numpy as np

MIN_VALUES = 16


def split_values(values: Sequence[float]) -> tuple[float, float] | None:
    """Return how well two groups explain values, and the part of them in the smaller group.

    The first is the part of their variance that lies between the groups, 0..1: 0.64 for a bell,
    0.75 for evenly spread values, 1 for two values only. None with fewer than 16 finite values,
    or where all are the same.
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    ordered = ordered[np.isfinite(ordered)]
    count = len(ordered)
    if count < MIN_VALUES or ordered[0] == ordered[-1]:
        return None
    sums = np.cumsum(ordered)
    below = np.arange(1, count)
    mean_below = sums[:-1] / below
    mean_above = (sums[-1] - sums[:-1]) / (count - below)
    between = below * (count - below) * (mean_above - mean_below) ** 2 / count**2
    best = int(np.argmax(between))
    part = (best + 1) / count
    return min(1.0, float(between[best] / ordered.var())), min(part, 1 - part)
