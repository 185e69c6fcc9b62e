"""JSONL whose lines hold a step and flat names: prime-rl's file monitor and others' files.

ms-swift's `logging.jsonl` names a step as `"global_step/max_steps": "3/100"`, and says how long the
training has taken so far (`"elapsed_time": "2m 3s"`): the step took what that grew by.
"""

import json
import sys
from collections.abc import Iterable, Iterator
from typing import Any, cast

import orjson

from longpole_server.importers.elapsed import ElapsedClock
from longpole_server.importers.logged import MAX_STEP, LogLine, LogSummary
from longpole_server.importers.prime_rl import name_orchestrator, read_clock
from longpole_server.importers.values import read_scalars

_STEP_KEYS = (
    "training_step",
    "step",
    "_step",
    "global_step",
    "train/global_step",
    "trainer/global_step",
)
_FRACTION, _ELAPSED, _STEP_SECONDS = "global_step/max_steps", "elapsed_time", "step_time"
# Seconds since 1970, as Python's `time.time` and wandb give them.
_TIME_KEYS = ("time", "_timestamp", "timestamp")
# Times outside of 2001 to 2100 are no such seconds.
_FIRST_TIME_S, _LAST_TIME_S = 1e9, 4.1e9


def parse_flat_jsonl(lines: Iterable[bytes], summary: LogSummary) -> Iterator[LogLine]:
    """Yield the records of a JSONL file; unreadable lines are counted, a torn last one noted.

    Args:
        lines: Physical lines with their end, if they had one.
        summary: Counts grow as lines are consumed.
    """
    clock = ElapsedClock()
    for raw in lines:
        # A list may have an object on each line.
        text = raw.strip().lstrip(b"[").rstrip(b",]").strip()
        if not text:
            continue
        parsed = _parse_line(text, summary, clock)
        if parsed is not None:
            # A whole object needs no line end.
            summary.torn_last_line = False
            summary.num_step_lines += 1
            yield parsed
        elif raw.endswith((b"\n", b"\r")):
            summary.num_unreadable += 1


def read_step(fields: dict[str, Any]) -> int | None:
    """Return the step that a record names, None when it names none."""
    for key in _STEP_KEYS:
        step = fields.get(key)
        if isinstance(step, float) and step.is_integer():
            step = int(step)
        if isinstance(step, int) and not isinstance(step, bool) and 0 <= step <= MAX_STEP:
            return step
    return read_fraction(fields)


def read_fraction(fields: dict[str, Any]) -> int | None:
    """Return the step of `3/100`, as ms-swift writes it, None without one."""
    step, slash, total = str(fields.get(_FRACTION, "")).partition("/")
    if not slash or not step.isdecimal() or not total.isdecimal() or len(step) > 10:
        return None
    return int(step) if int(step) <= min(int(total), MAX_STEP) else None


def _parse_line(text: bytes, summary: LogSummary, clock: ElapsedClock) -> LogLine | None:
    document = _load(text)
    if not isinstance(document, dict):
        return None
    fields = cast("dict[str, Any]", document)
    step = read_step(fields)
    if step is None:
        return None
    time_ns = _take_time_ns(fields)
    for key in _STEP_KEYS:
        fields.pop(key, None)
    scalars = {sys.intern(name): value for name, value in read_scalars(fields, summary).items()}
    elapsed_s = read_clock(str(fields.get(_ELAPSED, "")))
    step_s = None if elapsed_s is None else clock.read_step_s(step, elapsed_s)
    if step_s is not None:
        scalars.setdefault(_STEP_SECONDS, step_s)
    return LogLine(step, name_orchestrator(scalars), time_ns=time_ns)


def _take_time_ns(fields: dict[str, Any]) -> int | None:
    for key in _TIME_KEYS:
        seconds = fields.get(key)
        if isinstance(seconds, int | float) and _FIRST_TIME_S < seconds < _LAST_TIME_S:
            del fields[key]
            return round(seconds * 1e9)
    return None


def _load(text: bytes) -> object:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        pass
    if b"NaN" not in text and b"Infinity" not in text:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
