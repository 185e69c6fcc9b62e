"""The long tail of a step's samples and what it costs.

While the last samples run, most of the rollout's slots are empty: the waste is the integral of
1 - running / most running over the time the samples took.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from longpole_server.analysis.intervals import clip
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
    windows = list(zip(trajectories.start_ns, trajectories.end_ns, strict=True))
    if gen_window_ns is not None:
        windows = [part for window in windows if (part := clip(window, gen_window_ns))]
    windows = [window for window in windows if window[1] > window[0]]
    if not windows:
        return None
    start_ns = min(start for start, _ in windows)
    ends = sorted(end for _, end in windows)
    stop_at = tuple(
        (ratio, (ends[-1] - ends[max(0, math.ceil(ratio * len(ends)) - 1)]) / _NS)
        for ratio in stop_ratios
    )
    span_ns = ends[-1] - start_ns
    running_ns = sum(end - start for start, end in windows)
    idle_ratio = 1.0 - running_ns / (_most_running(windows) * span_ns)
    return LongTail(len(windows), span_ns / _NS, stop_at, max(0.0, idle_ratio))


def _most_running(windows: Sequence[tuple[int, int]]) -> int:
    # At one moment ends come before starts: a slot that is handed over counts once.
    changes = sorted(
        [(start, 1) for start, _ in windows] + [(end, -1) for _, end in windows],
    )
    most = running = 0
    for _, change in changes:
        running += change
        most = max(most, running)
    return most
