"""Files that cannot be read are refused in one line; readable ones stream in bounded memory."""

import tracemalloc
from pathlib import Path

import pytest

from longpole_server.errors import UnreadableLogError
from longpole_server.importers import LogSource, LogSummary, read_steps, reading

DATA = Path(__file__).parents[2] / "data"


def test_a_missing_file_and_a_directory_are_refused_with_their_name(tmp_path: Path) -> None:
    with pytest.raises(UnreadableLogError, match="no such file"):
        LogSource.of_file(tmp_path / "absent.log")
    with pytest.raises(UnreadableLogError, match="is a directory"):
        LogSource.of_file(tmp_path)


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(b"step:1 - a:1\n\x00\x01\x02")
    with pytest.raises(UnreadableLogError, match="binary"):
        list(read_steps(LogSource.of_file(path), LogSummary()))


@pytest.mark.parametrize(
    ("name", "format_", "steps"),
    [
        ("verl_console_long_tail.log", "verl_console", list(range(9))),
        ("verl_console_update_inefficient.log", "verl_console", list(range(1, 7))),
        ("verl_file_balanced.jsonl", "verl_jsonl", list(range(1, 9))),
        ("verl_0.9.1_real_console.log", "verl_console", [1, 2, 3]),
        ("verl_0.9.1_real.jsonl", "verl_jsonl", [1, 2, 3]),
    ],
)
def test_the_samples_are_recognised_and_read_whole(
    name: str, format_: str, steps: list[int]
) -> None:
    summary = LogSummary()
    found = list(read_steps(LogSource.of_file(DATA / name), summary))
    assert summary.format == format_
    assert [step.step for step in found] == steps
    assert summary.num_unreadable == 0


def test_console_and_jsonl_of_one_real_run_say_the_same() -> None:
    console = list(
        read_steps(LogSource.of_file(DATA / "verl_0.9.1_real_console.log"), LogSummary())
    )
    jsonl = list(read_steps(LogSource.of_file(DATA / "verl_0.9.1_real.jsonl"), LogSummary()))
    assert [step.scalars for step in console] == [step.scalars for step in jsonl]


def test_a_line_over_the_limit_is_skipped_and_noted(tmp_path: Path) -> None:
    path = tmp_path / "long.log"
    line = b"step:1 - timing_s/step:1.0\n"
    path.write_bytes(b"x" * (reading.MAX_LINE_BYTES + 10) + b"\n" + line)
    summary = LogSummary()
    assert [step.step for step in read_steps(LogSource.of_file(path), summary)] == [1]
    assert [note.code for note in summary.finish()] == ["line.overlong"]


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "large.log"
    noise = b"INFO nothing of interest happened here, as so often before\n" * 1000
    with path.open("wb") as file:
        for step in range(200):
            file.write(noise)
            file.write(f"step:{step} - timing_s/step:1.5 - timing_s/gen:1.0\n".encode())
    tracemalloc.start()
    count = sum(1 for _ in read_steps(LogSource.of_file(path), LogSummary()))
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 200
    assert peak_bytes < path.stat().st_size / 4
