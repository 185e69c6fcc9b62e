"""More steps than pixels: of neighbours the extremes stay, so that no stall disappears."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

MAX_POINTS = 600
MAX_BARS = 240


def keep_extremes(values: Sequence[float | None], max_points: int = MAX_POINTS) -> list[int]:
    """Return places of at most about `max_points` values, in order.

    Of every stretch its least and its greatest known value stay, and one missing value where there
    is one, so that a line breaks there as it did.
    """
    if len(values) <= max_points:
        return list(range(len(values)))
    stretches = _cut(values, -(-2 * len(values) // max_points))
    starts = np.arange(len(stretches)) * stretches.shape[1]
    missing = np.isnan(stretches)
    # What only fills the last stretch up is no missing value.
    missing[-1, stretches.shape[1] - (stretches.size - len(values)) :] = False
    kept = [
        starts + np.where(np.isnan(stretches), np.inf, stretches).argmin(axis=1),
        starts + np.where(np.isnan(stretches), -np.inf, stretches).argmax(axis=1),
        (starts + missing.argmax(axis=1))[missing.any(axis=1)],
    ]
    return np.unique(np.concatenate(kept)).tolist()


def keep_greatest(values: Sequence[float], max_bars: int = MAX_BARS) -> tuple[list[int], int]:
    """Return the place of the greatest value of every stretch, and how long the stretches are."""
    size = max(1, -(-len(values) // max_bars))
    if not len(values):
        return [], size
    stretches = _cut(values, size)
    starts = np.arange(len(stretches)) * size
    greatest = np.where(np.isnan(stretches), -np.inf, stretches).argmax(axis=1)
    return (starts + greatest).tolist(), size


def _cut(values: Sequence[float | None], size: int) -> NDArray[np.float64]:
    """Return stretches of so many values as rows, NaN for what is missing."""
    num_rows = -(-len(values) // size)
    cut: NDArray[np.float64] = np.full(num_rows * size, np.nan)
    cut[: len(values)] = np.array(values, dtype=np.float64)
    return np.reshape(cut, (num_rows, size))
