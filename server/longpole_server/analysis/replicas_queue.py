"""Queues of the rollout engines: waves at the concurrency cap, and one replica's queue."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from longpole_server.analysis.longtail_samples import Floats, column
from longpole_server.model.facts import TrajectoryFacts

# A queue counts as one at the cap while this part of the most running samples runs beside it.
_AT_CAP_RATIO = 0.95
_NS_PER_S = 1e9


@dataclass(frozen=True, slots=True)
class QueueWaves:
    """Samples of one replica that had to wait until others had finished.

    Attributes:
        replica: None for the rollout as a whole, when no sample names its replica.
        cap: Samples that it ran at once at the most: its cap where it was at it.
        num_waves: Its samples over those that it runs at once, rounded up.
        queued_ratio: Part of its samples' time that passed in the queue, 0..1.
        at_cap_ratio: Part of the queue's time in which it ran as many as it can, 0..1; low when
            samples wait for something else than a free place.
        queue_s: Seconds in which at least one sample waited.
    """

    replica: str | None
    cap: int
    num_samples: int
    num_waves: int
    queued_ratio: float
    at_cap_ratio: float
    queue_s: float


@dataclass(frozen=True, slots=True)
class QueueImbalance:
    """One replica whose samples wait while another has no queue.

    Attributes:
        replica: The replica whose mean sample waits longest, for `mean_queue_s`.
        other_queue_s: Median of the other replicas' mean wait.
    """

    replica: str
    mean_queue_s: float
    other_queue_s: float


def find_queue_waves(samples: TrajectoryFacts) -> QueueWaves | None:
    """Return the replica whose samples spend the largest part of their time in the queue.

    A sample is taken to wait first and to run then.

    Returns:
        None when no sample reports its time in the queue.
    """
    queue_s = column(samples.queue_s, len(samples.start_ns))
    if not (np.nan_to_num(queue_s) > 0).any():
        return None
    rows_of: dict[str | None, list[int]] = {}
    for row, replica in enumerate(samples.replicas):
        rows_of.setdefault(replica, []).append(row)
    origin_ns = min(samples.start_ns)
    starts = (np.asarray(samples.start_ns, np.int64) - origin_ns) / _NS_PER_S
    ends = (np.asarray(samples.end_ns, np.int64) - origin_ns) / _NS_PER_S
    begins = np.minimum(ends, starts + np.maximum(0.0, np.nan_to_num(queue_s)))
    queued = {
        replica: _queued_ratio(starts[r], begins[r], ends[r]) for replica, r in rows_of.items()
    }
    longest = max(queued, key=lambda replica: (queued[replica], replica or ""))
    rows = rows_of[longest]
    return _measure_queue(longest, starts[rows], begins[rows], ends[rows])


def find_queue_imbalance(samples: TrajectoryFacts) -> QueueImbalance | None:
    """Return the replica with the longest queue against the others.

    Returns:
        None with fewer than two replicas whose samples report their time in the queue.
    """
    queue_s = column(samples.queue_s, len(samples.start_ns))
    waits: dict[str, list[float]] = {}
    for replica, seconds in zip(samples.replicas, queue_s.tolist(), strict=True):
        if replica is not None and not math.isnan(seconds):
            waits.setdefault(replica, []).append(seconds)
    if len(waits) < 2:
        return None
    means = {replica: math.fsum(seconds) / len(seconds) for replica, seconds in waits.items()}
    longest = max(sorted(means), key=lambda replica: means[replica])
    others = [value for replica, value in means.items() if replica != longest]
    return QueueImbalance(longest, means[longest], float(np.median(others)))


def _queued_ratio(starts: Floats, begins: Floats, ends: Floats) -> float:
    total_s = float((ends - starts).sum())
    return float((begins - starts).sum()) / total_s if total_s > 0 else 0.0


def _measure_queue(replica: str | None, starts: Floats, begins: Floats, ends: Floats) -> QueueWaves:
    edges = np.unique(np.concatenate((starts, begins, ends)))
    lengths = np.diff(edges)
    waiting = _count_open(edges, starts, begins)
    running = _count_open(edges, begins, ends)
    cap = int(running.max(initial=0))
    has_queue = waiting > 0
    queue_s = float(lengths[has_queue].sum())
    at_cap_s = float(lengths[has_queue & (running >= _AT_CAP_RATIO * cap)].sum())
    return QueueWaves(
        replica,
        cap,
        len(starts),
        math.ceil(len(starts) / cap) if cap else 0,
        _queued_ratio(starts, begins, ends),
        at_cap_s / queue_s if queue_s > 0 else 0.0,
        queue_s,
    )


def _count_open(
    edges: Floats, starts: Sequence[float] | Floats, ends: Sequence[float] | Floats
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return how many of the windows are open between each two edges."""
    changes = np.zeros(len(edges), dtype=np.int64)
    np.add.at(changes, np.searchsorted(edges, starts), 1)
    np.subtract.at(changes, np.searchsorted(edges, ends), 1)
    return np.cumsum(changes)[:-1]
