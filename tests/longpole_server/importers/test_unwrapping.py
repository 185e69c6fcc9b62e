"""Step lines are put together again, however a terminal or a log shipper has cut them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole_server.importers.lines import read_lines
from longpole_server.importers.logged import LogSummary
from longpole_server.importers.unwrapping import join_step_lines
from longpole_server.importers.verl_console import parse_console
from support import verl_logs

CALLS = verl_logs.log_calls("0.9-v0", 4, critic=True)
STEPS = verl_logs.merged(CALLS)
PLAIN_PREFIX = "(TaskRunner pid=31337, ip=10.4.1.33) "
BAR = "Training Progress:   2%|▏         | 2/800 [06:12<40:01:10, 190.02s/it]"


def read(text: str) -> dict[int, dict[str, float]]:
    summary = LogSummary()
    lines = parse_console(read_lines([text.encode()], summary), summary)
    return verl_logs.merged((line.step, dict(line.scalars)) for line in lines)


def paste(rows: list[str]) -> str:
    return "\n".join(rows) + "\n"


@pytest.mark.parametrize("keep_blanks", [True, False])
@pytest.mark.parametrize("prefix", ["", PLAIN_PREFIX, BAR])
@given(width=st.integers(min_value=40, max_value=260))
def test_rows_of_a_terminal_read_like_the_whole_lines(
    width: int, prefix: str, keep_blanks: bool
) -> None:
    rows: list[str] = []
    for line in verl_logs.console_lines(CALLS, prefix):
        rows += [
            "(raylet) some noise before",
            *verl_logs.wrap([line], width, keep_blanks=keep_blanks),
        ]
        rows += [BAR, PLAIN_PREFIX + "saving checkpoint"]
    assert read(paste(rows)) == STEPS


@pytest.mark.parametrize("width", [80, 120, 200])
def test_rows_padded_with_blanks_read_like_the_whole_lines(width: int) -> None:
    lines = verl_logs.console_lines(CALLS, PLAIN_PREFIX)
    rows = [row.ljust(width) for row in verl_logs.wrap(lines, width)]
    assert read(paste(rows)) == STEPS


@pytest.mark.parametrize(
    "prefix",
    [
        verl_logs.RAY_PREFIX,
        "\x1b[36m(main_task pid=7)\x1b[0m ",
        PLAIN_PREFIX,
        "(TaskRunnerV1 pid=1, ip=10.4.1.33) ",
        "(RayTrainGroup[rank=0] pid=9) ",
        "2026-11-29T16:42:00Z ",
        "2026-11-29T16:42:00.123456789Z stdout F ",
        "2026-11-29 16:42:00,123 INFO verl: ",
        "[rank0]: ",
        "[rank0]:",
        "worker-0 | ",
        f"{BAR}",
        f"{BAR}\r{BAR}\r",
        f"\r{BAR}\x1b[A\x1b[K",
        f"{BAR}\n",
    ],
)
def test_what_stands_before_a_step_line_does_not_disturb_it(prefix: str) -> None:
    assert read(paste(verl_logs.console_lines(CALLS, prefix))) == STEPS


@pytest.mark.parametrize(
    "behind",
    [
        "\nDone",
        "\n12",
        "\nsaving checkpoint now",
        " [repeated 7x across cluster]",
        "\x1b[32m [repeated 2x across cluster] (Ray deduplicates logs by default.)\x1b[0m",
        BAR,
        f"\r{BAR}",
        "\r",
        "   ",
    ],
)
def test_what_is_glued_behind_a_step_line_does_not_disturb_it(behind: str) -> None:
    lines = [line + behind for line in verl_logs.console_lines(CALLS)]
    assert read(paste(lines)) == STEPS


def test_lines_that_a_container_runtime_cut_are_joined() -> None:
    rows: list[str] = []
    for line in verl_logs.console_lines(CALLS):
        parts = [line[at : at + 512] for at in range(0, len(line), 512)]
        for number, part in enumerate(parts, start=1):
            tag = "F" if number == len(parts) else "P"
            rows.append(f"2026-11-29T16:42:00.123456789Z stdout {tag} {part}")
            rows.append(f"2026-11-29T16:42:00.123456790Z stderr F {BAR}")
    assert read(paste(rows)) == STEPS


def test_dockers_json_lines_are_read() -> None:
    rows = [
        json.dumps({"log": line + "\n", "stream": "stdout", "time": "2026-11-29T16:42:00Z"})
        for line in verl_logs.console_lines(CALLS)
    ]
    assert read(paste([row.replace('", "', '","').replace('": "', '":"') for row in rows])) == STEPS


def test_windows_line_ends_do_not_disturb() -> None:
    assert read("\r\n".join(verl_logs.console_lines(CALLS)) + "\r\n") == STEPS


def test_an_ordinary_line_is_complete_at_once() -> None:
    (line,) = verl_logs.console_lines(CALLS[1:2])
    found = list(join_step_lines([line.encode() + b"\n", b"12\n"]))
    assert [text.joined for text in found] == [False]


def test_a_line_after_a_loaded_checkpoint_is_marked() -> None:
    text = (
        "step:1 - a/b:1\n(TaskRunner pid=1) Setting global step to 4\n(x pid=1) noise\n"
        "step:4 - a/b:1\nstep:5 - a/b:1\n"
    )
    lines = [line.encode() for line in text.splitlines(keepends=True)]
    assert [found.resumed for found in join_step_lines(lines)] == [False, True, False]


def test_rows_that_end_at_the_edge_of_the_terminal_may_lack_the_rest() -> None:
    (line,) = verl_logs.console_lines(CALLS[1:2], PLAIN_PREFIX)
    rows = verl_logs.wrap([line], 120)
    found = list(join_step_lines([row.encode() + b"\n" for row in rows[:5]]))
    assert [text.ended for text in found] == [False]
    found = list(join_step_lines([row.encode() + b"\n" for row in rows]))
    assert [text.ended for text in found] == [True]


@pytest.mark.parametrize("behind", ["", "```\n", "\nand so on\n"])
@pytest.mark.parametrize("indent", ["", " ", "    "])
def test_pairs_on_lines_of_their_own_read_like_one_line(indent: str, behind: str) -> None:
    """As people show a step in documents."""
    text = ""
    for line in verl_logs.console_lines(CALLS, ""):
        head, *pairs = line.split(" - ")
        text += "".join(f"{row}\n" for row in [head, *(f"{indent}- {pair}" for pair in pairs)])
        text += behind
    assert read(text) == STEPS


def test_a_bare_step_of_another_program_takes_nothing_in() -> None:
    text = "step:3\n- looked at the data\n- a/b:1\nstep:4 - a/b:1\n"
    lines = [line.encode() for line in text.splitlines(keepends=True)]
    assert [found.text for found in join_step_lines(lines)] == ["step:3", "step:4 - a/b:1"]
