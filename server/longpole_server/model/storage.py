"""How much the store holds."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TableSize:
    """One table.

    Attributes:
        rows: Rows on disk; replaced versions count until they are merged away.
        bytes_on_disk: Compressed, over all shards of a cluster, one replica each.
        oldest_ns, newest_ns: Times of its first and last row, None when it is empty.
        keep_s: Seconds after which rows are deleted, None when they stay.
    """

    name: str
    rows: int
    bytes_on_disk: int
    oldest_ns: int | None
    newest_ns: int | None
    keep_s: int | None

    @property
    def bytes_per_row(self) -> float | None:
        """Bytes on disk for each row, None without rows."""
        return self.bytes_on_disk / self.rows if self.rows else None


@dataclass(frozen=True, slots=True)
class StorageReport:
    """All tables, the largest first.

    Attributes:
        place: Directory or address.
        free_bytes: Free on the disk of an embedded store, None for another.
    """

    place: str
    free_bytes: int | None
    tables: tuple[TableSize, ...]
