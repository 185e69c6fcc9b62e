"""Printed dictionaries survive interleaving, colours, wrapping and torn ends."""

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole_server.importers import LogSource, LogSummary, read_steps
from longpole_server.importers.logged import LoggedStep
from support.verl_logs import wrap

LOGS = Path(__file__).parents[2] / "data" / "logs"
CONSOLES = [
    "openrlhf_console.log",
    "skyrl_console.log",
    "slime_console.log",
    "roll_console.log",
    "nemo_rl_console.log",
    "areal_console.log",
    "prime_rl_trainer.log",
]
NOISE = [
    "(raylet) Spilled 2048 MiB, 12 objects, write throughput 900 MiB/s.",
    "(VLLMEngine pid=77) INFO 11-29 16:41:00 [core.py:1] {'not': 'metrics'} of a request",
    "Episode [1/1]:  12%|#2        | 12/100 [14:00<1:42:00, 70.00s/it]",
    "(RewardWorker pid=78) Step 1: think about it. {'answer': 4}",
    "",
]


def read(body: bytes) -> list[LoggedStep]:
    return list(read_steps(LogSource.of_bytes("log", body, 10**18), LogSummary()))


def scalars(steps: list[LoggedStep]) -> list[tuple[int, dict[str, float]]]:
    return [(step.step, dict(step.scalars)) for step in steps if not step.torn]


@pytest.mark.parametrize("name", CONSOLES)
@given(seed=st.integers(0, 2**32))
def test_lines_of_other_processes_between_change_nothing(name: str, seed: int) -> None:
    lines = (LOGS / name).read_text("utf-8").splitlines()
    draw = random.Random(seed)
    mixed: list[str] = []
    for line in lines:
        if draw.random() < 0.3:
            mixed.append(draw.choice(NOISE))
        mixed.append(line)
    body = "\n".join(mixed).encode() + b"\n"
    assert scalars(read(body)) == scalars(read((LOGS / name).read_bytes()))


@pytest.mark.parametrize("name", CONSOLES)
def test_rays_colours_change_nothing(name: str) -> None:
    lines = (LOGS / name).read_text("utf-8").splitlines()
    coloured: list[str] = []
    for line in lines:
        ended = line.replace(") ", ")\x1b[0m ", 1)
        is_rays = line.startswith("(") and "pid=" in line
        coloured.append(f"\x1b[36m{ended}" if is_rays else f"\x1b[32m{line}\x1b[0m")
    body = "\n".join(coloured).encode() + b"\n"
    assert scalars(read(body)) == scalars(read((LOGS / name).read_bytes()))


@pytest.mark.parametrize("name", CONSOLES)
def test_a_prefix_of_ray_before_every_line_changes_nothing(name: str) -> None:
    lines = (LOGS / name).read_text("utf-8").splitlines()
    if any(line.startswith("(") and "pid=" in line for line in lines):
        pytest.skip("has prefixes of its own")
    prefixed = [f"\x1b[36m(main pid=7, ip=10.0.0.9)\x1b[0m {line}" for line in lines]
    body = "\n".join(prefixed).encode() + b"\n"
    assert scalars(read(body)) == scalars(read((LOGS / name).read_bytes()))


@pytest.mark.parametrize("name", ["openrlhf_console.log", "slime_console.log", "roll_console.log"])
@pytest.mark.parametrize("width", [80, 97, 120, 133, 160, 200, 237])
def test_rows_of_a_terminal_are_put_together(name: str, width: int) -> None:
    lines = (LOGS / name).read_text("utf-8").splitlines()
    # A terminal has a whole head in two rows at the most.
    lines = [line.removeprefix(line[: line.find(") [") + 2]) for line in lines]
    body = "\n".join(wrap(lines, width)).encode() + b"\n"
    assert scalars(read(body)) == scalars(read("\n".join(lines).encode() + b"\n"))


@pytest.mark.parametrize("name", CONSOLES)
@given(data=st.data())
def test_a_log_that_ends_in_the_middle_says_nothing_false(name: str, data: st.DataObject) -> None:
    body = (LOGS / name).read_bytes()
    cut = data.draw(st.integers(0, len(body)))
    whole = dict(scalars(read(body)))
    for step, found in scalars(read(body[:cut])):
        assert found.keys() <= whole[step].keys()
        # Means over the optimiser steps so far are means of fewer.
        same = {key: value for key, value in found.items() if not key.startswith("train/")}
        assert same.items() <= whole[step].items()


@pytest.mark.parametrize("name", CONSOLES)
@given(seed=st.integers(0, 2**32))
def test_damaged_bytes_are_borne(name: str, seed: int) -> None:
    body = bytearray((LOGS / name).read_bytes())
    draw = random.Random(seed)
    for _ in range(12):
        body[draw.randrange(len(body))] = draw.randrange(1, 256)
    read(bytes(body))


def test_containers_logs_are_read() -> None:
    lines = (LOGS / "openrlhf_console.log").read_text("utf-8").splitlines()
    parts: list[str] = []
    for line in lines:
        cut = [line[at : at + 300] for at in range(0, len(line), 300)]
        parts += [f"2026-11-29T16:42:00.123456789Z stdout P {part}" for part in cut[:-1]]
        parts.append(f"2026-11-29T16:42:00.123456789Z stdout F {cut[-1]}")
    body = "\n".join(parts).encode() + b"\n"
    assert [step for step, _ in scalars(read(body))] == [1, 2]
