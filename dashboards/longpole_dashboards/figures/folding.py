"""More rows than there are pixels: neighbours become one row that keeps their extreme."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Extreme = Literal["least", "most"]


def fold_rows(
    values: NDArray[np.float32], max_rows: int, keep: Extreme
) -> tuple[NDArray[np.float32], int]:
    """Fold neighbouring rows until at most `max_rows` are left.

    Args:
        values: Rows by bins, NaN where nothing was measured.
        max_rows: At least one.
        keep: `least`, so that one that stands still does not hide among busy ones, or `most`.

    Returns:
        The rows, and how many of the given ones each stands for; NaN where all were NaN.
    """
    num_rows, num_bins = values.shape
    size = max(1, -(-num_rows // max_rows))
    if size == 1:
        return values, 1
    filler = np.float32(np.inf if keep == "least" else -np.inf)
    padded: NDArray[np.float32] = np.full(
        (-(-num_rows // size) * size, num_bins), filler, dtype=np.float32
    )
    padded[:num_rows] = np.where(np.isnan(values), filler, values)
    blocks = [padded[at::size] for at in range(size)]
    folded = np.min(blocks, axis=0) if keep == "least" else np.max(blocks, axis=0)
    return np.where(folded == filler, np.float32(np.nan), folded), size
