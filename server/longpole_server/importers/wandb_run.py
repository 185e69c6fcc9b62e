"""wandb's offline run files (`run-*.wandb`): records of protobuf in LevelDB's log format.

A file is a header of 7 bytes and blocks of 32 KiB; a record lies in one piece or in several, each
with a checksum, its length and its place. Of the records only those of the history are read.
"""

import struct
import zlib
from collections.abc import Iterator
from typing import BinaryIO

import orjson

from longpole_server.importers.logged import LogLine, LogSummary
from longpole_server.importers.protobuf_wire import (
    MalformedError,
    read_fields,
    to_bytes,
    to_int64,
)
from longpole_server.importers.tracked import Tracked, TrackedReader
from longpole_server.importers.values import read_scalars

MAGIC = b":W&B"
_HEADER = struct.Struct("<4sHB")
_MAGIC_NUMBER = 0xBEE1
_BLOCK_BYTES = 32 << 10
_PIECE = struct.Struct("<IHB")
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
# A record larger than this holds no history.
_MAX_RECORD_BYTES = 64 << 20
# Numbers of wandb's protocol: Record.history, HistoryRecord.item and .step, HistoryStep.num,
# HistoryItem.key, .nested_key and .value_json.
_HISTORY = 2
_ITEM, _STEP = 1, 2
_STEP_NUMBER = 1
_KEY, _NESTED_KEY, _VALUE = 1, 2, 16


def read_wandb_run(stream: BinaryIO, summary: LogSummary) -> Iterator[LogLine]:
    """Yield the history of a run file; damaged pieces are counted and skipped.

    Args:
        stream: The file from its start.
        summary: Counts grow as records are read.
    """
    reader = TrackedReader()
    for record in _read_records(stream, summary):
        try:
            tracked = _read_history(record, summary)
        except MalformedError:
            summary.num_unreadable += 1
            continue
        if tracked is not None:
            summary.num_step_lines += 1
            yield from reader.take(tracked)


def _read_records(stream: BinaryIO, summary: LogSummary) -> Iterator[bytes]:
    header = stream.read(_HEADER.size)
    if len(header) < _HEADER.size or _HEADER.unpack(header)[:2] != (MAGIC, _MAGIC_NUMBER):
        summary.num_unreadable += 1
        return
    summary.num_lines += 1
    parts: list[bytes] = []
    block = stream.read(_BLOCK_BYTES - _HEADER.size)
    while block:
        for kind, piece in _read_pieces(block, summary):
            if kind in (_FULL, _FIRST):
                parts = [piece]
            elif parts:
                parts.append(piece)
            if kind in (_FULL, _LAST) and parts:
                summary.num_lines += 1
                yield b"".join(parts)
                parts = []
            if sum(map(len, parts)) > _MAX_RECORD_BYTES:
                summary.num_overlong += 1
                parts = []
        block = stream.read(_BLOCK_BYTES)


def _read_pieces(block: bytes, summary: LogSummary) -> Iterator[tuple[int, bytes]]:
    """Yield (place, bytes) of the sound pieces of a block; it may end in the middle of one."""
    at = 0
    while at + _PIECE.size <= len(block):
        checksum, size, kind = _PIECE.unpack_from(block, at)
        if kind == 0 and size == 0:
            # Zeros: the rest of a block, or what was allocated and never written.
            return
        end = at + _PIECE.size + size
        if end > len(block):
            summary.torn_last_line = True
            return
        piece = block[at + _PIECE.size : end]
        if kind in (_FULL, _FIRST, _MIDDLE, _LAST) and _checksum(kind, piece) == checksum:
            yield kind, piece
        else:
            summary.num_unreadable += 1
        at = end


def _checksum(kind: int, piece: bytes) -> int:
    return zlib.crc32(piece, zlib.crc32(bytes((kind,)))) & 0xFFFFFFFF


def _read_history(record: bytes, summary: LogSummary) -> Tracked | None:
    for number, _, value in read_fields(record):
        if number == _HISTORY:
            return _read_row(to_bytes(value), summary)
    return None


def _read_row(message: bytes, summary: LogSummary) -> Tracked:
    step: int | None = None
    values: dict[str, object] = {}
    for number, _, value in read_fields(message):
        if number == _STEP:
            step = next(
                (to_int64(v) for n, _, v in read_fields(to_bytes(value)) if n == _STEP_NUMBER), 0
            )
        elif number == _ITEM:
            name, content = _read_item(to_bytes(value))
            if name:
                values[name] = content
    scalars = read_scalars(values, summary)
    if step is None and "_step" in scalars:
        step = round(scalars["_step"])
    seconds = scalars.pop("_timestamp", None)
    return Tracked(step, scalars, None if seconds is None else round(seconds * 1e9))


def _read_item(message: bytes) -> tuple[str, object]:
    key, nested, text = "", list[str](), b""
    for number, _, value in read_fields(message):
        if number == _KEY:
            key = to_bytes(value).decode("utf-8", errors="replace")
        elif number == _NESTED_KEY:
            nested.append(to_bytes(value).decode("utf-8", errors="replace"))
        elif number == _VALUE:
            text = to_bytes(value)
    return key or "/".join(nested), _load(text)


def _load(text: bytes) -> object:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        # Python's JSON writes these.
        names = {b"NaN": "nan", b"Infinity": "inf", b"-Infinity": "-inf"}
        return float(names[text]) if text in names else None
