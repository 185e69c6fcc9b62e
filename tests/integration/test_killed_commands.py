"""Backup, restore, export and import killed at random moments: half is never taken for whole.

One round each by default; `pytest tests/integration/test_killed_commands.py --rounds 60` runs ten.
"""

import contextlib
import random
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from longpole_server.store import StoreConfig, open_store
from longpole_server.store.backup import count_rows
from support.otlp_builders import T0_NS, loop, process, stage, traces
from support.server_process import ServerProcess, StartServer, run_longpole, start_longpole

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

RUN_ID = "killed"
STEPS = 3
LOG = Path(__file__).parents[1] / "data" / "verl_console_long_tail.log"
ROUNDS_OF_SIX = 6


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        rounds: Any = metafunc.config.getoption("rounds")
        metafunc.parametrize("seed", range(-(-rounds // ROUNDS_OF_SIX)))


def send_run(server: ServerProcess) -> None:
    start_s = (time.time_ns() - T0_NS) // 10**9 - 500.0
    for step in range(1, STEPS + 1):
        at_s = start_s + 10.0 * step
        spans = [stage("gen", step, at_s, at_s + 6.0), loop(step, at_s, at_s + 10.0)]
        assert server.send("traces", traces((process(RUN_ID), spans))).status_code == 200


def wait_for_steps(server: ServerProcess) -> None:
    server.wait_for(f"/runs/{RUN_ID}/steps", lambda page: len(page["steps"]) == STEPS)


def count(data_dir: Path) -> Mapping[str, int]:
    store = open_store(StoreConfig(directory=data_dir / "store"))
    client = store.new_reader_client()
    try:
        return count_rows(client, "longpole")
    finally:
        client.close()
        store.close()


def kill_amid(words: list[str], seconds: float, log: Path) -> None:
    """Start a command and kill it after a while, or let it end when it was faster."""
    command = start_longpole(*words, log=log)
    with contextlib.suppress(subprocess.TimeoutExpired):
        command.wait(seconds)
    command.kill()
    command.wait()


def measure(*words: str) -> float:
    """Run a command to its end and return how long it took: when it can be killed."""
    begun_s = time.monotonic()
    done = run_longpole(*words)
    assert done.returncode == 0, done.stderr
    return time.monotonic() - begun_s


def test_a_backup_that_was_killed_is_none_and_the_next_one_is_whole(
    start_server: StartServer, tmp_path: Path, seed: int
):
    random_moment = random.Random(seed).random
    server = start_server(tmp_path, "--no-agent")
    send_run(server)
    wait_for_steps(server)
    server.kill()
    data = ("--data-dir", str(server.data_dir))
    took_s = measure("backup", str(tmp_path / "first"), *data)
    before = count(server.data_dir)
    copy = tmp_path / "copy"
    kill_amid(["backup", str(copy), *data], took_s * random_moment(), tmp_path / "log")
    if not copy.exists():
        half = run_longpole("restore", str(copy), "--data-dir", str(tmp_path / "of-half"))
        assert half.returncode == 2, half.stderr
        done = run_longpole("backup", str(copy), *data)
        assert done.returncode == 0, done.stderr
    assert not copy.with_name("copy.partial").exists()
    assert count(server.data_dir) == before

    back = tmp_path / "back"
    words = ["restore", str(copy), "--data-dir", str(back)]
    kill_amid(words, took_s * random_moment(), tmp_path / "log")
    if not (back / "store").is_dir() or (back / "restore-unfinished").exists():
        if back.exists():
            served = run_longpole("server", "--port", "0", "--no-otlp", "--data-dir", str(back))
            assert served.returncode == 1, served.stdout
            assert "longpole restore again" in served.stderr
        done = run_longpole(*words)
        assert done.returncode == 0, done.stderr
    assert count(back) == before


def test_an_export_or_import_that_was_killed_is_repeated_without_doubles(
    start_server: StartServer, tmp_path: Path, seed: int
):
    random_moment = random.Random(seed).random
    directories = [tmp_path / "1", tmp_path / "2"]
    for each in directories:
        each.mkdir()
    first = start_server(directories[0], "--no-agent")
    send_run(first)
    wait_for_steps(first)
    there = ("--server", first.url)
    took_s = measure("export", RUN_ID, "--to", str(tmp_path / "first"), *there)
    target = tmp_path / "run"
    words = ["export", RUN_ID, "--to", str(target), *there]
    kill_amid(words, took_s * random_moment(), tmp_path / "log")
    if not target.exists():
        assert run_longpole(*words).returncode == 0
    files = {each.name for each in target.iterdir()}
    assert files == {each.name for each in (tmp_path / "first").iterdir()}
    first.kill()

    second = start_server(directories[1], "--no-agent")
    commands = [["import", str(target)], ["import", str(LOG)]]
    for command in commands:
        words = [*command, "--server", second.url]
        kill_amid(words, took_s * random_moment(), tmp_path / "log")
    # Its server is killed as well, with what it had taken of the second one.
    command = start_longpole(*commands[1], "--server", second.url, log=tmp_path / "log")
    with contextlib.suppress(subprocess.TimeoutExpired):
        command.wait(took_s * random_moment())
    second.kill()
    command.wait()
    again = start_server(directories[1], "--no-agent")
    for command in commands:
        done = run_longpole(*command, "--server", again.url)
        assert done.returncode == 0, done.stderr
    wait_for_steps(again)
    again.wait_for(
        "/runs/import%2Fverl_console_long_tail/steps", lambda page: len(page["steps"]) == 8
    )
    again.kill()
    counted = count(directories[1] / "data")
    of_first = count(directories[0] / "data")
    assert counted["otel_traces"] == of_first["otel_traces"]
    assert counted["stage_spans"] - of_first["stage_spans"] == count_log(tmp_path)
    assert counted["run_starts"] == 2


def count_log(directory: Path) -> int:
    """Return how many windows the log has, put into a store without any trouble."""
    data = directory / "undisturbed"
    data.mkdir()
    server = ServerProcess(data, "--no-agent")
    try:
        assert run_longpole("import", str(LOG), "--server", server.url).returncode == 0
        path = "/runs/import%2Fverl_console_long_tail/steps"
        server.wait_for(path, lambda page: len(page["steps"]) == 8)
    finally:
        server.kill()
    return count(data / "data")["stage_spans"]
