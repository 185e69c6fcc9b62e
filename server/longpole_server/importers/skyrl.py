"""SkyRL's console: `... - Step 1:` and, from the next line on, a pretty-printed dictionary.

Its floats are printed as texts. The asynchronous trainer prints a step in two calls: metrics, then
times. With another tracker than the console only the lines of its timers are there: they are read
as steps, and counted.
"""

import re
from collections.abc import Iterable, Iterator

from longpole_server.importers.dict_console import Head, Printed, read_printed
from longpole_server.importers.logged import MAX_STEP, LogLine, LogSummary
from longpole_server.importers.rows import clean_row, read_time_ns

NEEDLE = b"Step "
TIMER_NEEDLE = b", time cost: "
# No other framework prints times as texts.
DICTIONARY_NEEDLE = b"'timing/step': '"
_HEAD = re.compile(r"(?:^| - )Step (\d{1,10}):\s*(?=\{|$)")
_FINISHED = re.compile(r" - Finished: '([\w/ .-]{1,80})', time cost: (\d+(?:\.\d+)?)s\s*$")
_STARTED_STEP = b"Started: 'step'"
_STEP, _PREFIX, _TIMERS = "step", "timing/", "timers"


def parse_skyrl(lines: Iterable[bytes], summary: LogSummary) -> Iterator[LogLine]:
    """Yield the steps of a console log.

    Args:
        lines: Physical lines with their end, if they had one.
        summary: Counts grow as lines are consumed.
    """
    timers = _TimerWatch(summary.year)
    for printed in read_printed(
        lines, find_head, summary, (NEEDLE,), text_numbers=True, beside=timers.look
    ):
        if printed.kind == _TIMERS:
            yield _count(printed, summary)
            continue
        timers.is_on = False
        if printed.number is None or printed.number > MAX_STEP:
            continue
        summary.num_step_lines += 1
        yield LogLine(printed.number, printed.scalars, torn=printed.torn, time_ns=printed.time_ns)
    for printed in timers.take():
        yield _count(printed, summary)


def _count(printed: Printed, summary: LogSummary) -> LogLine:
    summary.steps_are_counted = True
    summary.num_step_lines += 1
    return LogLine(printed.number or 0, printed.scalars, time_ns=printed.time_ns)


def find_head(row: str) -> Head | None:
    """Return where the metrics of a step begin: in this row or in the next."""
    found = _HEAD.search(row)
    return None if found is None else Head("step", int(found[1]), found.end())


def is_timer(row: str) -> bool:
    """Tell whether a timer says in a row what it took."""
    return _FINISHED.search(row) is not None


def is_dictionary(row: str) -> bool:
    """Tell whether a row is of a dictionary with the times of a step."""
    return row.lstrip().startswith(("{'", "'")) and DICTIONARY_NEEDLE.decode() in row


class _TimerWatch:
    """Collects what the timers of a step took, from its start to the start of the next one.

    Args:
        year: Of the log.

    Attributes:
        is_on: No step was printed with its metrics: these hold the times too.
    """

    def __init__(self, year: int) -> None:
        self.is_on = True
        self._year = year
        self._number = 0
        self._seconds: dict[str, float] = {}
        self._time_ns: int | None = None

    def look(self, raw: bytes) -> Iterator[Printed]:
        """Yield the step that a line ends: with the start of the next one."""
        if not self.is_on:
            return
        if _STARTED_STEP in raw:
            yield from self.take()
        elif TIMER_NEEDLE in raw and (found := _FINISHED.search(text := clean_row(raw).text)):
            name = _PREFIX + found[1]
            self._seconds[name] = self._seconds.get(name, 0.0) + float(found[2])
            if found[1] == _STEP:
                self._time_ns = read_time_ns(text, self._year)

    def take(self) -> Iterator[Printed]:
        """Yield the step that was collected, if it is one and nothing else tells of it."""
        seconds, self._seconds = self._seconds, {}
        if self.is_on and _PREFIX + _STEP in seconds:
            self._number += 1
            yield Printed(_TIMERS, self._number, seconds, "", self._time_ns, torn=False)
