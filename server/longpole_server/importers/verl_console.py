"""verl's console lines: `step:N - key:value - key:value ...`, with all the noise around them.

Handled: Ray's prefix, ANSI colours, progress bars glued before the line, `np.float64(...)`,
`[repeated 7x across cluster]`, lines a terminal has wrapped, a line torn at the end of the file.
"""

import re
from collections.abc import Iterable, Iterator

from longpole_server.importers.logged import LogLine, LogSummary

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
# `(TaskRunner pid=123) `, `(main_task pid=1, ip=10.4.1.33) `; Ray also prints `(raylet) `.
_RAY_PREFIX = re.compile(
    r"^\((?:[\w.:\-]+(?: pid=\d+)(?:, ip=[\w.:]+)?|raylet|autoscaler[^)]*)\)\s?"
)
_REPEATED = re.compile(r"\s*\[repeated \d+x across cluster\].*$")
_STEP = re.compile(r"(?<![\w/.-])step:(\d+)(?= - |$| -$)")
# Also without a space on one side: a terminal may have broken the line there.
_SEPARATOR = re.compile(r"\s+-\s+|\s+-(?=[A-Za-z_])|-\s+(?=[A-Za-z_])")
_NUMBER = r"[+-]?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|inf|nan)"
_VALUE = re.compile(rf"^(?:np\.\w+\(({_NUMBER})\)|tensor\(({_NUMBER})[^)]*\)|({_NUMBER}))$", re.I)
# The end of a physical line: part of a pair, or a separator broken in two.
_FRAGMENT = re.compile(r"^[\w/@().:+\-]*(?:\s+-)?$")
_NEW_RECORD = re.compile(r"^(?:step:\d+(?: |$)|Training Progress|\s*\d+%\||\d{4}-\d\d-\d\d )")
# No terminal is narrower or wider than this.
_MIN_WIDTH, _MAX_WIDTH = 40, 1000


def parse_value(text: str) -> float | None:
    """Return the number that a value prints as, or None when it is no number."""
    match = _VALUE.match(text.strip())
    if match is None:
        return None
    return float(next(group for group in match.groups() if group is not None))


def parse_pair(segment: str) -> tuple[str, float] | None:
    """Split `key:value` at its last colon; None when it is not one."""
    key, colon, text = segment.strip().rpartition(":")
    value = parse_value(text) if colon and key else None
    return None if value is None else (key, value)


def clean_line(line: str) -> str:
    """Return a physical line without colours, Ray prefix and Ray's repetition mark."""
    return _REPEATED.sub("", _RAY_PREFIX.sub("", strip_colours(line), count=1))


def strip_colours(line: str) -> str:
    """Return a physical line without terminal control sequences and newline."""
    return _ANSI.sub("", line).rstrip("\n")


def parse_console(lines: Iterable[str], summary: LogSummary) -> Iterator[LogLine]:
    """Yield the step lines of a console log, unwrapped; `summary` learns of torn lines.

    Args:
        lines: Physical lines with their newline, if they had one.
        summary: Counts grow as lines are consumed.
    """
    record = _Record()
    ended_with_newline = True
    for raw in lines:
        ended_with_newline = raw.endswith("\n")
        # A progress bar rewrites its line: what follows the last carriage return is the line.
        for part in raw.rstrip("\r\n").split("\r"):
            text = clean_line(part)
            found = _STEP.search(text)
            if found is not None:
                yield from record.take(summary)
                record = _Record(text[found.start() :], width=len(text))
            elif text == strip_colours(part) and record.accepts(text):
                record.extend(text)
            elif text.strip():
                yield from record.take(summary)
                record = _Record()
    yield from record.take(summary, torn_possible=not ended_with_newline)


class _Record:
    """A step line being put together from one or more physical lines."""

    def __init__(self, text: str = "", width: int = 0) -> None:
        self._text = text
        self._width = width
        self._last_length = width

    def accepts(self, text: str) -> bool:
        """Whether `text` is the rest of this line, wrapped by a terminal."""
        if not self._text or not text.strip() or _NEW_RECORD.match(text):
            return False
        # All lines but the last fill the terminal's width.
        if not _MIN_WIDTH <= self._width <= _MAX_WIDTH or self._last_length < self._width - 1:
            return False
        return len(text) <= self._width and self._joins(text)

    def _joins(self, text: str) -> bool:
        last = _SEPARATOR.split(self._text)[-1]
        segments = _SEPARATOR.split(last + text)
        if any(parse_pair(segment) is None for segment in segments[:-1]):
            return False
        return _FRAGMENT.match(segments[-1].strip()) is not None

    def extend(self, text: str) -> None:
        self._text += text
        self._last_length = len(text)

    def take(self, summary: LogSummary, torn_possible: bool = False) -> Iterator[LogLine]:
        """Yield the parsed line, if there is one."""
        if not self._text:
            return
        head, *segments = _SEPARATOR.split(self._text)
        step = int(head.partition(":")[2])
        pairs = [parse_pair(segment) for segment in segments]
        scalars = dict(pair for pair in pairs if pair is not None)
        # Values that are no numbers (lists, texts) are not scalars and not an error.
        torn = torn_possible and bool(pairs) and pairs[-1] is None
        if torn:
            summary.torn_last_line = True
            summary.torn_step = step
        if scalars:
            yield LogLine(step, scalars, torn=torn)
