"""How fast replicas of the rollout engines are against each other."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class ReplicaPace:
    """The slowest replica of a step.

    Attributes:
        ratio: Its seconds a token over the median of the other replicas.
        length_ratio: Mean tokens of its samples over the mean of all.
    """

    replica: str
    ratio: float
    length_ratio: float


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
    for row, replica in enumerate(replicas):
        if replica is not None and tokens[row] > 0 and decode_s[row] > 0:
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
    return ReplicaPace(
        slowest,
        pace[slowest] / float(np.median(others)),
        float(tokens[rows_of[slowest]].mean() / tokens[counted].mean()),
    )
