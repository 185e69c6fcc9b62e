"""One file of a spool: a checksummed header, then checksummed records.

    header   magic 8s | version u32 | first sequence u64 | crc32 u32
    record   payload length u32 | crc32 u32 | sequence u64 | payload

All numbers are little-endian. A record's checksum covers its length, its sequence and its
payload. Sequences within a segment are contiguous; the file's name repeats the first one, so a
damaged header costs nothing.
"""

import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

_HEADER = struct.Struct("<8sIQ")
_CRC = struct.Struct("<I")
_MAGIC = b"LPSPOOL\x00"
_VERSION = 1
_LENGTH_AND_CRC = struct.Struct("<II")
_SEQUENCE = struct.Struct("<Q")
_SUFFIX = ".segment"

HEADER_BYTES = _HEADER.size + _CRC.size
RECORD_OVERHEAD_BYTES = _LENGTH_AND_CRC.size + _SEQUENCE.size
MAX_PAYLOAD_BYTES = (1 << 32) - 1
# Behind damage the next good record is looked for, wherever it is: in pieces of so many bytes, and
# among places that look like one until their checksums have cost so many.
_RESYNC_BYTES = 1 << 20
_RESYNC_CHECKED_BYTES = 256 << 20
# Sequences of a segment differ in their low two bytes, mostly.
_LOW_BYTES = 2
_READ_BUFFER_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record found in a segment; `end` is the file offset behind it."""

    sequence: int
    payload: bytes
    end: int


class UnknownVersionError(Exception):
    """A segment was written by another version of this program. The argument is its path."""


def name_segment(first_sequence: int) -> str:
    """Return the file name of the segment that begins with `first_sequence`."""
    return f"{first_sequence:020d}{_SUFFIX}"


def find_segments(directory: Path) -> list[tuple[int, Path]]:
    """Return (first sequence, path) of the segments in `directory`, oldest first."""
    found = [
        (int(path.stem), path) for path in directory.glob(f"*{_SUFFIX}") if path.stem.isdecimal()
    ]
    return sorted(found)


def encode_header(first_sequence: int) -> bytes:
    """Return the bytes a segment begins with."""
    fields = _HEADER.pack(_MAGIC, _VERSION, first_sequence)
    return fields + _CRC.pack(zlib.crc32(fields))


def check_version(path: Path, header: bytes) -> None:
    """Raise `UnknownVersionError` when an intact header names another version of the format.

    A damaged header says nothing and passes.
    """
    if len(header) < HEADER_BYTES:
        return
    fields = header[: _HEADER.size]
    if zlib.crc32(fields) != _CRC.unpack_from(header, _HEADER.size)[0]:
        return
    magic, version, _ = _HEADER.unpack(fields)
    if magic != _MAGIC or version != _VERSION:
        raise UnknownVersionError(path)


def encode_record(sequence: int, payload: bytes) -> bytes:
    """Return the bytes of one record."""
    number = _SEQUENCE.pack(sequence)
    checksum = _checksum(len(payload), number, payload)
    return b"".join((_LENGTH_AND_CRC.pack(len(payload), checksum), number, payload))


def read_segment(
    file: BinaryIO, start: int, end: int, expected: int, last: "int | None" = None
) -> Iterator[StoredRecord]:
    """Yield the intact records of a segment, in order; damaged ones are skipped.

    Args:
        file: The segment.
        start: Offset of the first record to read.
        end: Offset behind the last byte to look at.
        expected: Sequence of the record at `start`.
        last: Highest sequence in it; None where only its size tells.
    """
    offset = start
    while end - offset >= RECORD_OVERHEAD_BYTES:
        record = _read_record(file, offset, end, expected)
        if record is None:
            place = _find_next(file, offset + 1, end, expected + 1, last)
            if place is None:
                return
            offset, expected = place
            continue
        yield record
        offset, expected = record.end, expected + 1


def open_segment(path: Path) -> BinaryIO:
    """Open a segment for reading."""
    return path.open("rb", buffering=_READ_BUFFER_BYTES)


def _checksum(length: int, number: bytes, payload: bytes) -> int:
    return zlib.crc32(payload, zlib.crc32(number, length))


def _read_record(file: BinaryIO, offset: int, end: int, expected: int) -> StoredRecord | None:
    file.seek(offset)
    head = file.read(RECORD_OVERHEAD_BYTES)
    if len(head) < RECORD_OVERHEAD_BYTES:
        return None
    length, checksum = _LENGTH_AND_CRC.unpack_from(head)
    number = head[_LENGTH_AND_CRC.size :]
    record_end = offset + RECORD_OVERHEAD_BYTES + length
    if record_end > end or _SEQUENCE.unpack(number)[0] != expected:
        return None
    payload = file.read(length)
    if len(payload) != length or _checksum(length, number, payload) != checksum:
        return None
    return StoredRecord(expected, payload, record_end)


def _find_next(
    file: BinaryIO, start: int, end: int, first: int, last: "int | None"
) -> tuple[int, int] | None:
    """Return (offset, sequence) of the next intact record from `first` on, None if none is."""
    if last is None:
        last = first + (end - start) // RECORD_OVERHEAD_BYTES
    looks_like = _make_pattern(first, last)
    checked_bytes = 0
    for base in range(start, end, _RESYNC_BYTES):
        file.seek(base)
        piece = file.read(min(_RESYNC_BYTES, end - base) + RECORD_OVERHEAD_BYTES)
        for match in looks_like.finditer(piece):
            at = match.start()
            offset = base + at - _LENGTH_AND_CRC.size
            (sequence,) = _SEQUENCE.unpack_from(piece, at)
            if offset < start or not first <= sequence <= last:
                continue
            if _read_record(file, offset, end, sequence) is not None:
                return offset, sequence
            checked_bytes += file.tell() - offset
            if checked_bytes > _RESYNC_CHECKED_BYTES:
                return None
    return None


def _make_pattern(first: int, last: int) -> "re.Pattern[bytes]":
    """Return what finds every place where a sequence from `first` to `last` may stand.

    Only by its high bytes, and none of the many places that are all zeros.
    """
    highs = range(first >> 8 * _LOW_BYTES, (last >> 8 * _LOW_BYTES) + 1)
    texts = (_SEQUENCE.pack(high << 8 * _LOW_BYTES)[_LOW_BYTES:] for high in highs)
    either = b"|".join(map(re.escape, texts))
    return re.compile(b"(?=(?!\0\0\0)[\\s\\S]{%d}(?:%b))" % (_LOW_BYTES, either))
