"""How evenly the tokens of an update are spread over its data-parallel ranks."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

_LARGEST = 1e15


@dataclass(frozen=True, slots=True)
class RankBalance:
    """Tokens of the ranks of an update. All of them wait for the fullest.

    Attributes:
        ratio: Tokens of the fullest rank over those of a mean one, as they were trained on.
        unbalanced_ratio: The same without balancing; None when not reported.
    """

    ratio: float
    unbalanced_ratio: float | None

    @property
    def waiting_ratio(self) -> float:
        """Part of the update in which a mean rank waits for the fullest, 0..1."""
        return 1 - 1 / self.ratio


def measure_rank_balance(scalars: Mapping[str, float]) -> RankBalance | None:
    """Read how evenly ranks are filled from verl's token sums of partitions, None without them.

    `global_seqlen/mean` is the mean partition, `balanced_max` the fullest as trained on, `max`
    the fullest before balancing.
    """
    mean = _tokens(scalars.get("global_seqlen/mean"))
    fullest = _tokens(scalars.get("global_seqlen/balanced_max"))
    if mean is None or fullest is None:
        return None
    unbalanced = _tokens(scalars.get("global_seqlen/max"))
    return RankBalance(
        max(1.0, fullest / mean), None if unbalanced is None else max(1.0, unbalanced / mean)
    )


def _tokens(value: float | None) -> float | None:
    # A partition of less than one token is none.
    known = value is not None and math.isfinite(value) and 1 <= value <= _LARGEST
    return value if known else None
