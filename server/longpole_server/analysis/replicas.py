"""How fast replicas of the rollout engines are against each other."""

from collections.abc import Mapping, Sequence
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
    counted, owners = list_owned(rows_of)
    alike = compare_like_lengths(decode_s[counted], tokens[counted], owners)
    return ReplicaPace(
        slowest,
        pace[slowest] / float(np.median(others)),
        float(tokens[rows_of[slowest]].mean() / tokens[counted].mean()),
        alike[list(rows_of).index(slowest)],
    )


def list_owned(
    rows_of: Mapping[str, Sequence[int]],
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the rows of all owners, and for each the place of its owner in `rows_of`."""
    counted = np.array([row for rows in rows_of.values() for row in rows], dtype=np.intp)
    sizes = [len(rows) for rows in rows_of.values()]
    return counted, np.repeat(np.arange(len(sizes), dtype=np.intp), sizes)


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
    decode_s: NDArray[np.float64], tokens: NDArray[np.float64], owners: NDArray[np.intp]
) -> list[float | None]:
    """Return what each owner took over what the others take for as many tokens of like length.

    Args:
        decode_s: Seconds of decoding of every sample, all known.
        tokens: Response tokens of every sample, all known.
        owners: Whose each sample is, from 0.

    Returns:
        By owner; None where nobody else has samples of like length.
    """
    count = int(owners.max()) + 1
    edges = np.quantile(tokens, np.arange(1, _LENGTH_CLASSES) / _LENGTH_CLASSES)
    cells = owners, np.digitize(tokens, edges)

    def add_up(values: NDArray[np.float64]) -> NDArray[np.float64]:
        sums = np.zeros((count, _LENGTH_CLASSES))
        np.add.at(sums, cells, values)
        return sums

    own_s, own_tokens = add_up(decode_s), add_up(tokens)
    own_samples = add_up(np.ones(len(tokens)))
    compared = own_samples < own_samples.sum(axis=0)
    with np.errstate(invalid="ignore"):
        pace = (own_s.sum(axis=0) - own_s) / (own_tokens.sum(axis=0) - own_tokens)
    took_s = np.where(compared, own_s, 0.0).sum(axis=1)
    expected_s = np.where(compared, own_tokens * pace, 0.0).sum(axis=1)
    return [
        took / expected if expected > 0 else None
        for took, expected in zip(took_s.tolist(), expected_s.tolist(), strict=True)
    ]
