"""The seam between the sampler and everything that can be sampled."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

# `gauge` is a level, `total` a level that adds up over entities, `counter` only ever grows.
Kind = Literal["gauge", "total", "counter"]
Attributes = tuple[tuple[str, str | int], ...]


@dataclass(frozen=True, slots=True)
class Point:
    """One value at one time, under an OpenTelemetry name.

    Attributes:
        metric: Name of the metric.
        unit: Unit of the value (UCUM): `1`, `By`, `W`, `J`, `Cel`, `Hz`, `By/s`, ...
        kind: How values add up over time.
        ts_ns: UTC nanoseconds.
        value: None says that the entity exists and its value is not known.
        attributes: Which entity: keys and values.
        resource: Who says so, where it is not the agent itself.
    """

    metric: str
    unit: str
    kind: Kind
    ts_ns: int
    value: float | None
    attributes: Attributes = ()
    resource: Attributes = ()


class Source(Protocol):
    """Something that can be sampled.

    Each source is called from one thread of its own, so it may block; a source that is still busy
    when the next tick comes misses that tick. It knows time from its argument only.
    """

    @property
    def name(self) -> str:
        """Short name for logs and the health page."""
        ...

    def sample(self, ts_ns: int) -> Sequence[Point]:
        """Return the points of now, stamped `ts_ns`. What is not supported is left out."""
        ...

    def close(self) -> None:
        """Give back what the source holds."""
        ...
