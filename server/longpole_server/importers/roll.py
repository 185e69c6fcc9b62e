"""ROLL's console: `metrics_tag: {"step": 3, "metrics": {...}}`, JSON of its stdout tracker.

Without that tracker the pipelines print the metrics alone, and `pipeline step 3 finished` after.
"""

import re
from collections.abc import Iterable, Iterator

from longpole_server.importers.dict_console import Head, Printed, read_printed
from longpole_server.importers.logged import MAX_STEP, LogLine, LogSummary

NEEDLES = (b"metrics_tag: {", b'"time/')
_TAGGED = re.compile(r"metrics_tag: (?=\{)")
_BARE = re.compile(r"\[PID \d+\] (?=\{\")")
_FINISHED = re.compile(rb"pipeline step (\d{1,10}) finished")
_PREFIX = "metrics/"


def parse_roll(lines: Iterable[bytes], summary: LogSummary) -> Iterator[LogLine]:
    """Yield the steps of a console log.

    Args:
        lines: Physical lines with their end, if they had one.
        summary: Counts grow as lines are consumed.
    """
    ends = _EndWatch()
    bare: Printed | None = None
    for printed in read_printed(ends.watch(lines), find_head, summary, NEEDLES):
        if bare is not None:
            yield from _finish_bare(bare, ends, summary)
            bare = None
        if printed.kind == "bare":
            bare, ends.step = printed, None
            continue
        number = printed.scalars.get("step")
        if number is None or not number.is_integer() or not 0 <= number <= MAX_STEP:
            continue
        scalars = {
            name.removeprefix(_PREFIX): value
            for name, value in printed.scalars.items()
            if name.startswith(_PREFIX)
        }
        summary.num_step_lines += 1
        yield LogLine(int(number), scalars, torn=printed.torn, time_ns=printed.time_ns)
    if bare is not None:
        yield from _finish_bare(bare, ends, summary)


def find_head(row: str) -> Head | None:
    """Return where a dictionary of metrics begins in a row."""
    if tagged := _TAGGED.search(row):
        return Head("tagged", None, tagged.end())
    if '"time/step_' in row and (bare := _BARE.search(row)):
        return Head("bare", None, bare.end())
    return None


def _finish_bare(bare: Printed, ends: "_EndWatch", summary: LogSummary) -> Iterator[LogLine]:
    if ends.step is not None and ends.step <= MAX_STEP:
        summary.num_step_lines += 1
        scalars = {name.rpartition("@")[0] or name: v for name, v in bare.scalars.items()}
        yield LogLine(ends.step, scalars, torn=bare.torn, time_ns=bare.time_ns)


class _EndWatch:
    """Notes which step a pipeline said that it finished while lines pass by."""

    def __init__(self) -> None:
        self.step: int | None = None

    def watch(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        for raw in lines:
            if b"pipeline step " in raw and (end := _FINISHED.search(raw)) and self.step is None:
                self.step = int(end[1])
            yield raw
