"""More steps than pixels: of neighbours the extremes stay, so that no stall disappears."""

import math
from collections.abc import Sequence

MAX_POINTS = 600
MAX_BARS = 240


def keep_extremes(values: Sequence[float | None], max_points: int = MAX_POINTS) -> list[int]:
    """Return places of at most about `max_points` values, in order.

    Of every stretch its least and its greatest known value stay, and one missing value where there
    is one, so that a line breaks there as it did.
    """
    if len(values) <= max_points:
        return list(range(len(values)))
    size = -(-2 * len(values) // max_points)
    kept = list[int]()
    for start in range(0, len(values), size):
        stretch = range(start, min(start + size, len(values)))
        known = [at for at in stretch if _number(values[at]) is not None]
        missing = [at for at in stretch if _number(values[at]) is None]
        chosen = set(missing[:1])
        if known:
            chosen.add(min(known, key=lambda at: values[at] or 0.0))
            chosen.add(max(known, key=lambda at: values[at] or 0.0))
        kept += sorted(chosen)
    return kept


def keep_greatest(values: Sequence[float], max_bars: int = MAX_BARS) -> tuple[list[int], int]:
    """Return the place of the greatest value of every stretch, and how long the stretches are."""
    size = max(1, -(-len(values) // max_bars))
    return [
        max(range(start, min(start + size, len(values))), key=lambda at: values[at])
        for start in range(0, len(values), size)
    ], size


def _number(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else value
