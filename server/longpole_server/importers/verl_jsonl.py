"""verl's JSONL file: `{"step": 1, "data": {"key": value, ...}}`, one line a logging call."""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

import orjson

from longpole_server.importers.logged import LogLine, LogSummary


def parse_jsonl(lines: Iterable[str], summary: LogSummary) -> Iterator[LogLine]:
    """Yield the steps of a JSONL file; unreadable lines are counted, a torn last one noted.

    Args:
        lines: Physical lines with their newline, if they had one.
        summary: Counts grow as lines are consumed.
    """
    for raw in lines:
        text = raw.strip().lstrip("\ufeff")
        if not text:
            continue
        parsed = parse_line(text)
        if parsed is not None:
            yield parsed
        elif not raw.endswith("\n"):
            summary.torn_last_line = True
        else:
            summary.num_unreadable += 1


def parse_line(text: str) -> LogLine | None:
    """Return the step that a line logs, or None when it is not verl's form."""
    try:
        document: object = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(document, dict):
        return None
    fields = cast(dict[str, Any], document)
    step, data = fields.get("step"), fields.get("data")
    if isinstance(step, bool) or not isinstance(step, int) or step < 0:
        return None
    if not isinstance(data, dict):
        return None
    return LogLine(step, dict(_flatten(cast(Mapping[str, object], data))))


def _flatten(data: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, float]]:
    # NaN and infinity were written as null: not reported. Texts are not scalars.
    for key, value in data.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _flatten(cast(Mapping[str, object], value), f"{name}/")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            number = float(value)
            if math.isfinite(number):
                yield name, number
