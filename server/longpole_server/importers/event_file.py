"""TensorBoard's event files: protobuf messages framed as TFRecords, with checksums."""

import struct
from collections.abc import Iterator
from typing import BinaryIO

from longpole_server.importers.crc32c import masked_crc32c
from longpole_server.importers.logged import LogLine, LogSummary
from longpole_server.importers.protobuf_wire import (
    BYTES,
    FIXED32,
    FIXED64,
    MalformedError,
    read_fields,
    to_bytes,
    to_int64,
)
from longpole_server.importers.tracked import Tracked, TrackedReader

_FRAME = struct.Struct("<QI")
_CHECKSUM = struct.Struct("<I")
_DOUBLE, _FLOAT = struct.Struct("<d"), struct.Struct("<f")
# Scalars take less; what is larger are images, texts and histograms.
_MAX_SCALAR_BYTES = 1 << 20
_SKIP_BYTES = 1 << 20
# Event.wall_time, .step, .summary; Summary.value; Value.tag, .simple_value, .tensor.
_WALL_TIME, _STEP, _SUMMARY = 1, 2, 5
_VALUE = 1
_TAG, _SIMPLE_VALUE, _TENSOR = 1, 2, 8
# TensorProto.dtype, .tensor_content, .float_val, .double_val, and the two types.
_DTYPE, _CONTENT, _FLOAT_VAL, _DOUBLE_VAL = 1, 4, 5, 6
_DT_FLOAT, _DT_DOUBLE = 1, 2
_MAX_TAGS = 20_000


def is_event_file(head: bytes) -> bool:
    """Return whether a file begins with a TFRecord whose length has its checksum."""
    if len(head) < _FRAME.size:
        return False
    size, checksum = _FRAME.unpack_from(head)
    return 0 < size < _MAX_SCALAR_BYTES and masked_crc32c(head[:8]) == checksum


def read_event_file(stream: BinaryIO, summary: LogSummary) -> Iterator[LogLine]:
    """Yield the scalars of an event file, together what was logged together.

    Args:
        stream: The file from its start.
        summary: Counts grow as records are read.
    """
    reader = TrackedReader()
    group = _Group()
    for record in _read_records(stream, summary):
        try:
            wall_s, step, values = _read_event(record)
        except (MalformedError, struct.error):
            summary.num_unreadable += 1
            continue
        for tag, value in values.items():
            if group.is_other(step, tag):
                yield from group.flush(reader, summary)
            group.add(step, tag, value, wall_s, summary)
    yield from group.flush(reader, summary)


class _Group:
    """Values of one step, up to the first tag that comes again."""

    def __init__(self) -> None:
        self._step = 0
        self._wall_s = 0.0
        self._values: dict[str, float] = {}

    def is_other(self, step: int, tag: str) -> bool:
        return bool(self._values) and (
            step != self._step or tag in self._values or len(self._values) >= _MAX_TAGS
        )

    def add(self, step: int, tag: str, value: float, wall_s: float, summary: LogSummary) -> None:
        self._step, self._wall_s = step, wall_s
        if value - value == 0.0:
            self._values[tag] = value
        else:
            summary.count_not_finite(tag)

    def flush(self, reader: TrackedReader, summary: LogSummary) -> Iterator[LogLine]:
        values, self._values = self._values, {}
        if values:
            summary.num_step_lines += 1
            yield from reader.take(Tracked(self._step, values, round(self._wall_s * 1e9)))


def _read_records(stream: BinaryIO, summary: LogSummary) -> Iterator[bytes]:
    while frame := stream.read(_FRAME.size):
        if len(frame) < _FRAME.size:
            summary.torn_last_line = True
            return
        size, checksum = _FRAME.unpack(frame)
        if masked_crc32c(frame[:8]) != checksum:
            # Where the next record begins nobody knows.
            summary.num_unreadable += 1
            return
        summary.num_lines += 1
        if size > _MAX_SCALAR_BYTES:
            if not _skip(stream, size + _CHECKSUM.size):
                summary.torn_last_line = True
                return
            continue
        data, tail = stream.read(size), stream.read(_CHECKSUM.size)
        if len(data) < size or len(tail) < _CHECKSUM.size:
            summary.torn_last_line = True
            return
        if masked_crc32c(data) != _CHECKSUM.unpack(tail)[0]:
            summary.num_unreadable += 1
            continue
        yield data


def _skip(stream: BinaryIO, num_bytes: int) -> bool:
    while num_bytes > 0:
        block = stream.read(min(num_bytes, _SKIP_BYTES))
        if not block:
            return False
        num_bytes -= len(block)
    return True


def _read_event(record: bytes) -> tuple[float, int, dict[str, float]]:
    wall_s, step = 0.0, 0
    values: dict[str, float] = {}
    for number, wire_type, value in read_fields(record):
        if number == _WALL_TIME and wire_type == FIXED64:
            wall_s = _DOUBLE.unpack(to_bytes(value))[0]
        elif number == _STEP:
            step = to_int64(value)
        elif number == _SUMMARY and wire_type == BYTES:
            for inner, _, message in read_fields(to_bytes(value)):
                if inner == _VALUE:
                    tag, scalar = _read_value(to_bytes(message))
                    if tag and scalar is not None:
                        values[tag] = scalar
    return wall_s, step, values


def _read_value(message: bytes) -> tuple[str, float | None]:
    tag, scalar = "", None
    for number, wire_type, value in read_fields(message):
        if number == _TAG:
            tag = to_bytes(value).decode("utf-8", errors="replace")
        elif number == _SIMPLE_VALUE and wire_type == FIXED32:
            scalar = _FLOAT.unpack(to_bytes(value))[0]
        elif number == _TENSOR and wire_type == BYTES:
            scalar = _read_tensor(to_bytes(value))
    return tag, scalar


def _read_tensor(message: bytes) -> float | None:
    """Return the number of a tensor that holds one."""
    dtype, found = 0, None
    for number, _, value in read_fields(message):
        if number == _DTYPE:
            dtype = to_int64(value)
            continue
        content = to_bytes(value)
        if number == _FLOAT_VAL or (number == _CONTENT and dtype == _DT_FLOAT):
            found = _FLOAT.unpack(content)[0] if len(content) == _FLOAT.size else None
        elif number == _DOUBLE_VAL or (number == _CONTENT and dtype == _DT_DOUBLE):
            found = _DOUBLE.unpack(content)[0] if len(content) == _DOUBLE.size else None
    return found
