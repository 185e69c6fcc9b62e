"""An append-only log of byte records on disk, shared by agent and server.

It knows nothing of OTLP, GPUs or runs: bytes in, the same bytes out, in order, each with a
sequence number, surviving a crash at any byte.

    SpoolError             the disk refused, or the directory cannot be used
    ├── SpoolLockedError   another process holds the directory
    └── SpoolFullError     no room, and the spool was told not to drop
"""

import os
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from longpole.spool.durable import Cursor, DirectoryLockedError, lock_directory, sync_data
from longpole.spool.segment import (
    HEADER_BYTES,
    MAX_PAYLOAD_BYTES,
    RECORD_OVERHEAD_BYTES,
    UnknownVersionError,
)
from longpole.spool.segment_chain import Segment, SegmentChain, read_records

# Dropping the oldest frees whole segments: at most this part of the spool at once.
_MIN_SEGMENTS = 4
_ITERATE_RECORDS = 1024
_ITERATE_BYTES = 4 << 20


class SpoolError(Exception):
    """The disk refused, or the directory cannot be used as a spool."""


class SpoolLockedError(SpoolError):
    """Another process holds the directory."""


class SpoolFullError(SpoolError):
    """The spool holds as much as it may, and was told not to drop anything."""


@dataclass(frozen=True, slots=True)
class SpoolRecord:
    """One record. `sequence` counts from 1 over the life of the spool directory."""

    sequence: int
    payload: bytes


class Spool:
    """Segments with checksums in one directory. One process at a time; thread-safe within it.

    A record that was only half written when the process died is as if it had never been
    appended. A record damaged later is skipped, and counted in `num_damaged`.

    Args:
        directory: Created when missing.
        max_bytes: Bound of all segments; when exceeded the oldest records are dropped, counted
            in `num_dropped`.
        segment_bytes: A new segment is begun past this size (at most a quarter of `max_bytes`).
        drop_oldest: False: `append` raises `SpoolFullError` instead of dropping.
        max_age_s: Whole segments that are older are dropped when the spool is opened or begins
            a segment, counted in `num_dropped` as well; None keeps them.
        now_s: Monotonic clock, seconds.

    Raises:
        SpoolLockedError: Another process holds the directory.
        SpoolError: The directory cannot be used.
    """

    def __init__(
        self,
        directory: Path,
        max_bytes: int = 1 << 30,
        segment_bytes: int = 16 << 20,
        *,
        drop_oldest: bool = True,
        max_age_s: "float | None" = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.directory = directory
        self.max_bytes = max_bytes
        self._segment_bytes = min(segment_bytes, max_bytes // _MIN_SEGMENTS)
        self._drop_oldest = drop_oldest
        self._max_age_s = max_age_s
        # Order of locks: sync before state, cursor before state.
        self._state_lock = threading.Lock()
        self._sync_lock = threading.Lock()
        self._cursor_lock = threading.Lock()
        self._num_dropped = 0
        self._failure = ""
        self._is_open = True
        # Where the last read ended: (sequence, offset behind it). Reads mostly go on from there.
        self._position = (0, 0)
        with ExitStack() as opened, _refusals_of(directory):
            directory.mkdir(parents=True, exist_ok=True)
            opened.callback(os.close, lock_directory(directory))
            self._cursor = Cursor(directory / "acknowledged")
            opened.callback(self._cursor.close)
            self._chain = SegmentChain(directory, self._cursor.value, self._sync_file, now_s)
            opened.callback(self._chain.close)
            self._durable_sequence = self._chain.last_sequence
            self._chain.free(self._cursor.value)
            self._drop_aged()
            self._opened = opened.pop_all()

    @property
    def num_dropped(self) -> int:
        """Records dropped because the spool was full or they were old, since it was opened."""
        return self._num_dropped

    @property
    def failure(self) -> str:
        """Why the spool refuses everything until it is opened again, or an empty string."""
        return self._failure

    @property
    def is_open(self) -> bool:
        """Whether it was not closed yet."""
        return self._is_open

    @property
    def num_damaged(self) -> int:
        """Records that were on disk but unreadable when the spool was opened."""
        return self._chain.num_damaged

    @property
    def num_bytes(self) -> int:
        """Bytes of all segments on disk."""
        with self._state_lock:
            return self._chain.num_bytes

    @property
    def last_sequence(self) -> int:
        """Sequence of the newest record, 0 when there never was one."""
        return self._chain.last_sequence

    @property
    def durable_sequence(self) -> int:
        """Sequence of the newest record that is synced."""
        return self._durable_sequence

    @property
    def acknowledged(self) -> int:
        """Highest sequence that `acknowledge` was told, across restarts."""
        return self._cursor.value

    @property
    def num_pending(self) -> int:
        """Records held and not acknowledged."""
        with self._state_lock:
            done = max(self._cursor.value, self._chain.first_sequence - 1)
            return max(0, self._chain.last_sequence - done)

    def append(self, payload: bytes) -> int:
        """Append a record and return its sequence. Durable only after `sync`.

        Raises:
            SpoolFullError: No room, and the spool does not drop; or the record alone is larger
                than the spool.
            SpoolError: The disk refused. The spool holds what it held before.
        """
        with self._state_lock:
            self._check_usable()
            with _refusals_of(self.directory):
                self._make_room(len(payload) + RECORD_OVERHEAD_BYTES)
                return self._chain.append(payload)

    def skip_to(self, sequence: int) -> None:
        """Number what is appended from now on above `sequence`, durably.

        Raises:
            SpoolError: The disk refused.
        """
        with self._state_lock:
            self._check_usable()
            if sequence <= self._chain.last_sequence:
                return
            with _refusals_of(self.directory):
                self._chain.begin_segment(sequence + 1)
            self._durable_sequence = self._chain.last_sequence

    def sync(self) -> None:
        """Make everything appended so far durable (fsync). Group commit is the caller's.

        Raises:
            SpoolError: The disk refused. What was not durable may be lost, so the spool refuses
                everything from then on until it is opened again, and `failure` says so. Without
                that (too many open files) the next sync covers what this one did not.
        """
        with self._sync_lock:
            with self._state_lock:
                self._check_usable()
                target = self._chain.last_sequence
                if target == self._durable_sequence:
                    return
                # A duplicate, since an append may meanwhile begin a new segment.
                with _refusals_of(self.directory):
                    fd = os.dup(self._chain.active_fd)
            try:
                self._sync_file(fd)
            finally:
                os.close(fd)
            with self._state_lock:
                self._durable_sequence = max(self._durable_sequence, target)

    def read(self, after: int, max_records: int, max_bytes: int) -> list[SpoolRecord]:
        """Return records with sequence above `after`, oldest first; at least one if any exists.

        Only durable records are returned: whoever acts on one will find it again after a crash.

        Args:
            after: Sequence below the first one wanted.
            max_records: At most so many, at least one.
            max_bytes: Bound of the payloads together, except for the first.

        Raises:
            SpoolError: The disk refused; unless `failure` says so, ask again.
        """
        with self._state_lock:
            self._check_usable()
            durable = self._durable_sequence
            segments = self._chain.list_after(after, durable)
        with _refusals_of(self.directory):
            return self._read_from(segments, after, durable, max_records, max_bytes)

    def __iter__(self) -> Iterator[SpoolRecord]:
        """Iterate over every durable record not yet acknowledged, oldest first."""
        after = self.acknowledged
        while records := self.read(after, _ITERATE_RECORDS, _ITERATE_BYTES):
            yield from records
            after = records[-1].sequence

    def acknowledge(self, sequence: int) -> None:
        """Record durably that everything up to `sequence` is done with; frees whole segments.

        A sequence below what was acknowledged before changes nothing.

        Raises:
            ValueError: There is no such record yet.
            SpoolError: The disk refused.
        """
        if sequence > self._chain.last_sequence:
            raise ValueError(f"record {sequence} was never appended")
        with self._cursor_lock:
            self._check_usable()
            if sequence <= self._cursor.value:
                return
            with _refusals_of(self.directory):
                self._cursor.write(sequence)
        with self._state_lock:
            self._chain.free(sequence)

    def close(self) -> None:
        """Sync and close. The spool can be opened again."""
        if not self._is_open:
            return
        try:
            if not self._failure:
                self.sync()
        finally:
            with self._sync_lock, self._cursor_lock, self._state_lock:
                self._is_open = False
                self._opened.close()

    def _read_from(
        self,
        segments: Sequence[Segment],
        after: int,
        durable: int,
        max_records: int,
        max_bytes: int,
    ) -> list[SpoolRecord]:
        found: list[SpoolRecord] = []
        num_bytes = 0
        for segment in segments:
            for record in read_records(segment, after, self._position):
                num_bytes += len(record.payload)
                if record.sequence > durable or (found and num_bytes > max_bytes):
                    return found
                found.append(SpoolRecord(record.sequence, record.payload))
                self._position = (record.sequence, record.end)
                if len(found) >= max_records:
                    return found
        return found

    def _make_room(self, num_bytes: int) -> None:
        """Make room for a record in the newest segment, within the bound."""
        if num_bytes > min(self.max_bytes - HEADER_BYTES, MAX_PAYLOAD_BYTES):
            raise SpoolFullError(
                f"a record of {num_bytes} bytes is larger than the spool of {self.max_bytes} bytes"
            )
        chain = self._chain
        if not chain.is_active_empty and chain.active_bytes + num_bytes > self._segment_bytes:
            self._check_bound(num_bytes + HEADER_BYTES)
            chain.begin_segment()
            self._durable_sequence = chain.last_sequence
            chain.free(self._cursor.value)
            self._drop_aged()
        while chain.num_bytes + num_bytes > self.max_bytes:
            self._check_bound(num_bytes)
            self._drop_segment()

    def _drop_aged(self) -> None:
        chain = self._chain
        if self._max_age_s is None:
            return
        while not chain.is_empty and chain.oldest_age_s > self._max_age_s:
            self._drop_segment()

    def _drop_segment(self) -> None:
        first, last = self._chain.drop_oldest()
        self._num_dropped += max(0, last - max(first, self._cursor.value + 1) + 1)

    def _check_bound(self, num_bytes: int) -> None:
        held_bytes = self._chain.count_bytes_after(self._cursor.value)
        if not self._drop_oldest and held_bytes + num_bytes > self.max_bytes:
            raise SpoolFullError(f"{self.directory} holds its bound of {self.max_bytes} bytes")

    def _sync_file(self, fd: int) -> None:
        try:
            sync_data(fd)
        except OSError as error:
            # After a failed fsync the kernel may drop the pages: asking again proves nothing.
            self._failure = f"{self.directory}: fsync failed: {error.strerror}"
            raise SpoolError(self._failure) from error

    def _check_usable(self) -> None:
        if self._failure:
            raise SpoolError(self._failure)
        if not self._is_open:
            raise SpoolError(f"{self.directory} is closed")


@contextmanager
def _refusals_of(directory: Path) -> Generator[None, None, None]:
    """Translate what the operating system refuses into errors of the spool."""
    try:
        yield
    except DirectoryLockedError as error:
        raise SpoolLockedError(str(error)) from error
    except UnknownVersionError as error:
        raise SpoolError(
            f"{error} was written by another version of Longpole; "
            f"go back to that version, or move {directory} away"
        ) from error
    except OSError as error:
        raise SpoolError(f"{directory} cannot be used: {error.strerror}") from error
