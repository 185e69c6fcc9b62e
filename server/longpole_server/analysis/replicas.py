"""How fast replicas of the rollout engines are against each other."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from longpole_server.analysis.longtail_samples import column
from longpole_server.model.facts import TrajectoryFacts

# Samples are compared with those of like length: as many classes of length, each with as many.
_LENGTH_CLASSES = 4


@dataclass(frozen=True, slots=True)
class ReplicaPace:
    """The slowest replica of a step.

    Attributes:
        ratio: Its seconds a token over the median of the other replicas.
        length_ratio: Mean tokens of its samples over the mean of all.
        matched_ratio: Its seconds over what the others take for as many tokens of samples of
            like length; None where lengths do not overlap.
    """

    replica: str
    ratio: float
    length_ratio: float
    matched_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class ReplicaLoad:
    """What one replica did in a step. None is not reported.

    Attributes:
        tokens, mean_tokens: Response tokens of its samples, all and of a mean one.
        seconds_per_token: Decode seconds of its samples over their tokens.
        mean_queue_s: Seconds that its mean sample waited in a queue.
        end_s: When its last sample ended, after the step's first start.
        early_s: How much before the step's last sample that was: its GPUs then had nothing to do.
    """

    replica: str
    num_samples: int
    tokens: float | None
    mean_tokens: float | None
    seconds_per_token: float | None
    mean_queue_s: float | None
    end_s: float
    early_s: float


def find_slowest_replica(
    replicas: Sequence[str | None],
    decode_s: NDArray[np.float64],
    tokens: NDArray[np.float64],
) -> ReplicaPace | None:
    """Compare replicas by the seconds that they take for a token.

    Args:
        replicas: Replica of every sample.
        decode_s: Seconds of decoding of every sample, NaN where unknown.
        tokens: Response tokens of every sample, NaN where unknown.

    Returns:
        None with fewer than two replicas that decoded anything.
    """
    rows_of: dict[str, list[int]] = {}
    usable: list[bool] = ((tokens > 0) & (decode_s > 0)).tolist()
    for row, replica in enumerate(replicas):
        if replica is not None and usable[row]:
            rows_of.setdefault(replica, []).append(row)
    if len(rows_of) < 2:
        return None
    pace = {
        replica: float(decode_s[rows].sum() / tokens[rows].sum())
        for replica, rows in rows_of.items()
    }
    slowest = max(sorted(pace), key=lambda replica: pace[replica])
    others = [value for replica, value in pace.items() if replica != slowest]
    counted = [row for rows in rows_of.values() for row in rows]
    own = rows_of[slowest]
    rest = [row for replica, rows in rows_of.items() if replica != slowest for row in rows]
    return ReplicaPace(
        slowest,
        pace[slowest] / float(np.median(others)),
        float(tokens[own].mean() / tokens[counted].mean()),
        compare_like_lengths(decode_s, tokens, own, rest),
    )


def list_replica_loads(samples: TrajectoryFacts) -> tuple[ReplicaLoad, ...]:
    """Return what each replica did, the last to finish first; empty when no sample says."""
    count = len(samples.start_ns)
    rows_of: dict[str, list[int]] = {}
    for row, replica in enumerate(samples.replicas):
        if replica is not None:
            rows_of.setdefault(replica, []).append(row)
    if not rows_of:
        return ()
    first_ns, last_ns = min(samples.start_ns), max(samples.end_ns)
    tokens = column(samples.output_tokens, count)
    queue_s = column(samples.queue_s, count)
    decode_s = column(samples.generate_s, count)
    decode_s = np.where(np.isnan(decode_s), column(samples.durations_s, count), decode_s)
    loads: list[ReplicaLoad] = []
    for replica, rows in rows_of.items():
        end_ns = max(samples.end_ns[row] for row in rows)
        known = ~np.isnan(tokens[rows])
        total = float(tokens[rows][known].sum())
        loads.append(
            ReplicaLoad(
                replica,
                len(rows),
                total if known.any() else None,
                total / int(known.sum()) if known.any() else None,
                float(decode_s[rows][known].sum()) / total if total else None,
                _mean(queue_s[rows]),
                (end_ns - first_ns) / 1e9,
                (last_ns - end_ns) / 1e9,
            )
        )
    return tuple(sorted(loads, key=lambda load: (-load.end_s, load.replica)))


def _mean(values: NDArray[np.float64]) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None


def compare_like_lengths(
    decode_s: NDArray[np.float64],
    tokens: NDArray[np.float64],
    own: Sequence[int],
    rest: Sequence[int],
) -> float | None:
    """Return own seconds over what the rest takes for as many tokens in each class of length."""
    counted = tokens[[*own, *rest]]
    edges = np.quantile(counted, np.arange(1, _LENGTH_CLASSES) / _LENGTH_CLASSES)
    own_class, rest_class = np.digitize(tokens[own], edges), np.digitize(tokens[rest], edges)
    own_s = expected_s = 0.0
    for length_class in np.unique(own_class).tolist():
        mine = np.array(own)[own_class == length_class]
        others = np.array(rest)[rest_class == length_class]
        if len(others):
            own_s += float(decode_s[mine].sum())
            pace = float(decode_s[others].sum() / tokens[others].sum())
            expected_s += float(tokens[mine].sum()) * pace
    return own_s / expected_s if expected_s > 0 else None
