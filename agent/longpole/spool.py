"""An append-only log of byte records on disk, shared by agent and server.

It knows nothing of OTLP, GPUs or runs: bytes in, the same bytes out, in order, each with a
sequence number, surviving a crash at any byte.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class SpoolRecord:
    """One record. `sequence` counts from 1 over the life of the spool directory."""

    sequence: int
    payload: bytes


class Spool:
    """Segments with checksums in one directory. One process at a time; thread-safe within it.

    Args:
        directory: Created when missing.
        max_bytes: Bound of all segments; when exceeded the oldest records are dropped, counted
            in `num_dropped`.
        segment_bytes: A new segment is begun past this size.
    """

    def __init__(
        self, directory: Path, max_bytes: int = 1 << 30, segment_bytes: int = 16 << 20
    ) -> None:
        raise NotImplementedError

    @property
    def num_dropped(self) -> int:
        """Records dropped because the spool was full, since it was opened."""
        raise NotImplementedError

    @property
    def last_sequence(self) -> int:
        """Sequence of the newest record, 0 when there never was one."""
        raise NotImplementedError

    @property
    def acknowledged(self) -> int:
        """Highest sequence that `acknowledge` was told, across restarts."""
        raise NotImplementedError

    def append(self, payload: bytes) -> int:
        """Append a record and return its sequence. Durable only after `sync`."""
        raise NotImplementedError

    def sync(self) -> None:
        """Make everything appended so far durable (fsync). Group commit is the caller's."""
        raise NotImplementedError

    def read(self, after: int, max_records: int, max_bytes: int) -> list[SpoolRecord]:
        """Return records with sequence above `after`, oldest first; at least one if any exists."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[SpoolRecord]:
        """Iterate over every record not yet acknowledged, oldest first."""
        raise NotImplementedError

    def acknowledge(self, sequence: int) -> None:
        """Record durably that everything up to `sequence` is done with; frees whole segments."""
        raise NotImplementedError

    def close(self) -> None:
        """Sync and close. The spool can be opened again."""
        raise NotImplementedError
