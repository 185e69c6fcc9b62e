"""MLflow run folders: `metrics/<name>` files of `milliseconds value step` lines.

A folder is read as one text: before each file a line names the metric. That text is also what is
sent to a server.
"""

import heapq
import io
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from longpole_server.importers.literals import read_number
from longpole_server.importers.logged import MAX_STEP, LogLine, LogSummary
from longpole_server.importers.streams import Concatenation
from longpole_server.importers.tracked import Tracked, TrackedReader

MAGIC = b"# longpole mlflow-run 1\n"
_METRIC = b"# metric "
_METRICS_FOLDER = "metrics"
_MAX_POINTS = 20_000_000


def is_mlflow_folder(path: Path) -> bool:
    """Return whether a folder is that of a run: it has a metrics folder and `meta.yaml`."""
    return (path / _METRICS_FOLDER).is_dir() and (path / "meta.yaml").is_file()


def open_mlflow_folder(path: Path) -> BinaryIO:
    """Return the run's metrics as one stream."""
    return io.BufferedReader(Concatenation(_parts(path)))


def list_metric_files(path: Path) -> list[Path]:
    """Return the files of a run's metrics, in the order in which they are read."""
    return sorted(file for file in (path / _METRICS_FOLDER).rglob("*") if file.is_file())


def read_mlflow_run(stream: BinaryIO, summary: LogSummary) -> Iterator[LogLine]:
    """Yield the metrics of a run step by step.

    Args:
        stream: What `open_mlflow_folder` returns, from its start.
        summary: Counts grow as lines are read.
    """
    columns = _read_columns(stream, summary)
    reader = TrackedReader()
    step: int | None = None
    values: dict[str, float] = {}
    time_ns = 0
    points = heapq.merge(*(column.points(name) for name, column in columns.items()))
    for number, name, value, time_ms in points:
        if step is not None and number != step:
            summary.num_step_lines += 1
            yield from reader.take(Tracked(step, values, time_ns))
            values, time_ns = {}, 0
        step = number
        if value - value == 0.0:
            values[name] = value
        else:
            summary.count_not_finite(name)
        time_ns = max(time_ns, time_ms * 1_000_000)
    if step is not None and values:
        summary.num_step_lines += 1
        yield from reader.take(Tracked(step, values, time_ns))


class _Column:
    """The points of one metric, 24 bytes each."""

    def __init__(self) -> None:
        self.steps = array("q")
        self.times_ms = array("q")
        self.values = array("d")

    def points(self, name: str) -> Iterator[tuple[int, str, float, int]]:
        order: Iterable[int] = range(len(self.steps))
        if any(a > b for a, b in zip(self.steps, self.steps[1:], strict=False)):
            order = sorted(order, key=self.steps.__getitem__)
        for index in order:
            yield self.steps[index], name, self.values[index], self.times_ms[index]


def _read_columns(stream: BinaryIO, summary: LogSummary) -> dict[str, _Column]:
    columns: dict[str, _Column] = {}
    column: _Column | None = None
    num_points = 0
    for raw in stream:
        if raw == MAGIC:
            continue
        if raw.startswith(_METRIC):
            name = raw.removeprefix(_METRIC).rstrip(b"\n").decode("utf-8", errors="replace")
            column = columns.setdefault(name, _Column())
            continue
        summary.num_lines += 1
        parts = raw.split()
        step = int(parts[2]) if len(parts) > 2 and parts[2].isdigit() else 0
        value = read_number(parts[1].decode("ascii", "replace")) if len(parts) > 1 else None
        if column is None or value is None or not parts[0].isdigit() or step > MAX_STEP:
            summary.num_unreadable += 1
            continue
        num_points += 1
        if num_points > _MAX_POINTS:
            summary.remark(
                "log.window",
                "warning",
                f"Only the first {_MAX_POINTS:,} points are read.",
            )
            break
        column.steps.append(step)
        column.times_ms.append(min(int(parts[0]), 1 << 42))
        column.values.append(value)
    return columns


def _parts(path: Path) -> Iterator[BinaryIO]:
    yield io.BytesIO(MAGIC)
    root = path / _METRICS_FOLDER
    for file in list_metric_files(path):
        name = file.relative_to(root).as_posix()
        body = file.read_bytes()
        end = b"" if body.endswith(b"\n") or not body else b"\n"
        yield io.BytesIO(_METRIC + name.encode("utf-8", errors="replace") + b"\n" + body + end)
