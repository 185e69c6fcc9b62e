"""Tables with a column of steps: CSV exports of wandb and of others.

The export of a wandb chart has columns `<run> - <metric>` with `__MIN` and `__MAX` beside them;
`Run.history` gives columns of the metrics' own names.
"""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from longpole_server.errors import UnreadableLogError
from longpole_server.importers.literals import read_number
from longpole_server.importers.logged import LogLine, LogSummary
from longpole_server.importers.tracked import Tracked, TrackedReader

_STEP_COLUMNS = (
    "Step",
    "_step",
    "step",
    "global_step",
    "train/global_step",
    "trainer/global_step",
    "training/global_step",
    "training_step",
    "rollout/step",
)
# What wandb's charts have in the first column where another axis than the step was chosen.
_TIME_AXES = ("Relative Time (Wall)", "Relative Time (Process)", "Wall Time")
_TIME_COLUMN = "_timestamp"
_CHART_COLUMN = re.compile(r"^(?P<run>.+) - (?P<name>\S.*?)(?P<extreme>__MIN|__MAX)?$")
_MAX_HEADER_BYTES = 1 << 20
_MAX_FIELD_CHARS = 1 << 20


def is_csv_table(head: bytes) -> bool:
    """Return whether the first line names columns, one of them of steps."""
    first = re.split(rb"[\r\n]", head, maxsplit=1)[0].decode("utf-8-sig", errors="replace")
    if "," not in first or "\x00" in first or first.lstrip().startswith(("{", "[")):
        return False
    try:
        columns = next(csv.reader([first]), list[str]())
    except csv.Error:
        return False
    known = (*_STEP_COLUMNS, *_TIME_AXES)
    return len(columns) > 1 and any(name.strip() in known for name in columns)


def read_csv_table(stream: BinaryIO, summary: LogSummary) -> Iterator[LogLine]:
    """Yield the rows of a table; of charts that show several runs, the first run's.

    Args:
        stream: The file from its start.
        summary: Counts grow as rows are read.

    Raises:
        UnreadableLogError: It says times in the place of steps.
    """
    csv.field_size_limit(_MAX_FIELD_CHARS)
    text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="replace", newline="")
    rows = csv.reader(text)
    header = [name.strip() for name in next(rows, list[str]())]
    names = _name_columns(header, summary)
    if not any(name in _STEP_COLUMNS for name in header):
        raise UnreadableLogError(
            f"The table's first column is `{header[0]}`, so nobody knows its steps.",
            "Choose Step as the chart's x axis and export it again, or the run's whole history.",
        )
    step_columns = [header.index(name) for name in _STEP_COLUMNS if name in header]
    reader = TrackedReader()
    try:
        for row in rows:
            summary.num_lines += 1
            yield from _read_row(row, names, step_columns, reader, summary)
    except csv.Error:
        summary.num_unreadable += 1
    text.detach()


def _read_row(
    row: Sequence[str],
    names: Sequence[str | None],
    step_columns: Sequence[int],
    reader: TrackedReader,
    summary: LogSummary,
) -> Iterator[LogLine]:
    if len(row) != len(names):
        summary.num_unreadable += bool(row)
        return
    numbers = (read_number(row[column]) for column in step_columns)
    # Each axis of a framework has values in its own rows only.
    step = next((number for number in numbers if number is not None), None)
    values: dict[str, float] = {}
    for name, text in zip(names, row, strict=True):
        value = read_number(text) if name is not None and text else None
        if name is None or value is None:
            continue
        if value - value == 0.0:
            values[name] = value
        else:
            summary.count_not_finite(name)
    if step is None or step - step != 0.0 or not values:
        return
    seconds = values.pop(_TIME_COLUMN, None)
    time_ns = None if seconds is None else round(seconds * 1e9)
    summary.num_step_lines += 1
    yield from reader.take(Tracked(round(step), values, time_ns))


def _name_columns(header: Sequence[str], summary: LogSummary) -> list[str | None]:
    """Return the metric of each column, None for those that are none of the run's."""
    charts = [_CHART_COLUMN.match(name) for name in header]
    runs = list(dict.fromkeys(found["run"] for found in charts if found is not None))
    if len(runs) > 1:
        summary.remark(
            "table.runs",
            "warning",
            f"The table holds {len(runs)} runs; only `{runs[0]}` is read.",
        )
    names: list[str | None] = []
    for name, found in zip(header, charts, strict=True):
        if found is None:
            names.append(None if name == "Step" else name)
        elif found["extreme"] or found["run"] != runs[0] or found["name"] == "_step":
            names.append(None)
        else:
            names.append(found["name"])
    return names
