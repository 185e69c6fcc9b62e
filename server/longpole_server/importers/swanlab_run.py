"""swanlab's run files (`run-*.swanlab`): of their records only the scalars that people log.

Read as version 0.10 writes them, whatever its mode.
"""

import struct
from collections.abc import Iterator
from typing import BinaryIO

from longpole_server.importers.logged import LogLine, LogSummary
from longpole_server.importers.protobuf_wire import (
    BYTES,
    FIXED64,
    MalformedError,
    read_fields,
    to_bytes,
    to_int64,
)
from longpole_server.importers.record_log import read_records
from longpole_server.importers.tracked import Tracked, TrackedReader
from longpole_server.importers.values import read_scalars

MAGIC = b":SWL"
_MAGIC_NUMBER = 0xE1D6
# Numbers of swanlab's protocol: Record.scalar, ScalarRecord.key, .step, .timestamp and .value,
# Timestamp.seconds and .nanos, ScalarValue.number.
_SCALAR = 13
_KEY, _STEP, _TIMESTAMP, _VALUE = 1, 2, 4, 5
_SECONDS, _NANOS = 1, 2
_NUMBER = 1
_DOUBLE = struct.Struct("<d")
# What it measures of the machine has names and a count of its own.
_OF_THE_MACHINE = "__swanlab__"


def read_swanlab_run(stream: BinaryIO, summary: LogSummary) -> Iterator[LogLine]:
    """Yield the scalars of a run file, together what was logged together.

    Args:
        stream: The file from its start.
        summary: Counts grow as records are read.
    """
    reader = TrackedReader()
    group: Tracked | None = None
    for record in read_records(stream, summary, (MAGIC, _MAGIC_NUMBER)):
        try:
            scalar = _read_scalar(record, summary)
        except MalformedError:
            summary.num_unreadable += 1
            continue
        if scalar is None:
            continue
        if group is not None and group.step == scalar.step and group.time_ns == scalar.time_ns:
            group = Tracked(group.step, {**group.values, **scalar.values}, group.time_ns)
            continue
        if group is not None:
            summary.num_step_lines += 1
            yield from reader.take(group)
        group = scalar
    if group is not None:
        summary.num_step_lines += 1
        yield from reader.take(group)


def _read_scalar(record: bytes, summary: LogSummary) -> Tracked | None:
    message = next((to_bytes(v) for n, _, v in read_fields(record) if n == _SCALAR), b"")
    name, step, time_ns, value = "", 0, 0, 0.0
    for number, wire_type, content in read_fields(message):
        if number == _KEY and wire_type == BYTES:
            name = to_bytes(content).decode("utf-8", errors="replace")
        elif number == _STEP:
            step = to_int64(content)
        elif number == _TIMESTAMP:
            time_ns = _read_time_ns(to_bytes(content))
        elif number == _VALUE:
            value = _read_number(to_bytes(content))
    if not name or name.startswith(_OF_THE_MACHINE):
        return None
    scalars = read_scalars({name: value}, summary)
    return Tracked(step, scalars, time_ns) if scalars else None


def _read_time_ns(message: bytes) -> int:
    parts = {number: to_int64(value) for number, _, value in read_fields(message)}
    return parts.get(_SECONDS, 0) * 10**9 + parts.get(_NANOS, 0)


def _read_number(message: bytes) -> float:
    """Return a scalar; protobuf leaves 0 out."""
    for number, wire_type, value in read_fields(message):
        if number == _NUMBER and wire_type == FIXED64:
            return _DOUBLE.unpack(to_bytes(value))[0]
    return 0.0
