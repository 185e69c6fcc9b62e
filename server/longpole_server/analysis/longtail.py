"""The long tail of a step's samples and what it costs.

While the last samples run, most of the rollout's slots are empty: the waste is the integral of
1 - running / most running over gen.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from longpole_server.analysis.longtail_samples import (
    Floats,
    GenSamples,
    clip_to_gen,
    column,
    count_running,
)
from longpole_server.model.facts import TrajectoryFacts
from longpole_server.model.long_tail import EarlyStop, Spread

STOP_RATIOS = (0.80, 0.90, 0.95)
# 0.95 x 60 is 57, whatever floats say.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class LongTail:
    """What waiting for the last samples costs.

    Attributes:
        num_samples: Samples that were counted.
        span_s: From the first start to the last end.
        window_s: Length of gen, over which the waste is measured; the span without its windows.
        most_running: Samples that ran at once at the most.
        idle_ratio: 1 - mean running / most running over gen, 0..1; a paused sample does not run.
        stops: What stopping early would have saved.
    """

    num_samples: int
    span_s: float
    window_s: float
    most_running: int
    idle_ratio: float
    stops: tuple[EarlyStop, ...]

    @property
    def stop_at(self) -> tuple[tuple[float, float], ...]:
        """(share of samples, seconds the rollout would have ended earlier)."""
        return tuple((stop.ratio, stop.saved_s) for stop in self.stops)

    def waste_gpu_s(self, gpu_count: int) -> float:
        """Return GPU-seconds of gen in which the slots of `gpu_count` rollout GPUs were empty."""
        return self.idle_ratio * self.window_s * gpu_count


@dataclass(frozen=True, slots=True)
class ReplicaStop:
    """What one replica would have saved by stopping at a share of its own samples."""

    replica: str
    num_samples: int
    end_s: float
    stop_at: tuple[tuple[float, float], ...]


def measure_long_tail(
    trajectories: TrajectoryFacts,
    gen_windows_ns: Sequence[tuple[int, int]] | None = None,
    stop_ratios: Sequence[float] = STOP_RATIOS,
) -> LongTail | None:
    """Measure the tail of a step's samples.

    Args:
        trajectories: Training samples with their own times.
        gen_windows_ns: Windows of gen: samples are clipped to them, those outside do not count.
        stop_ratios: Shares of finished samples at which a partial rollout would stop.

    Returns:
        None without samples.
    """
    samples = clip_to_gen(trajectories, gen_windows_ns)
    count = len(samples.rows)
    if not count:
        return None
    most_running = count_running(samples)
    running_s = math.fsum(samples.active_s.tolist())
    return LongTail(
        num_samples=count,
        span_s=float(samples.ends.max() - samples.starts.min()),
        window_s=samples.window_s,
        most_running=most_running,
        idle_ratio=max(0.0, 1.0 - running_s / (most_running * samples.window_s)),
        stops=_measure_stops(samples, trajectories, stop_ratios),
    )


def stop_replicas(
    trajectories: TrajectoryFacts,
    gen_windows_ns: Sequence[tuple[int, int]] | None = None,
    stop_ratios: Sequence[float] = STOP_RATIOS,
) -> tuple[ReplicaStop, ...]:
    """Return what each replica would have saved by itself, the last to finish first."""
    samples = clip_to_gen(trajectories, gen_windows_ns)
    ends_of: dict[str, list[float]] = {}
    rows: list[int] = samples.rows.tolist()
    for position, row in enumerate(rows):
        replica = trajectories.replicas[row]
        if replica is not None:
            ends_of.setdefault(replica, []).append(float(samples.ends[position]))
    found: list[ReplicaStop] = []
    for replica, unsorted in ends_of.items():
        ends = np.sort(np.array(unsorted))
        stop_at = tuple((ratio, float(ends[-1] - _stop_time(ends, ratio))) for ratio in stop_ratios)
        found.append(ReplicaStop(replica, len(ends), float(ends[-1]), stop_at))
    return tuple(sorted(found, key=lambda stop: (-stop.end_s, stop.replica)))


def describe_spread(values: Sequence[float | None]) -> Spread | None:
    """Describe how a quantity spreads over samples, None when nobody reports it."""
    known = column(values, 0)
    known = known[~np.isnan(known)]
    if not len(known):
        return None
    p50, p90, p95, p99 = np.quantile(known, (0.5, 0.9, 0.95, 0.99)).tolist()
    return Spread(len(known), float(known.mean()), p50, p90, p95, p99, float(known.max()))


def _stop_time(sorted_ends: Floats, ratio: float) -> float:
    """Return when the last of the kept samples ends."""
    num_kept = math.ceil(ratio * len(sorted_ends) - _ROUNDING)
    return float(sorted_ends[max(0, num_kept - 1)])


def _measure_stops(
    samples: GenSamples, trajectories: TrajectoryFacts, stop_ratios: Sequence[float]
) -> tuple[EarlyStop, ...]:
    ends = np.sort(samples.ends)
    tokens = column(trajectories.output_tokens, len(trajectories.start_ns))[samples.rows]
    groups = _number_groups(trajectories, samples)
    stops: list[EarlyStop] = []
    for ratio in stop_ratios:
        stop_s = _stop_time(ends, ratio)
        is_left = samples.ends > stop_s
        left_ratio, begun_ratio = _tokens_left(samples, tokens, is_left, stop_s)
        groups_left = None
        if groups is not None:
            groups_left = len(np.unique(groups[is_left])) / len(np.unique(groups))
        stops.append(
            EarlyStop(
                ratio,
                float(ends[-1]) - stop_s,
                int(is_left.sum()),
                left_ratio,
                begun_ratio,
                groups_left,
            )
        )
    return tuple(stops)


def _tokens_left(
    samples: GenSamples,
    tokens: Floats,
    is_left: np.ndarray[tuple[int], np.dtype[np.bool_]],
    at: float,
) -> tuple[float | None, float | None]:
    total = float(np.nansum(tokens))
    if total <= 0:
        return None, None
    left = np.nan_to_num(tokens[is_left])
    starts, ends = samples.starts[is_left], samples.ends[is_left]
    begun = np.minimum(1.0, np.maximum(0.0, at - starts) / (ends - starts))
    return float(left.sum()) / total, float((left * begun).sum()) / total


def _number_groups(
    trajectories: TrajectoryFacts, samples: GenSamples
) -> np.ndarray[tuple[int], np.dtype[np.intp]] | None:
    """Return a number for each sample's group; a sample of no known group is one of its own."""
    if not any(group is not None for group in trajectories.group_ids):
        return None
    rows: list[int] = samples.rows.tolist()
    numbers: dict[object, int] = {}
    keys = [trajectories.group_ids[row] or (row,) for row in rows]
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.intp)
