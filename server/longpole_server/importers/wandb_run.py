"""wandb's offline run files (`run-*.wandb`): of their records those of the history are read."""

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
from longpole_server.importers.record_log import read_records
from longpole_server.importers.tracked import Tracked, TrackedReader
from longpole_server.importers.values import read_scalars

MAGIC = b":W&B"
_MAGIC_NUMBER = 0xBEE1
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
    for record in read_records(stream, summary, (MAGIC, _MAGIC_NUMBER)):
        try:
            tracked = _read_history(record, summary)
        except MalformedError:
            summary.num_unreadable += 1
            continue
        if tracked is not None:
            summary.num_step_lines += 1
            yield from reader.take(tracked)


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
