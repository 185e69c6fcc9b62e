"""verl's JSONL file: `{"step": 1, "data": {"key": value, ...}}`, one line a logging call."""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

import orjson

from longpole_server.importers.logged import MAX_STEP, LogLine, LogSummary
from longpole_server.importers.values import read_scalars


def parse_jsonl(lines: Iterable[bytes], summary: LogSummary) -> Iterator[LogLine]:
    """Yield the steps of a JSONL file; unreadable lines are counted, a torn last one noted.

    Args:
        lines: Physical lines with their end, if they had one.
        summary: Counts grow as lines are consumed.
    """
    for raw in lines:
        text = raw.strip()
        if not text:
            continue
        parsed = parse_line(text, summary)
        if parsed is not None:
            # A whole object needs no line end.
            summary.torn_last_line = False
            summary.num_step_lines += 1
            yield parsed
        elif raw.endswith((b"\n", b"\r")):
            summary.num_unreadable += 1


def parse_line(text: bytes, summary: LogSummary) -> LogLine | None:
    """Return the step that a line logs, or None when it is not verl's form."""
    document = _load(text)
    if not isinstance(document, dict):
        return None
    fields = cast(dict[str, Any], document)
    step, data = fields.get("step"), fields.get("data")
    if isinstance(step, bool) or not isinstance(step, int) or not 0 <= step <= MAX_STEP:
        return None
    if not isinstance(data, dict):
        return None
    numbers = read_scalars(cast(Mapping[str, object], data), summary)
    return LogLine(step, {sys.intern(name): value for name, value in numbers.items()})


def _load(text: bytes) -> object:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        pass
    # verl writes null for NaN; loggers of one's own often write Python's NaN.
    if b"NaN" not in text and b"Infinity" not in text:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
