"""AReaL's console: `Train step 3/20 done.`, `Stats (1/1):` and a box table of names and values.

People show rows of the table alone, too: a time that comes again begins the next step then.
"""

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from longpole_server.importers.literals import read_number
from longpole_server.importers.logged import MAX_STEP, LogLine, LogSummary
from longpole_server.importers.rows import Row, clean_row, read_time_ns

NEEDLE = b"Train step "
_STEP = re.compile(r"Train step (\d{1,10})/(\d{1,10}) done")
# Of the grids that tabulate draws; of one made of letters the border below looks like the others.
_SIDES, _LAST_BORDERS = "│┃|", ("╘", "╰", "└", "┗")
_MAX_ROWS = 4096
# Every step has these; a cell of a table holds nothing else.
_STAGES = re.compile(
    rb"(?:\xe2\x94\x82|\xe2\x94\x83|\|)\s*timeperf/(?:rollout|train_step)\s*[^\w\s/]"
)
_TIME = re.compile(r"[│┃|]\s*(timeperf/\w+)\s*(?=[│┃|])")
_MAX_SENDERS = 64


def parse_areal(lines: Iterable[bytes], summary: LogSummary) -> Iterator[LogLine]:
    """Yield the steps of a console log.

    Of several tables for one step the first one wins where they name the same: it holds the times.

    Args:
        lines: Physical lines with their end, if they had one.
        summary: Counts grow as lines are consumed.
    """
    tables: dict[str, _Table] = {}
    for raw in lines:
        if not tables and NEEDLE not in raw:
            continue
        row = clean_row(raw)
        found = _STEP.search(row.text)
        if found is not None:
            table = tables.pop(row.sender, None)
            yield from () if table is None else table.finish(summary)
            if len(tables) < _MAX_SENDERS and int(found[1]) <= MAX_STEP:
                time_ns = read_time_ns(row.text, summary.year)
                tables[row.sender] = _Table(int(found[1]), time_ns)
        elif tables:
            table = tables.get(row.sender) or _only(tables)
            if table is not None and table.take(row, summary):
                yield from table.finish(summary)
    for table in tables.values():
        if table.rest or (table.scalars and not table.is_closed):
            summary.torn_last_line, summary.torn_step = True, table.step
            table.is_torn = True
        yield from table.finish(summary)


def parse_excerpt(lines: Iterable[bytes], summary: LogSummary) -> Iterator[LogLine]:
    """Yield the tables that stand there without a line of their step before them, counted.

    Args:
        lines: Physical lines with their end, if they had one.
        summary: Counts grow as lines are consumed.
    """
    table = _Table(1, None)
    for raw in lines:
        row = clean_row(raw)
        if table.holds_time(row.text):
            yield from table.finish(summary)
            table = _Table(table.step + 1, None)
        table.take(row, summary)
    yield from table.finish(summary)
    summary.steps_are_counted = True


def is_excerpt(lines: Iterable[bytes]) -> bool:
    """Tell whether lines hold the times of a step as a table does."""
    return any(_STAGES.search(raw) for raw in lines)


@dataclass(slots=True)
class _Table:
    """The tables of one step.

    Attributes:
        rest: A row of the table that has not ended: the terminal broke it.
        is_closed: The bottom border was seen.
    """

    step: int
    time_ns: int | None
    scalars: dict[str, float] = field(default_factory=dict[str, float])
    rest: str = ""
    is_closed: bool = False
    is_torn: bool = False
    num_rows: int = 0

    def holds_time(self, text: str) -> bool:
        """Tell whether a row repeats a time of the table."""
        return any(name in self.scalars for name in _TIME.findall(text))

    def take(self, row: Row, summary: LogSummary) -> bool:
        """Add a row; return whether it closes the table."""
        text = self.rest + row.text.strip()
        if text.startswith(_LAST_BORDERS):
            self.rest, self.is_closed = "", True
            return True
        if text.startswith("+-") and not self.rest:
            self.is_closed = True
            return False
        side = text[:1]
        if not side or side not in _SIDES or self.num_rows > _MAX_ROWS:
            return False
        if not text.endswith(side):
            self.rest = text
            return False
        self.rest, self.is_closed = "", False
        self.num_rows += 1
        cells = [cell.strip() for cell in text.strip(side).split(side)]
        for name, value in zip(cells[::2], cells[1::2], strict=False):
            self._add(name, value, summary)
        return False

    def finish(self, summary: LogSummary) -> Iterator[LogLine]:
        if self.scalars:
            summary.num_step_lines += 1
            yield LogLine(self.step, dict(self.scalars), torn=self.is_torn, time_ns=self.time_ns)

    def _add(self, name: str, text: str, summary: LogSummary) -> None:
        value = read_number(text)
        if not name or value is None:
            return
        if math.isfinite(value):
            self.scalars.setdefault(name, value)
        else:
            summary.count_not_finite(name)


def _only(tables: dict[str, _Table]) -> _Table | None:
    """Return the one table that is open: rows copied from a terminal have no sender."""
    return next(iter(tables.values())) if len(tables) == 1 else None
