"""SkyRL's console: `... - Step 1:` and, from the next line on, a pretty-printed dictionary.

Its floats are printed as texts. The asynchronous trainer prints a step in two calls: metrics, then
times.
"""

import re
from collections.abc import Iterable, Iterator

from longpole_server.importers.dict_console import Head, read_printed
from longpole_server.importers.logged import MAX_STEP, LogLine, LogSummary

NEEDLE = b"- Step "
_HEAD = re.compile(r" - Step (\d{1,10}):\s*(?=\{|$)")


def parse_skyrl(lines: Iterable[bytes], summary: LogSummary) -> Iterator[LogLine]:
    """Yield the steps of a console log.

    Args:
        lines: Physical lines with their end, if they had one.
        summary: Counts grow as lines are consumed.
    """
    for printed in read_printed(lines, find_head, summary, (NEEDLE,), text_numbers=True):
        if printed.number is None or printed.number > MAX_STEP:
            continue
        summary.num_step_lines += 1
        yield LogLine(printed.number, printed.scalars, torn=printed.torn, time_ns=printed.time_ns)


def find_head(row: str) -> Head | None:
    """Return where the metrics of a step begin: in this row or in the next."""
    found = _HEAD.search(row)
    return None if found is None else Head("step", int(found[1]), found.end())
