"""Puts step lines together again: cut by terminals, by log shippers, glued to progress bars.

Handled: Ray's prefix, ANSI colours, a progress bar before or after the line on one physical
line, `[repeated 7x across cluster]`, rows of a terminal copied as lines, containers' logs that
cut lines at 16 kB (`... stdout P ...`) or wrap them in JSON. People who show a step break the line
before each pair.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from longpole_server.importers.pairs import SEPARATOR, is_pair
from longpole_server.importers.rows import strip_colours

_STEP = re.compile(r"(?<![\w/.-])step:\d+(?= - | ?-? ?$)")
_REPEATED = re.compile(r"\s*\[repeated \d+x across cluster\].*$")
_BAR_BEHIND = re.compile(r"\s*[A-Z][\w ]*:\s*\d+%\|.*$")
_CONTAINER_JSON_END = re.compile(r'(?:\\r)?\\n","(?:stream|time|attrs)":.*$')
# containerd and CRI-O: `2026-11-29T16:42:00.123456789Z stdout P text`, P for a part of a line.
_CONTAINER_PART = re.compile(rb"^\S+ (stdout|stderr) ([PF]) ")
# `(TaskRunner pid=123) `, `(main_task pid=1, ip=10.4.1.33) `, `(raylet) `, a bar, a time.
_NEW_RECORD = re.compile(
    r"^(?:\(.{0,80}?pid=\d|\(raylet|\(autoscaler|Training Progress|\s*\d+%\||\d{4}-\d\d-\d\d )"
)
# A pair on a line of its own, below `step:N`.
_LISTED = re.compile(r"\s*- (?P<pair>\S+)\s*$")
# A row that ends where the next pair goes on, and one that stands for pairs left out.
_GOES_ON = re.compile(r"\s-\s*$")
_LEFT_OUT = re.compile(r"[\s.…]*$")
# The rest of `step:N` when a row ended within it.
_STEP_REST = re.compile(r"^[step:]*\d* - ")
_MAX_REST_CHARS = 20
# No terminal is narrower or wider than this.
_MIN_WIDTH, _MAX_WIDTH = 40, 1000
# What all of verl's trainers print when they load a checkpoint.
_RESUMED = b"etting global step to "
# More than this put together is no step line.
_MAX_CHARS = 8 << 20


@dataclass(frozen=True, slots=True)
class StepText:
    """One step line from `step:` on.

    Attributes:
        ended: A line end followed; without one its last value may be cut short.
        joined: It was put together from several physical lines.
        resumed: The trainer said since the last step line that it goes on from a checkpoint.
    """

    text: str
    ended: bool
    joined: bool
    resumed: bool = False


def join_step_lines(lines: Iterable[bytes]) -> Iterator[StepText]:
    """Yield the step lines among physical lines, put together.

    Args:
        lines: With their ends, if they had one.
    """
    record: _Record | None = None
    before = b""
    resumed = False
    for raw in lines:
        resumed = resumed or _RESUMED in raw
        if record is None or not record.extend(raw):
            started = _start(raw) if b"step:" in raw else None
            if started is None and record is None and raw.find(b" - ", 0, _MAX_REST_CHARS) >= 0:
                started = _start_in_row_before(before, raw)
            if record is not None and (started is not None or raw.strip()):
                yield record.finish()
                record = None
            if started is not None:
                started.resumed, resumed = resumed, False
                record = started
        before = raw
        if record is not None and record.is_complete:
            yield record.finish()
            record = None
    if record is not None:
        # The log ends with a row that fills the terminal: the rest may be missing.
        found = record.finish()
        is_whole = record.is_listed or not found.joined
        yield replace(found, ended=found.ended and is_whole)


class _Record:
    """A step line being put together from one or more physical lines.

    Attributes:
        is_complete: Nothing that follows can belong to it.
        is_listed: Its pairs stand on lines of their own.
        resumed: As of the text.
    """

    resumed = False
    is_listed = False

    def __init__(self, row: str, start: int, raw: bytes) -> None:
        self._rows = [row[start:]]
        self._width = len(row)
        self._num_chars = len(row)
        self._ended = _is_ended(raw)
        part = _CONTAINER_PART.match(raw)
        self._stream = part[1] if part is not None and part[2] == b"P" else None
        is_row = _MIN_WIDTH <= self._width <= _MAX_WIDTH
        self._is_bare = self._width < _MIN_WIDTH and " " not in row[start:].strip()
        self._goes_on = self._stream is None and _GOES_ON.search(row) is not None
        self.is_complete = (
            self._stream is None and not is_row and not self._is_bare and not self._goes_on
        )

    def extend(self, raw: bytes) -> bool:
        """Add a physical line if it is the rest of this one, or lies between its parts."""
        if self._stream is not None:
            return self._extend_part(raw)
        row = strip_row(raw)
        if self._is_bare and self._list(row, raw):
            return True
        # A terminal's rows are of one width.
        is_of_none = self.is_listed or abs(len(row) - self._width) > 1
        if self._goes_on and is_of_none and self._go_on(row, raw):
            return True
        if self.is_listed or self._width < _MIN_WIDTH:
            return False
        # All rows but the last fill the terminal's width, but for a blank that copying drops.
        if not row.strip() or len(row) > self._width + 1 or not self._joins(row):
            return False
        self._add(row, raw)
        self._goes_on = _GOES_ON.search(row) is not None
        self._width = max(self._width, len(row))
        self.is_complete = len(row.rstrip()) < self._width - 1
        return True

    def finish(self) -> StepText:
        """Return the whole line, without what is glued behind it."""
        text = "".join(self._rows)
        if "%|" in text:
            text = _BAR_BEHIND.sub("", text)
        if "[repeated " in text:
            text = _REPEATED.sub("", text)
        ended = self._ended and self._stream is None
        return StepText(text, ended, len(self._rows) > 1, self.resumed)

    def _add(self, text: str, raw: bytes) -> None:
        self._rows.append(text)
        self._num_chars += len(text)
        self._ended = _is_ended(raw)

    def _extend_part(self, raw: bytes) -> bool:
        part = _CONTAINER_PART.match(raw)
        if part is None or self._num_chars > _MAX_CHARS:
            return False
        if part[1] == self._stream:
            self._add(strip_row(raw[part.end() :]), raw)
            if part[2] == b"F":
                self._stream = None
                self.is_complete = True
        return True

    def _list(self, row: str, raw: bytes) -> bool:
        found = _LISTED.match(row)
        if found is None or not is_pair(found["pair"]) or self._num_chars > _MAX_CHARS:
            return False
        self._add(" - " + found["pair"], raw)
        self.is_listed = True
        return True

    def _go_on(self, row: str, raw: bytes) -> bool:
        """Add a row of pairs behind one that ended with what stands between two pairs."""
        if _LEFT_OUT.match(row):
            return self._num_chars < _MAX_CHARS
        pairs = [pair for pair in SEPARATOR.split(row.strip().rstrip(" .…-")) if pair]
        if not pairs or not all(map(is_pair, pairs)) or self._num_chars > _MAX_CHARS:
            return False
        self._goes_on = _GOES_ON.search(row) is not None
        before = "" if self._rows[-1].rstrip().endswith("-") else " - "
        self._add(before + " - ".join(pairs) + " - " * self._goes_on, raw)
        self.is_listed, self.is_complete = True, not self._goes_on
        return True

    def _joins(self, row: str) -> bool:
        """Return whether every pair that this row would complete is one."""
        if _NEW_RECORD.match(row):
            return False
        # A pair may stretch over several rows of a narrow terminal.
        last = "".join(self._rows[-4:]).rpartition(" - ")[2]
        # `training/global_step:7` may be broken before `step`: then no value has begun.
        if ":" in last and _STEP.search(row):
            return False
        *pairs, rest = SEPARATOR.split(last + row)
        if pairs:
            return all(is_pair(pair) for pair in pairs)
        # Within one pair. Of one that is whole already more digits may follow, in the last row of
        # several; behind a single row they are another line.
        whole = rest.strip().removesuffix(" -")
        if is_pair(last):
            return len(self._rows) > 1 and is_pair(whole)
        return " " not in whole


def strip_row(raw: bytes) -> str:
    """Return a physical line without terminal control sequences and line end."""
    return strip_colours(raw.decode("utf-8", errors="replace").rstrip("\r\n"))


def _is_ended(raw: bytes) -> bool:
    return raw.endswith((b"\n", b"\r"))


def _start(raw: bytes) -> _Record | None:
    """Return the step line that begins in a physical line, None when none does."""
    row = strip_row(raw)
    if row.startswith('{"log":'):
        row = _CONTAINER_JSON_END.sub("", row)
    found = _STEP.search(row)
    return _Record(row, found.start(), raw) if found is not None else None


def _start_in_row_before(before: bytes, raw: bytes) -> _Record | None:
    """Return the step line of which a terminal's row ended within `step:N`."""
    rest = strip_row(raw)
    if not _STEP_REST.match(rest):
        return None
    first = strip_row(before)
    found = _STEP.search(first + rest)
    if found is None or not max(_MIN_WIDTH, len(rest)) <= len(first) <= _MAX_WIDTH:
        return None
    record = _Record(first, found.start(), before)
    return record if found.start() < len(first) and record.extend(raw) else None
