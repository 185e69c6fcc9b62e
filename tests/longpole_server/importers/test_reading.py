"""Formats are recognised, what is no log is refused, memory is bounded."""

import bz2
import gzip
import lzma
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from longpole_server.errors import UnreadableLogError
from longpole_server.importers import LogSource, LogSummary, read_steps
from longpole_server.importers.lines import MAX_LINE_BYTES

DATA = Path(__file__).parents[2] / "data"


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(b"\x7fELF\x02\x01\x01\x00\x00 step:1")
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
    path.write_bytes(b"x" * (MAX_LINE_BYTES + 10) + b"\n" + line)
    summary = LogSummary()
    assert [step.step for step in read_steps(LogSource.of_file(path), summary)] == [1]
    assert [note.code for note in summary.finish()] == ["line.overlong"]


def steps_of(body: bytes) -> list[int]:
    source = LogSource.of_bytes("train.log", body, 0)
    return [step.step for step in read_steps(source, LogSummary())]


LINE = "step:1 - timing_s/step:1.5 - timing_s/gen:1.0\n"


def test_nul_bytes_that_a_crash_left_do_not_make_a_log_binary() -> None:
    assert steps_of(LINE.encode() + b"\x00" * 512 + LINE.replace("step:1", "step:2").encode()) == [
        1,
        2,
    ]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-8"])
def test_byte_order_marks_and_utf16_are_read(encoding: str) -> None:
    assert steps_of(LINE.encode(encoding)) == [1]
    assert steps_of('{"step": 1, "data": {"timing_s/step": 1.5}}\n'.encode(encoding)) == [1]


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress, bz2.compress])
def test_a_compressed_log_is_refused_with_the_way_to_read_it(
    compress: Callable[[bytes], bytes],
) -> None:
    with pytest.raises(UnreadableLogError, match="compressed") as caught:
        steps_of(compress(LINE.encode() * 9))
    assert "longpole diagnose -" in caught.value.hint


def test_a_console_that_begins_with_a_printed_dictionary_is_no_jsonl() -> None:
    config = "{'actor_rollout_ref': {'actor': {'strategy': 'fsdp'}},\n 'data': {}}\n"
    assert steps_of((config + LINE).encode()) == [1]
    assert steps_of(('{"level": "info", "step": 3}\n' + LINE).encode()) == [1]


def test_jsonl_that_begins_in_the_middle_is_jsonl() -> None:
    line = '{"step":%d,"data":{"timing_s/step":1.5}}\n'
    assert steps_of(('ing_s/gen":1.0}}\n' + line % 4 + line % 5).encode()) == [4, 5]


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "large.log"
    noise = b"INFO nothing of interest happened here, as so often before\n" * 1000
    with path.open("wb") as file:
        for step in range(250):
            file.write(noise)
            file.write(f"step:{step} - timing_s/step:1.5 - timing_s/gen:1.0\n".encode())
    tracemalloc.start()
    count = sum(1 for _ in read_steps(LogSource.of_file(path), LogSummary()))
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 250
    assert peak_bytes < path.stat().st_size / 2
