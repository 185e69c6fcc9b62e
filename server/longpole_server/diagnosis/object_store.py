"""What Ray's object stores say: data that travels through disks because memory is short."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from longpole_server.diagnosis.baseline import mean_known
from longpole_server.model.facts import ObjectStoreFacts


@dataclass(frozen=True, slots=True)
class ObjectStoreUse:
    """All nodes together, a step. None is not reported.

    Attributes:
        spilled_bytes, restored_bytes: Written to disk and read back.
        fallback_bytes: Most that was mapped from disk.
    """

    spilled_bytes: float | None
    restored_bytes: float | None
    fallback_bytes: float | None

    @property
    def moved_bytes(self) -> float | None:
        """Bytes that went to disks and came from them."""
        known = [each for each in (self.spilled_bytes, self.restored_bytes) if each is not None]
        return sum(known) if known else None


def measure_object_stores(
    steps: Sequence[Sequence[ObjectStoreFacts]],
) -> ObjectStoreUse | None:
    """Return the mean of the steps that report, None when none does."""
    reported = [stores for stores in steps if stores]
    if not reported:
        return None
    return ObjectStoreUse(
        spilled_bytes=mean_known([_add(each.spilled_bytes for each in step) for step in reported]),
        restored_bytes=mean_known(
            [_add(each.restored_bytes for each in step) for step in reported]
        ),
        fallback_bytes=max(
            (_add(each.fallback_bytes for each in step) or 0.0 for step in reported), default=None
        ),
    )


def _add(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
