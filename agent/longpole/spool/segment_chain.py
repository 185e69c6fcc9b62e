"""The files of one spool, in order: the newest is written, the oldest is given up first."""

import errno
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from longpole.spool.durable import sync_directory
from longpole.spool.segment import (
    HEADER_BYTES,
    StoredRecord,
    check_version,
    encode_header,
    encode_record,
    find_segments,
    name_segment,
    open_segment,
    read_segment,
)


@dataclass(slots=True)
class Segment:
    """One file, and what is known of it. `written_s`: monotonic time of its newest record."""

    path: Path
    first_sequence: int
    last_sequence: int
    num_bytes: int
    written_s: float = 0.0


class SegmentChain:
    """The segments in a directory. The caller locks; only `read_records` needs no lock.

    Args:
        directory: Exists.
        acknowledged: Sequences up to this were used, even where no file says so.
        sync: Makes an open file durable.
        now_s: Monotonic clock, seconds.

    Raises:
        UnknownVersionError: A segment was written by another version of this program.
        OSError: The directory cannot be used.
    """

    def __init__(
        self,
        directory: Path,
        acknowledged: int,
        sync: Callable[[int], None],
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._directory = directory
        self._sync = sync
        self._now_s = now_s
        self._segments: list[Segment] = []
        self.num_damaged = 0
        self.active_fd = -1
        for first_sequence, path in find_segments(directory):
            if self._segments:
                self.num_damaged += first_sequence - self._segments[-1].last_sequence - 1
            self._segments.append(self._examine(path, first_sequence))
        last = self._segments[-1].last_sequence if self._segments else 0
        self.last_sequence = max(last, acknowledged)
        if self._segments and last == self.last_sequence:
            self._open_active()
        else:
            self.begin_segment()

    @property
    def num_bytes(self) -> int:
        """Bytes of all files."""
        return sum(segment.num_bytes for segment in self._segments)

    @property
    def first_sequence(self) -> int:
        """Sequence of the oldest record held, or of the next one when none is."""
        return self._segments[0].first_sequence

    @property
    def is_active_empty(self) -> bool:
        """Whether the newest segment holds no record yet."""
        return self.active_bytes == HEADER_BYTES

    @property
    def active_bytes(self) -> int:
        """Bytes of the newest segment."""
        return self._segments[-1].num_bytes

    def count_bytes_after(self, sequence: int) -> int:
        """Return the bytes of the files that hold a record above `sequence`."""
        return sum(
            segment.num_bytes for segment in self._segments if segment.last_sequence > sequence
        )

    def append(self, payload: bytes) -> int:
        """Write a record to the newest segment and return its sequence."""
        segment = self._segments[-1]
        record = encode_record(self.last_sequence + 1, payload)
        self._write(record, segment.num_bytes)
        segment.num_bytes += len(record)
        segment.last_sequence = self.last_sequence = self.last_sequence + 1
        segment.written_s = self._now_s()
        return self.last_sequence

    def begin_segment(self, first_sequence: "int | None" = None) -> None:
        """Seal the newest segment and begin the next one, both durably.

        Args:
            first_sequence: Of the next one, above all before it; None: the one that follows.
        """
        if self.active_fd >= 0:
            self._sync(self.active_fd)
        if first_sequence is None:
            first_sequence = self.last_sequence + 1
        path = self._directory / name_segment(first_sequence)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            _write_all(fd, encode_header(first_sequence), 0)
            os.fsync(fd)
            sync_directory(self._directory)
        except OSError:
            os.close(fd)
            with suppress(OSError):
                path.unlink()
            raise
        self.close()
        self.active_fd = fd
        self.last_sequence = first_sequence - 1
        self._segments.append(
            Segment(path, first_sequence, self.last_sequence, HEADER_BYTES, self._now_s())
        )

    def free(self, acknowledged: int) -> None:
        """Delete the sealed segments in which nothing is left to do."""
        while len(self._segments) > 1 and self._segments[0].last_sequence <= acknowledged:
            self._delete_oldest()

    @property
    def oldest_age_s(self) -> float:
        """Seconds since the newest record of the oldest file was written."""
        return self._now_s() - self._segments[0].written_s

    @property
    def is_empty(self) -> bool:
        """Whether no file holds a record."""
        return len(self._segments) == 1 and self.is_active_empty

    def drop_oldest(self) -> tuple[int, int]:
        """Delete the oldest segment, and return the first and last sequence it held."""
        if len(self._segments) == 1:
            self.begin_segment()
        oldest = self._segments[0]
        self._delete_oldest()
        return oldest.first_sequence, oldest.last_sequence

    def list_after(self, sequence: int, until: int) -> Sequence[Segment]:
        """Return copies of the segments with a record above `sequence`, up to `until`."""
        return [
            Segment(segment.path, segment.first_sequence, segment.last_sequence, segment.num_bytes)
            for segment in self._segments
            if sequence < segment.last_sequence and segment.first_sequence <= until
        ]

    def close(self) -> None:
        """Close the newest segment."""
        if self.active_fd >= 0:
            os.close(self.active_fd)
            self.active_fd = -1

    def _examine(self, path: Path, first_sequence: int) -> Segment:
        status = path.stat()
        size = status.st_size
        # While this process runs only the monotonic clock counts: the other one may jump.
        written_s = self._now_s() - max(0.0, time.time() - status.st_mtime)
        sequence, end = first_sequence - 1, min(size, HEADER_BYTES)
        with open_segment(path) as file:
            check_version(path, file.read(HEADER_BYTES))
            for record in read_segment(file, HEADER_BYTES, size, first_sequence):
                self.num_damaged += record.sequence - sequence - 1
                sequence, end = record.sequence, record.end
        return Segment(path, first_sequence, sequence, end, written_s)

    def _open_active(self) -> None:
        """Go on writing behind the last intact record of the newest segment."""
        segment = self._segments[-1]
        self.active_fd = os.open(segment.path, os.O_RDWR)
        try:
            if segment.num_bytes < HEADER_BYTES:
                self._write(encode_header(segment.first_sequence), 0)
                segment.num_bytes = HEADER_BYTES
            os.ftruncate(self.active_fd, segment.num_bytes)
            # What a killed process wrote may not have reached the disk yet.
            os.fsync(self.active_fd)
            sync_directory(self._directory)
        except OSError:
            self.close()
            raise

    def _write(self, data: bytes, offset: int) -> None:
        """Write all of `data` at `offset` of the newest segment, or nothing."""
        try:
            _write_all(self.active_fd, data, offset)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self.active_fd, offset)
            raise

    def _delete_oldest(self) -> None:
        with suppress(FileNotFoundError):
            self._segments[0].path.unlink()
        del self._segments[0]


def read_records(segment: Segment, after: int, position: tuple[int, int]) -> Iterator[StoredRecord]:
    """Yield the records of a segment above `after`; nothing when it was deleted meanwhile.

    Args:
        segment: From `SegmentChain.list_after`.
        after: Sequence below the first one wanted.
        position: A sequence and the offset behind it; saves the way there when it is `after`.
    """
    sequence, offset = position
    if sequence != after or after < segment.first_sequence:
        sequence, offset = segment.first_sequence - 1, HEADER_BYTES
    try:
        file = open_segment(segment.path)
    except FileNotFoundError:
        return
    with file:
        # What was found when the file was longer is found again.
        last = segment.last_sequence
        for record in read_segment(file, offset, segment.num_bytes, sequence + 1, last):
            if record.sequence > after:
                yield record


def _write_all(fd: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    written = 0
    while written < len(data):
        count = os.pwrite(fd, view[written:], offset + written)
        if count == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written += count
