"""verl's console lines: `step:N - key:value - key:value ...`."""

import math
import re
import sys
from collections.abc import Iterable, Iterator, Sequence

from longpole_server.importers.logged import (
    MAX_STEP,
    WHOLE_STEP,
    LogLine,
    LogSummary,
    has_step_total,
)
from longpole_server.importers.pairs import SEPARATOR, is_pair, parse_pair
from longpole_server.importers.rows import clean_row
from longpole_server.importers.unwrapping import StepText, join_step_lines

_MAX_STEP_DIGITS = 10
# Keys with which step lines ended so far: one a trainer, a few for asynchronous ones.
_MAX_LAST_KEYS = 64
_TIMERS = ("timing/", "timing_s/")
_STEP_NUMBERS = ("step", "training/global_step")
# Behind a number the first of all is a whole value: the last line of a page need not end.
_EXCERPT = re.compile(rb"(?<![\w/])timing_s/step: ?(?:np\.float64\()?[\d.]")
_PAIRS = re.compile(r"\s+-\s+|^\s*-\s+|\s+-(?=[A-Za-z_])")


def parse_console(lines: Iterable[bytes], summary: LogSummary) -> Iterator[LogLine]:
    """Yield the step lines of a console log; `summary` learns of a torn last line.

    Args:
        lines: Physical lines with their end, if they had one.
        summary: Counts grow as lines are consumed.
    """
    last_keys: set[str] = set()
    resumed = False
    for found in join_step_lines(lines):
        resumed = resumed or found.resumed
        head, *segments = _split(found)
        digits = head.removeprefix("step:").rstrip(" -")
        if len(digits) > _MAX_STEP_DIGITS or (step := int(digits)) > MAX_STEP:
            continue
        # Without a line end the last value may be cut short, and still look like a number.
        kept = segments if found.ended else segments[:-1]
        scalars = _read_pairs(kept, summary)
        torn = not found.ended and not _is_whole(segments, scalars, last_keys)
        if not found.ended:
            summary.torn_last_line = True
            if segments:
                summary.torn_step, summary.torn_step_is_judged = step, not torn
        # verl groups all its names; what has none is another program's `step:`.
        if not any("/" in key for key in scalars):
            continue
        summary.num_step_lines += 1
        if has_step_total(scalars) and len(last_keys) < _MAX_LAST_KEYS:
            last_keys.add(_key_of(segments))
        yield LogLine(step, scalars, torn=torn, resumed=resumed)
        resumed = False


def _split(found: StepText) -> list[str]:
    return SEPARATOR.split(found.text) if found.joined else found.text.split(" - ")


def _key_of(segments: Sequence[str]) -> str:
    return segments[-1].rpartition(":")[0] if segments else ""


def _is_whole(segments: Sequence[str], scalars: dict[str, float], last_keys: set[str]) -> bool:
    """Return whether a line without end lacks nothing but its last value.

    It ends with the key with which earlier lines ended. Of a first line the step's seconds must
    be there: verl writes them after those of the stages.
    """
    last_key = _key_of(segments)
    if last_key.startswith(_TIMERS):
        return False
    if last_keys:
        return last_key in last_keys and has_step_total(scalars)
    return any(key in scalars for key in WHOLE_STEP)


def _read_pairs(segments: Iterable[str], summary: LogSummary) -> dict[str, float]:
    """Return the numbers. Values that are none (lists, texts) are no scalars and no error."""
    scalars: dict[str, float] = {}
    for segment in segments:
        key, _, text = segment.rpartition(":")
        try:
            value = float(text)
        except ValueError:
            pair = parse_pair(segment)
            if pair is None:
                continue
            key, value = pair
        if not key:
            continue
        if math.isfinite(value):
            # The same few names come in every step.
            scalars[sys.intern(key.strip())] = value
        else:
            summary.count_not_finite(key)
    return scalars


def parse_excerpt(lines: Iterable[bytes], summary: LogSummary) -> Iterator[LogLine]:
    """Yield the steps of pairs that stand there without `step:N` before them, as people show them.

    Pairs of one line or of several lines are one step until a name comes again. Steps are counted
    where no pair says which one it is.

    Args:
        lines: Physical lines.
        summary: Counts grow as lines are consumed.
    """
    number = 0
    for segments in _group_pairs(lines):
        scalars = _read_pairs(segments, summary)
        if not has_step_total(scalars):
            continue
        told = next((scalars[key] for key in _STEP_NUMBERS if key in scalars), None)
        if told is not None and told.is_integer() and number < told <= MAX_STEP:
            number = int(told)
        else:
            number += 1
            summary.steps_are_counted = True
        summary.num_step_lines += 1
        yield LogLine(number, scalars)
    summary.torn_last_line = False


def is_excerpt(lines: Iterable[bytes]) -> bool:
    """Tell whether lines hold pairs of verl's with the seconds of a step among them."""
    return any(_EXCERPT.search(raw) is not None for raw in lines)


def _group_pairs(lines: Iterable[bytes]) -> Iterator[list[str]]:
    found: list[str] = []
    names: set[str] = set()
    for raw in lines:
        # Dots behind a value may stand for digits of it: such a one is left out.
        segments = [
            each.lstrip(" -.…'\"").rstrip(" ,'\"") for each in _PAIRS.split(clean_row(raw).text)
        ]
        # `step: 7` is the number, in one spelling of it or the other.
        pairs = [each.replace(": ", ":") for each in segments if is_pair(each)]
        keys = [each.rpartition(":")[0].strip() for each in pairs]
        if not any("/" in key or key == "step" for key in keys):
            continue
        if not names.isdisjoint(keys):
            yield found
            found, names = [], set()
        found += pairs
        names.update(keys)
    if found:
        yield found
