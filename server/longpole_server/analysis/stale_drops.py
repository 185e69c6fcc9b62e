"""Which part of what was generated was thrown away because it was too old: the one definition.

Diagnosis reads a window by it, alerts the newest steps.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

# verl's counters since the start of the training; they fall back when it is resumed.
DROPPED_TOTAL = "fully_async/count/dropped_stale_samples"
GENERATED_TOTAL = "fully_async/count/total_generated_samples"


@dataclass(frozen=True, slots=True)
class StaleDrops:
    """Samples that were dropped, of those that were generated (more than none)."""

    dropped: float
    generated: float

    @property
    def ratio(self) -> float:
        """The part of them, 0..1."""
        return self.dropped / self.generated


def count_by_totals(
    totals: Sequence[tuple[float | None, float | None]], *, since_resumed: bool = False
) -> StaleDrops | None:
    """Return what two counters say of the time between their readings.

    Args:
        totals: (dropped, generated) since the start of the training by step, in order; None where
            one is not reported. A counter that falls back was resumed: the fall counts nothing.
        since_resumed: Leave out what came before the last fall, as an alert does, which tells of
            the training that runs now.

    Returns:
        None when nothing was generated between two readings.
    """
    known = [
        (dropped, generated)
        for dropped, generated in totals
        if dropped is not None and generated is not None
    ]
    if since_resumed:
        falls = [at for at, (before, after) in enumerate(pairwise(known), 1) if after < before]
        known = known[falls[-1] :] if falls else known
    more = [
        (after[0] - before[0], after[1] - before[1])
        for before, after in pairwise(known)
        if after[0] >= before[0] and after[1] > before[1]
    ]
    generated = sum(count for _, count in more)
    return StaleDrops(sum(count for count, _ in more), generated) if generated else None


def count_by_samples(dropped: float, generated: float, *, ever_dropped: bool) -> StaleDrops | None:
    """Return what the samples' status says.

    Args:
        dropped: Samples of status `dropped_stale`.
        generated: Samples that say what became of them.
        ever_dropped: Whether the run has said so of any sample: trainers that never say which
            samples they dropped look the same as those that drop none.
    """
    return StaleDrops(dropped, generated) if ever_dropped and generated > 0 else None
