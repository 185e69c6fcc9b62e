"""A log becomes records: the same ones each time, on an axis that ends at the file's time."""

from pathlib import Path

import pytest

from longpole_server.errors import UnreadableLogError
from longpole_server.importers import LogSource, import_records

DATA = Path(__file__).parents[2] / "data"
END_NS = 1_760_000_000_000_000_000


def read(name: str) -> LogSource:
    return LogSource.of_bytes(name, (DATA / name).read_bytes(), END_NS)


def test_the_axis_ends_at_the_files_time_with_steps_back_to_back() -> None:
    batches = list(import_records(read("verl_file_balanced.jsonl"), "import/balanced"))
    (start,) = batches[0].run_starts
    assert start.imported
    assert start.time_estimated
    points = [point for batch in batches for point in batch.metric_points]
    ends = {point.step: point.ts_ns for point in points}
    seconds = {point.step: point.value for point in points if point.name == "timing_s/step"}
    assert ends[8] == END_NS
    for step in range(2, 9):
        assert (ends[step] - ends[step - 1]) / 1e9 == pytest.approx(seconds[step], abs=1e-3)
    assert (END_NS - start.started_ns) / 1e9 == pytest.approx(sum(seconds.values()), abs=1e-2)
    assert start.gpu_count == 16


def test_the_same_log_gives_the_same_records() -> None:
    first = list(import_records(read("verl_console_long_tail.log"), "import/x"))
    assert first == list(import_records(read("verl_console_long_tail.log"), "import/x"))


def test_a_log_without_a_step_is_refused_before_anything_is_written() -> None:
    with pytest.raises(UnreadableLogError):
        next(iter(import_records(LogSource.of_bytes("x.log", b"nothing\n", END_NS), "import/x")))
