"""Room on the disk of an embedded store.

The engine takes a write that found no room for done: it goes on with empty files, and what it
inserted or merged is gone with the next start. So nothing is written while the disk is nearly full,
and whatever was written when it became so is looked at: what is hollow is taken back.
"""

import os
import shutil
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from longpole_server.errors import StoreError

if TYPE_CHECKING:
    import pyarrow as pa

_MIB = 1 << 20
# What stays free: far more than an insert and the merges beside it take.
_MAX_RESERVE_BYTES = 512 * _MIB
# Of a small disk.
_RESERVE_RATIO = 1 / 8
# Clocks of disk and process may differ by so much.
_CLOCK_SLACK_S = 60
# What was merged is kept for 8 minutes (the engine's `old_parts_lifetime`).
_MERGED_KEPT_S = 300
# What the engine does not count as a part's size.
_UNCOUNTED = frozenset(
    {
        "checksums.txt",
        "columns.txt",
        "columns_substreams.txt",
        "default_compression_codec.txt",
        "metadata_version.txt",
    }
)
_PARTS = """
SELECT database, table, name, level, path, bytes_on_disk FROM system.parts
WHERE active AND rows > 0 AND modification_time >= fromUnixTimestamp({since_s:Int64})
"""


class Asks(Protocol):
    """What this needs of a connection that may change tables."""

    def query(self, sql: str, parameters: Mapping[str, object] | None = None) -> "pa.Table":
        """Run a query whose `{name:Type}` placeholders are bound by the database."""
        ...

    def command(self, sql: str) -> None:
        """Run a statement without a result."""
        ...


@dataclass(frozen=True, slots=True)
class _Part:
    table: str
    name: str
    is_merged: bool


class Room:
    """Keeps the engine from a full disk. One per store and process. Thread-safe.

    Args:
        directory: Of the store.
        measure: Returns the free and all bytes of a directory's disk.
        clock_s: UTC seconds.
    """

    def __init__(
        self,
        directory: Path,
        measure: Callable[[Path], tuple[int, int]] | None = None,
        clock_s: Callable[[], float] = time.time,
    ) -> None:
        self._directory = directory
        self._measure = measure or _measure
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._holds_merges = False
        # When the disk was found nearly full, until all that was written then was looked at.
        self._suspect_since_s: float | None = None

    @contextmanager
    def kept(self, client: Asks) -> Generator[None]:
        """Let an insert be made in the block, or refuse it. What an earlier one left is mended.

        Raises:
            StoreError: The disk is nearly full, or was full during the insert, which then is no
                insert: the same again succeeds once there is room.
        """
        self._prepare(client)
        try:
            yield
        except StoreError:
            with self._lock:
                self._suspect()
            raise
        self._verify(client)

    def _prepare(self, client: Asks) -> None:
        free_bytes, reserve_bytes = self._look()
        is_scarce = free_bytes < reserve_bytes
        if not is_scarce and self._suspect_since_s is None:
            return
        with self._lock:
            if is_scarce:
                self._suspect()
                if not self._holds_merges:
                    client.command("SYSTEM STOP MERGES")
                    self._holds_merges = True
            self._mend(client, is_scarce)
            if is_scarce:
                raise StoreError(
                    f"The disk is nearly full: {free_bytes // _MIB} MiB are free, and the store"
                    f" keeps {reserve_bytes // _MIB} MiB free for the database.",
                    hint="make room on the server's disk, or keep rows for less time: --retention",
                )
            if self._holds_merges:
                client.command("SYSTEM START MERGES")
                self._holds_merges = False

    def _verify(self, client: Asks) -> None:
        free_bytes, reserve_bytes = self._look()
        if free_bytes >= reserve_bytes:
            return
        with self._lock:
            self._suspect()
            if any(not part.is_merged for part in self._find_hollow(client)):
                raise StoreError("The disk filled up during an insert: it is made again.")

    def _look(self) -> tuple[int, int]:
        try:
            free_bytes, total_bytes = self._measure(self._directory)
        except OSError as error:
            raise StoreError(f"cannot look at {self._directory}: {error.strerror}") from error
        return free_bytes, min(_MAX_RESERVE_BYTES, int(total_bytes * _RESERVE_RATIO))

    def _suspect(self) -> None:
        if self._suspect_since_s is None:
            self._suspect_since_s = self._clock_s() - _CLOCK_SLACK_S

    def _mend(self, client: Asks, is_scarce: bool) -> None:
        """Take hollow parts back; those of inserts only where there is room to note it."""
        hollow = self._find_hollow(client)
        inserted = [part for part in hollow if not part.is_merged]
        merged = {part.table for part in hollow if part.is_merged}
        if is_scarce:
            # Opened anew a table forgets a hollow insert, and not that its token was inserted.
            merged -= {part.table for part in inserted} if self._is_early() else set()
        else:
            for part in inserted:
                # With the part goes the record that its token was inserted.
                client.command(f"ALTER TABLE {part.table} DROP PART '{part.name}'")
        for table in sorted(merged):
            # What was merged is kept for some minutes: a table opened anew finds it again.
            client.command(f"DETACH TABLE {table}")
            client.command(f"ATTACH TABLE {table}")
        if not is_scarce:
            self._suspect_since_s = None

    def _is_early(self) -> bool:
        since_s = self._suspect_since_s
        return since_s is None or self._clock_s() - since_s < _CLOCK_SLACK_S + _MERGED_KEPT_S

    def _find_hollow(self, client: Asks) -> list[_Part]:
        since_s = int(self._suspect_since_s or 0)
        rows = client.query(_PARTS, {"since_s": since_s}).to_pylist()
        return [
            _Part(f"`{row['database']}`.`{row['table']}`", row["name"], row["level"] > 0)
            for row in rows
            if _is_hollow(Path(row["path"]), row["bytes_on_disk"])
        ]


def _measure(directory: Path) -> tuple[int, int]:
    disk = shutil.disk_usage(directory)
    return disk.free, disk.total


def _is_hollow(directory: Path, counted_bytes: int) -> bool:
    """Tell whether a part's files hold less than the engine believes that it wrote."""
    try:
        sizes = {entry.name: entry.stat().st_size for entry in os.scandir(directory)}
    except FileNotFoundError:
        # Merged and removed meanwhile.
        return False
    is_empty = any(not size for name, size in sizes.items() if name in _UNCOUNTED)
    return is_empty or counted_bytes > sum(
        size for name, size in sizes.items() if name not in _UNCOUNTED
    )
