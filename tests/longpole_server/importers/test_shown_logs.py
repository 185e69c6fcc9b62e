"""Logs as people show them: broken over lines, without the beginning, compressed."""

import gzip
from pathlib import Path

import pytest

from longpole_server.importers.logged import LoggedStep, LogSummary
from longpole_server.importers.reading import read_steps
from longpole_server.importers.sources import LogSource

PAIRS = (
    "timing_s/gen:40.1 - timing_s/update_actor:20.0 - timing_s/step:66.0 - perf/throughput:900.0"
)


def read(text: str) -> tuple[list[LoggedStep], LogSummary]:
    summary = LogSummary()
    return list(read_steps(LogSource.of_bytes("log", text.encode(), 0), summary)), summary


@pytest.mark.parametrize(
    "text",
    [
        "perf 3: {\n    'perf/train_time': 20.0,\n    'perf/step_time': 50.5\n}\n",
        (
            "[2026-11-29 16:42:00] x.py:4 - perf 3:\n{\n  'perf/train_time': 20.0,\n"
            "  'perf/step_time': 50.5,\n}\n"
        ),
        "x - perf 3: {'perf/train_time': 20.0,\n 'perf/step_time': 50.5, 'perf/wait': 0.6}\n",
        'perf 3: {"perf/train_time": 20.0, "perf/step_time": 50.5}\n',
    ],
)
def test_slime_s_dictionary_is_read_over_several_lines(text: str) -> None:
    (step,), summary = read(text)
    assert (step.step, summary.system) == (3, "slime")
    assert step.scalars["perf/train_time"] == 20.0
    assert step.scalars["perf/step_time"] == 50.5


def test_ms_swift_s_jsonl_names_steps_and_says_what_they_took() -> None:
    rows = [
        f'{{"reward": 0.5, "completions/mean_length": 120.5, "global_step/max_steps": "{step}/9", '
        f'"elapsed_time": "{elapsed}"}}'
        for step, elapsed in ((1, "58s"), (2, "1m 58s"), (4, "4m 2s"))
    ]
    steps, _ = read("\n".join(rows) + "\n")
    assert [step.step for step in steps] == [1, 2, 4]
    assert [step.scalars.get("step_time") for step in steps] == [None, 60.0, 62.0]
    assert steps[0].scalars["completions/mean_length"] == 120.5


@pytest.mark.parametrize(
    ("text", "numbers", "counted"),
    [
        (f"{PAIRS}\n{PAIRS}\n", [1, 2], True),
        (PAIRS.replace(" - ", "\n").replace(":", ": ") + "\n", [1], True),
        ("- " + PAIRS.replace(" - ", "\n- ") + "\n", [1], True),
        (f"... training/global_step:7 - {PAIRS} ...\n", [7], False),
        (f"step: 5 - {PAIRS.replace(':', ': ')}\nstep: 6 - {PAIRS}\n", [5, 6], False),
    ],
)
def test_excerpts_of_verl_without_their_beginning_are_steps(
    text: str, numbers: list[int], counted: bool
) -> None:
    steps, summary = read(text)
    assert [step.step for step in steps] == numbers
    assert summary.steps_are_counted == counted
    assert summary.system == "verl"
    for step in steps:
        assert step.scalars["timing_s/gen"] == 40.1
        assert step.scalars["timing_s/step"] == 66.0


def test_a_value_that_may_be_cut_is_left_out() -> None:
    (step,), _ = read("timing_s/step:66.0 - timing_s/gen:4...\n")
    assert "timing_s/gen" not in step.scalars


def test_pairs_without_the_seconds_of_a_step_are_none() -> None:
    assert read("timing_s/gen:40.1 - timing_s/update_actor:20.0\n")[0] == []


def test_a_compressed_file_is_read_up_to_where_it_was_cut(tmp_path: Path) -> None:
    lines = "".join(f"step:{step} - {PAIRS}\r\n" for step in range(1, 2000))
    whole = gzip.compress(lines.encode())
    for body, least in ((whole, 1999), (whole[:-40], 1)):
        path = tmp_path / "train.log.gz"
        path.write_bytes(body)
        source = LogSource.of_file(path)
        assert source.name == "train.log"
        assert least <= len(list(read_steps(source, LogSummary()))) <= 1999
