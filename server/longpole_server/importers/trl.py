"""TRL's console: dictionaries of texts, one a logging call, without a step.

The step is read off the progress bar where the log holds one, else records are counted.
"""

import re
from collections.abc import Iterable, Iterator

from longpole_server.importers.dict_console import Head, read_printed
from longpole_server.importers.logged import MAX_STEP, LogLine, LogSummary

NEEDLES = (b"'reward", b"'step_time'", b"'completions/")
_HEAD = re.compile(r"^\s*\{(?=['\"][\w/]+['\"]: )")
_KEYS = re.compile(r"'(?:reward|rewards/[^']*|step_time|completions/mean_length)': ")
# The bar of transformers has no description before it.
_BAR = re.compile(rb"(?:^|\r)\s*\d+%\|[^|]*\|\s*(\d{1,10})/(\d{1,10}) \[")


def parse_trl(lines: Iterable[bytes], summary: LogSummary) -> Iterator[LogLine]:
    """Yield the records of a console log as steps.

    Args:
        lines: Physical lines with their end, if they had one.
        summary: Counts grow as lines are consumed.
    """
    bar = _BarWatch()
    number = 0
    for printed in read_printed(bar.watch(lines), find_head, summary, NEEDLES, text_numbers=True):
        if not any(name in printed.scalars for name in ("reward", "step_time")):
            continue
        if bar.step is not None and bar.step > number:
            number = min(bar.step, MAX_STEP)
        else:
            number += 1
            summary.steps_are_counted = True
        summary.num_step_lines += 1
        yield LogLine(number, printed.scalars, torn=printed.torn)


def find_head(row: str) -> Head | None:
    """Return where a record begins in a row."""
    found = _HEAD.match(row)
    if found is None or _KEYS.search(row) is None:
        return None
    return Head("record", None, found.end() - 1)


class _BarWatch:
    """Reads the step off the training's progress bar while lines pass by."""

    def __init__(self) -> None:
        self.step: int | None = None

    def watch(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        for raw in lines:
            if b"%|" in raw and (bar := _BAR.search(raw)):
                self.step = int(bar[1])
            yield raw
