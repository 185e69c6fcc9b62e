"""An append-only log of byte records on disk, shared by agent and server.

It knows nothing of OTLP, GPUs or runs: bytes in, the same bytes out, in order, each with a
sequence number, surviving a crash at any byte.

    SpoolError             the disk refused, or the directory cannot be used
    ├── SpoolLockedError   another process holds the directory
    └── SpoolFullError     no room, and the spool was told not to drop
"""

import errno
import os
import threading
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from longpole.durable import (
    Cursor,
    DirectoryLockedError,
    lock_directory,
    sync_data,
    sync_directory,
)
from longpole.segment import (
    HEADER_BYTES,
    MAX_PAYLOAD_BYTES,
    StoredRecord,
    UnknownVersionError,
    check_version,
    encode_header,
    encode_record,
    find_segments,
    name_segment,
    open_segment,
    read_segment,
)

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


@dataclass(slots=True)
class _Segment:
    path: Path
    first_sequence: int
    last_sequence: int
    num_bytes: int


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
    ) -> None:
        self.directory = directory
        self.max_bytes = max_bytes
        self._segment_bytes = min(segment_bytes, max_bytes // _MIN_SEGMENTS)
        self._drop_oldest = drop_oldest
        # Order of locks: sync before state, cursor before state.
        self._state_lock = threading.Lock()
        self._sync_lock = threading.Lock()
        self._cursor_lock = threading.Lock()
        self._num_dropped = 0
        self._num_damaged = 0
        self._failure = ""
        self._last_sequence = 0
        self._durable_sequence = 0
        self._segments: list[_Segment] = []
        self._active_fd = -1
        # Where the last read ended: (sequence, offset behind it). Reads mostly go on from there.
        self._position = (0, 0)
        with ExitStack() as opened, _refusals_of(directory):
            directory.mkdir(parents=True, exist_ok=True)
            opened.callback(os.close, lock_directory(directory))
            self._cursor = Cursor(directory / "acknowledged")
            opened.callback(self._cursor.close)
            self._load_segments()
            self._opened = opened.pop_all()

    @property
    def num_dropped(self) -> int:
        """Records dropped because the spool was full, since it was opened."""
        return self._num_dropped

    @property
    def num_damaged(self) -> int:
        """Records that were on disk but unreadable when the spool was opened."""
        return self._num_damaged

    @property
    def num_bytes(self) -> int:
        """Bytes of all segments on disk."""
        with self._state_lock:
            return sum(segment.num_bytes for segment in self._segments)

    @property
    def last_sequence(self) -> int:
        """Sequence of the newest record, 0 when there never was one."""
        return self._last_sequence

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
            oldest = self._segments[0].first_sequence - 1
            return max(0, self._last_sequence - max(self._cursor.value, oldest))

    def append(self, payload: bytes) -> int:
        """Append a record and return its sequence. Durable only after `sync`.

        Raises:
            SpoolFullError: No room, and the spool does not drop; or the record alone is larger
                than the spool.
            SpoolError: The disk refused. The spool holds what it held before.
        """
        with self._state_lock:
            self._check_usable()
            record = encode_record(self._last_sequence + 1, payload)
            with _refusals_of(self.directory):
                self._make_room(len(record))
                segment = self._segments[-1]
                self._write(record, segment.num_bytes)
            segment.num_bytes += len(record)
            segment.last_sequence += 1
            self._last_sequence += 1
            return self._last_sequence

    def sync(self) -> None:
        """Make everything appended so far durable (fsync). Group commit is the caller's.

        Raises:
            SpoolError: The disk refused. What was not durable may be lost, so the spool refuses
                everything from then on until it is opened again.
        """
        with self._sync_lock:
            with self._state_lock:
                self._check_usable()
                target = self._last_sequence
                if target == self._durable_sequence:
                    return
                # A duplicate, since an append may meanwhile begin a new segment.
                fd = os.dup(self._active_fd)
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
        """
        with self._state_lock:
            self._check_usable()
            durable = self._durable_sequence
            segments = [
                (segment.path, segment.first_sequence, segment.num_bytes)
                for segment in self._segments
                if after < segment.last_sequence and segment.first_sequence <= durable
            ]
        found: list[SpoolRecord] = []
        num_bytes = 0
        for path, first_sequence, end in segments:
            for record in self._read_segment(path, first_sequence, end, after):
                num_bytes += len(record.payload)
                if record.sequence > durable or (found and num_bytes > max_bytes):
                    return found
                found.append(SpoolRecord(record.sequence, record.payload))
                self._position = (record.sequence, record.end)
                if len(found) >= max_records:
                    return found
        return found

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
        if sequence > self._last_sequence:
            raise ValueError(f"record {sequence} was never appended")
        with self._cursor_lock:
            self._check_usable()
            if sequence <= self._cursor.value:
                return
            with _refusals_of(self.directory):
                self._cursor.write(sequence)
        with self._state_lock:
            self._free_acknowledged()

    def close(self) -> None:
        """Sync and close. The spool can be opened again."""
        if self._active_fd < 0:
            return
        try:
            if not self._failure:
                self.sync()
        finally:
            with self._sync_lock, self._cursor_lock, self._state_lock:
                os.close(self._active_fd)
                self._active_fd = -1
                self._opened.close()

    def _load_segments(self) -> None:
        for first_sequence, path in find_segments(self.directory):
            if self._segments:
                self._num_damaged += first_sequence - self._segments[-1].last_sequence - 1
            self._segments.append(self._check_segment(path, first_sequence))
        last = self._segments[-1].last_sequence if self._segments else 0
        self._last_sequence = self._durable_sequence = max(last, self._cursor.value)
        if self._segments and last == self._last_sequence:
            self._open_active()
        else:
            self._begin_segment()
        self._free_acknowledged()

    def _check_segment(self, path: Path, first_sequence: int) -> _Segment:
        size = path.stat().st_size
        sequence, end = first_sequence - 1, min(size, HEADER_BYTES)
        with open_segment(path) as file:
            try:
                check_version(file.read(HEADER_BYTES))
            except UnknownVersionError as error:
                raise SpoolError(
                    f"{path} was written by another version of Longpole; "
                    f"go back to that version, or move {self.directory} away"
                ) from error
            for record in read_segment(file, HEADER_BYTES, size, first_sequence):
                self._num_damaged += record.sequence - sequence - 1
                sequence, end = record.sequence, record.end
        return _Segment(path, first_sequence, sequence, end)

    def _open_active(self) -> None:
        """Go on writing behind the last intact record of the newest segment."""
        segment = self._segments[-1]
        self._active_fd = os.open(segment.path, os.O_RDWR)
        if segment.num_bytes < HEADER_BYTES:
            segment.num_bytes = 0
            self._write(encode_header(segment.first_sequence), 0)
            segment.num_bytes = HEADER_BYTES
        os.ftruncate(self._active_fd, segment.num_bytes)
        # What a killed process wrote may not have reached the disk yet.
        os.fsync(self._active_fd)
        sync_directory(self.directory)

    def _begin_segment(self) -> None:
        """Seal the active segment and begin the next one, both durably."""
        first_sequence = self._last_sequence + 1
        path = self.directory / name_segment(first_sequence)
        if self._active_fd >= 0:
            self._sync_file(self._active_fd)
            self._durable_sequence = self._last_sequence
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            header = encode_header(first_sequence)
            if os.write(fd, header) != len(header):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(fd)
            sync_directory(self.directory)
        except OSError:
            os.close(fd)
            with suppress(OSError):
                path.unlink()
            raise
        if self._active_fd >= 0:
            os.close(self._active_fd)
        self._active_fd = fd
        self._segments.append(_Segment(path, first_sequence, self._last_sequence, HEADER_BYTES))

    def _make_room(self, num_bytes: int) -> None:
        if num_bytes > min(self.max_bytes - HEADER_BYTES, MAX_PAYLOAD_BYTES):
            raise SpoolFullError(
                f"a record of {num_bytes} bytes is larger than the spool of {self.max_bytes} bytes"
            )
        active = self._segments[-1]
        if active.num_bytes > HEADER_BYTES and active.num_bytes + num_bytes > self._segment_bytes:
            self._free_acknowledged()
            self._check_bound(num_bytes + HEADER_BYTES)
            self._begin_segment()
            self._free_acknowledged()
        while sum(segment.num_bytes for segment in self._segments) + num_bytes > self.max_bytes:
            self._check_bound(num_bytes)
            if len(self._segments) == 1:
                self._begin_segment()
            oldest = self._segments[0]
            oldest.path.unlink()
            first_kept = max(oldest.first_sequence, self._cursor.value + 1)
            self._num_dropped += max(0, oldest.last_sequence - first_kept + 1)
            del self._segments[0]

    def _check_bound(self, num_bytes: int) -> None:
        held = sum(
            segment.num_bytes
            for segment in self._segments
            if segment.last_sequence > self._cursor.value
        )
        if not self._drop_oldest and held + num_bytes > self.max_bytes:
            raise SpoolFullError(f"{self.directory} holds its bound of {self.max_bytes} bytes")

    def _free_acknowledged(self) -> None:
        while len(self._segments) > 1:
            oldest = self._segments[0]
            if oldest.last_sequence > self._cursor.value:
                return
            with suppress(FileNotFoundError):
                oldest.path.unlink()
            del self._segments[0]

    def _write(self, data: bytes, offset: int) -> None:
        """Write all of `data` at `offset` of the active segment, or nothing."""
        view = memoryview(data)
        written = 0
        try:
            while written < len(data):
                written += os.pwrite(self._active_fd, view[written:], offset + written)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._active_fd, offset)
            raise

    def _read_segment(
        self, path: Path, first_sequence: int, end: int, after: int
    ) -> Iterator[StoredRecord]:
        sequence, offset = self._position
        if sequence != after or after < first_sequence:
            sequence, offset = first_sequence - 1, HEADER_BYTES
        try:
            file = open_segment(path)
        except FileNotFoundError:  # dropped or freed since
            return
        with file:
            for record in read_segment(file, offset, end, sequence + 1):
                if record.sequence > after:
                    yield record

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
        if self._active_fd < 0:
            raise SpoolError(f"{self.directory} is closed")


@contextmanager
def _refusals_of(directory: Path) -> Generator[None, None, None]:
    """Translate what the operating system refuses into errors of the spool."""
    try:
        yield
    except DirectoryLockedError as error:
        raise SpoolLockedError(str(error)) from error
    except OSError as error:
        raise SpoolError(f"{directory} cannot be used: {error.strerror}") from error
