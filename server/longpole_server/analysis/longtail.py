"""The long tail of a step's samples and what it costs.

While the last samples run, most of the rollout's slots are empty: the waste is the integral of
1 - running / most running over the time the samples took.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from longpole_server.model.facts import TrajectoryFacts

STOP_RATIOS = (0.80, 0.90, 0.95)
_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class LongTail:
    """What waiting for the last samples costs.

    Attributes:
        num_samples: Samples that were counted.
        span_s: From the first start to the last end.
        stop_at: (share of samples, seconds the rollout would have ended earlier).
        idle_ratio: 1 - mean running / most running samples over the span, 0..1.
    """

    num_samples: int
    span_s: float
    stop_at: tuple[tuple[float, float], ...]
    idle_ratio: float


def measure_long_tail(
    trajectories: TrajectoryFacts,
    gen_window_ns: tuple[int, int] | None = None,
    stop_ratios: Sequence[float] = STOP_RATIOS,
) -> LongTail | None:
    """Measure the tail of a step's samples.

    Args:
        trajectories: Training samples with their own times.
        gen_window_ns: Window of gen: samples are clipped to it, those outside do not count.
        stop_ratios: Shares of finished samples at which a partial rollout would stop.

    Returns:
        None without samples.
    """
    starts = np.asarray(trajectories.start_ns, dtype=np.int64)
    ends = np.asarray(trajectories.end_ns, dtype=np.int64)
    if gen_window_ns is not None:
        starts, ends = np.maximum(starts, gen_window_ns[0]), np.minimum(ends, gen_window_ns[1])
    counted = ends > starts
    starts, ends = starts[counted], np.sort(ends[counted])
    count = len(ends)
    if not count:
        return None
    # Times since the first start: sums of wall clocks would not fit.
    first_ns = int(starts.min())
    starts, ends = starts - first_ns, ends - first_ns
    span_ns = int(ends[-1])
    stop_at = tuple(
        (ratio, (span_ns - int(ends[max(0, math.ceil(ratio * count) - 1)])) / _NS)
        for ratio in stop_ratios
    )
    running_ns = int(ends.sum() - starts.sum())
    idle_ratio = 1.0 - running_ns / (_most_running(starts, ends) * span_ns)
    return LongTail(count, span_ns / _NS, stop_at, max(0.0, idle_ratio))


def _most_running(starts: NDArray[np.int64], ends: NDArray[np.int64]) -> int:
    """Return how many samples ran at once at the most; `ends` is sorted."""
    starts = np.sort(starts)
    # At one moment ends come before starts: a slot that is handed over counts once.
    ended = np.searchsorted(ends, starts, side="right")
    return int((np.arange(1, len(starts) + 1) - ended).max())
