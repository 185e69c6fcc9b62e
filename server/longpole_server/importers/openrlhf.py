"""OpenRLHF's console: `✨ Global step 1: {'timing/generation': 31.2, ...}`.

The asynchronous trainer prints the same line without the sparkles.
"""

import re
from collections.abc import Iterable, Iterator

from longpole_server.importers.dict_console import Head, read_printed
from longpole_server.importers.logged import MAX_STEP, LogLine, LogSummary

NEEDLE = b"lobal step "
_HEAD = re.compile(r"(✨ )?(?<!\w)Global step (\d{1,10}): (?=\{)")
_SYNCHRONOUS = "sparkling step"


def parse_openrlhf(lines: Iterable[bytes], summary: LogSummary) -> Iterator[LogLine]:
    """Yield the steps of a console log.

    Args:
        lines: Physical lines with their end, if they had one.
        summary: Counts grow as lines are consumed.
    """
    for printed in read_printed(lines, find_head, summary, (NEEDLE,)):
        if printed.number is None or printed.number > MAX_STEP:
            continue
        summary.num_step_lines += 1
        if printed.kind == _SYNCHRONOUS:
            summary.mode = "sync"
        yield LogLine(printed.number, printed.scalars, torn=printed.torn, time_ns=printed.time_ns)


def find_head(row: str) -> Head | None:
    """Return where the metrics of a step begin in a row."""
    found = _HEAD.search(row)
    if found is None:
        return None
    kind = _SYNCHRONOUS if found[1] else "step"
    return Head(kind, int(found[2]), found.end())
