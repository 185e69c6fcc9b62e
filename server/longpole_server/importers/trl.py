"""TRL's console: dictionaries of texts, one a logging call, without a step.

The step is read off the progress bar where the log holds one, else records are counted. Versions
before `step_time` say no seconds: there those of the bar's clock stand for them. ms-swift prints
step and clock in the dictionary.
"""

import re
from collections.abc import Iterable, Iterator

from longpole_server.importers.dict_console import Head, Printed, read_printed
from longpole_server.importers.elapsed import ElapsedClock
from longpole_server.importers.logged import MAX_STEP, LogLine, LogSummary
from longpole_server.importers.prime_rl import read_clock
from longpole_server.importers.rows import PREFIX, strip_colours

NEEDLES = (b"'reward", b"'step_time'", b"'completions/")
_HEAD = re.compile(r"^\s*\{(?=['\"][\w/]+['\"]: )")
_KEYS = re.compile(r"'(?:reward|rewards/[^']*|step_time|completions/mean_length)': ")
# The bar of transformers has no description before it.
_BAR = re.compile(
    PREFIX.encode()
    + rb"(?:\([^()]{0,160}?pid=\d+[^()]{0,80}\) ?)?"
    + rb"\s*\d+%\|[^|]*\|\s*(\d{1,10})/(\d{1,10}) \[(?:(\d{1,4}):)?(\d\d):(\d\d)<"
)
_SWIFT_STEP = re.compile(rb"'global_step/max_steps': '(\d{1,10})/\d{1,10}'")
_SWIFT_CLOCK = re.compile(rb"'elapsed_time': '([^']{1,40})'")
_STEP_SECONDS = "step_time"
_BAR_MOVED = "bar"


def parse_trl(lines: Iterable[bytes], summary: LogSummary) -> Iterator[LogLine]:
    """Yield the records of a console log as steps.

    Args:
        lines: Physical lines with their end, if they had one.
        summary: Counts grow as lines are consumed.
    """
    bar = _BarWatch()
    numbers = _Numbers(bar, summary)
    for printed in read_printed(
        bar.watch(lines), find_head, summary, NEEDLES, text_numbers=True, beside=numbers.look
    ):
        if printed.kind == _BAR_MOVED:
            yield from numbers.close()
        elif any(name in printed.scalars for name in ("reward", _STEP_SECONDS)):
            yield from numbers.take(printed)
    yield from numbers.finish()


class _Numbers:
    """Gives records their steps.

    A log holds the bar of a step before its record. What was copied from a terminal holds it after
    the record: one that no new bar precedes waits for the next. Where records were buffered several
    of them stand behind the bars of all their steps: these are shared out evenly. Once one of
    several steps stood alone behind its bars, the next at the same distance does not wait.
    """

    def __init__(self, bar: "_BarWatch", summary: LogSummary) -> None:
        self._bar = bar
        self._summary = summary
        self._number = 0
        self._waiting: Printed | None = None
        self._buffered: list[Printed] = []
        # The step of the bar before them, and the seconds of one of their steps.
        self._behind = 0
        self._behind_s: float | None = None
        # Steps between two records, where one was seen alone.
        self._stride: int | None = None

    def look(self, raw: bytes) -> Iterator[Printed]:
        """Yield a mark when the bar has moved on from the records that stand behind it."""
        if self._buffered and b"%|" in raw and self._bar.step != self._behind:
            yield Printed(_BAR_MOVED, None, {}, "", None, torn=False)

    def close(self) -> Iterator[LogLine]:
        """Yield the records that stood behind one bar."""
        records, self._buffered = self._buffered, []
        if not records:
            return
        began = self._number or self._bar.first or 0
        stride = max(1, (self._behind - began) // len(records))
        self._stride = stride if len(records) == 1 else None
        if stride * len(records) != self._behind - began and len(records) > 1:
            self._summary.steps_are_counted = True
        for index, record in enumerate(records, start=1 - len(records)):
            number = self._behind + index * stride
            if number > self._number:
                self._number = min(number, MAX_STEP)
                yield self._make_line(record, self._behind_s)
            else:
                yield self._make(record)

    def take(self, record: Printed) -> Iterator[LogLine]:
        if self._buffered and self._bar.step == self._behind:
            self._buffered.append(record)
            return
        yield from self.close()
        had_bars = self._bar.step is not None
        began = self._number == 0 and self._waiting is None
        yield from self._give_waiting()
        if self._bar.step is not None and self._bar.step > self._number + 1 and self._may_be_many():
            self._buffered, self._behind = [record], self._bar.step
            self._behind_s = self._bar.read_step_s()
        elif self._has_new_bar():
            yield self._make(record)
        elif began or had_bars:
            self._waiting = record
        else:
            yield self._make(record)

    def finish(self) -> Iterator[LogLine]:
        """Yield what is left when the log ends."""
        yield from self.close()
        yield from self._give_waiting()

    def _give_waiting(self) -> Iterator[LogLine]:
        """Yield the record that waits, with the bar that was seen since or counted."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            yield self._make(waiting)

    def _may_be_many(self) -> bool:
        """Tell whether more records than this one may stand behind the bar."""
        return not self._bar.is_said and self._bar.step != self._number + (self._stride or 0)

    def _has_new_bar(self) -> bool:
        return self._bar.step is not None and self._bar.step > self._number

    def _make(self, record: Printed) -> LogLine:
        step_s = None
        if self._bar.step is not None and self._has_new_bar():
            self._number = min(self._bar.step, MAX_STEP)
            step_s = self._bar.read_step_s()
        else:
            self._number += 1
            self._summary.steps_are_counted = True
        return self._make_line(record, step_s)

    def _make_line(self, record: Printed, step_s: float | None) -> LogLine:
        scalars = record.scalars
        if step_s is not None and _STEP_SECONDS not in scalars:
            scalars = {**scalars, _STEP_SECONDS: step_s}
            _remark_clock(self._summary)
        self._summary.num_step_lines += 1
        return LogLine(self._number, scalars, torn=record.torn)


def _remark_clock(summary: LogSummary) -> None:
    summary.remark(
        "step.clock",
        "info",
        "The log says no seconds of a step: its clock of the whole training stands for them, in "
        "whole seconds.",
    )


def find_head(row: str) -> Head | None:
    """Return where a record begins in a row."""
    found = _HEAD.match(row)
    if found is None or _KEYS.search(row) is None:
        return None
    return Head("record", None, found.end() - 1)


def _uncolour(raw: bytes) -> bytes:
    return strip_colours(raw.decode("utf-8", errors="replace")).encode()


class _BarWatch:
    """Reads step and clock off the training's progress bar while lines pass by.

    Attributes:
        first: The first step that was seen.
        is_said: The step is that of the record, which says it itself.
    """

    def __init__(self) -> None:
        self.step: int | None = None
        self.first: int | None = None
        self.is_said = False
        self._total = 0
        self._elapsed_s: float | None = None
        self._clock = ElapsedClock()

    def watch(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        for raw in lines:
            if b"%|" in raw and (bar := _BAR.match(raw) or _BAR.match(_uncolour(raw))):
                step, total, hours, minutes, seconds = (int(part or 0) for part in bar.groups())
                # An evaluation has a bar of its own, with fewer steps.
                if total >= self._total:
                    self._total = total
                    self._note(step, 3600.0 * hours + 60.0 * minutes + seconds)
                    self.is_said = False
            if b"'global_step/max_steps'" in raw and (found := _SWIFT_STEP.search(raw)):
                clock = _SWIFT_CLOCK.search(raw)
                self._note(int(found[1]), read_clock(clock[1].decode()) if clock else None)
                self.is_said = True
            yield raw

    def read_step_s(self) -> float | None:
        """Return the seconds of the step that was just logged."""
        if self.step is None or self._elapsed_s is None:
            return None
        return self._clock.read_step_s(self.step, self._elapsed_s)

    def _note(self, step: int, elapsed_s: float | None) -> None:
        self.step, self._elapsed_s = step, elapsed_s
        if self.first is None:
            self.first = step
        if elapsed_s is not None and step <= 1:
            # A training that goes on from a checkpoint begins with a later one.
            self._clock.begin(0, 0.0)
        elif elapsed_s is not None:
            self._clock.begin(step, elapsed_s)
