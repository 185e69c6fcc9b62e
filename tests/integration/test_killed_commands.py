"""Backup, restore, export and import killed at random moments: half is never taken for whole.

One round each by default; `pytest tests/integration/test_killed_commands.py --rounds 60` runs ten.
"""

import contextlib
import os
import random
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from longpole_server.store import StoreConfig, open_store
from longpole_server.store.client import WRITE_SETTINGS
from support.agent_waiting import wait_until
from support.otlp_builders import T0_NS, loop, process, stage, traces
from support.server_process import ServerProcess, StartServer, run_longpole, start_longpole
from support.store_counting import count_stored_rows

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

RUN_ID = "killed"
STEPS = 3
ROUNDS_OF_SIX = 6
# A few files are written within so many seconds.
MOMENT_S = 0.4


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        rounds: Any = metafunc.config.getoption("rounds")
        metafunc.parametrize("seed", range(-(-rounds // ROUNDS_OF_SIX)))


def make_store(directory: Path) -> None:
    store = open_store(StoreConfig(directory=directory / "store"))
    client = store.new_limited_client(WRITE_SETTINGS)
    for number in range(4):
        ids = [os.urandom(20).hex() for _ in range(5_000)]
        rows = pa.table({"batch_id": ids, "token": [str(number)] * len(ids)})
        client.insert("stored_batches", rows, str(number))
    client.close()
    store.close()


def kill_amid(words: list[str], log: Path, begins: Callable[[], bool], seconds: float) -> None:
    """Start a command and kill it a while after it began, or let it end when it was faster."""
    command = start_longpole(*words, log=log)
    wait_until(lambda: begins() or command.poll() is not None)
    with contextlib.suppress(subprocess.TimeoutExpired):
        command.wait(seconds)
    command.kill()
    command.wait()


def test_a_backup_or_restore_that_was_killed_is_none_until_it_is_repeated(
    tmp_path: Path, seed: int
):
    moment = random.Random(seed).random
    data, copy, back = tmp_path / "data", tmp_path / "copy", tmp_path / "back"
    data.mkdir(mode=0o700)
    make_store(data)
    before = count_stored_rows(data)
    words = ["backup", str(copy), "--data-dir", str(data)]
    partial = tmp_path / "copy.partial"
    kill_amid(words, tmp_path / "log", partial.exists, MOMENT_S * moment())
    if not copy.exists():
        # A name that says what it is, and nothing that restores it by mistake: it is refused, but
        # where all of it was written and only the name was not.
        of_half = tmp_path / "of-half"
        half = run_longpole("restore", str(partial), "--data-dir", str(of_half))
        assert half.returncode == 2 or count_stored_rows(of_half) == before, half.stderr
        done = run_longpole(*words)
        assert done.returncode == 0, done.stderr
    assert not partial.exists()

    words = ["restore", str(copy), "--data-dir", str(back)]
    mark = back / "restore-unfinished"
    kill_amid(words, tmp_path / "log", mark.exists, MOMENT_S * moment())
    if mark.exists():
        served = run_longpole("server", "--port", "0", "--no-otlp", "--data-dir", str(back))
        assert served.returncode == 1, served.stdout
        assert "longpole restore again" in served.stderr
        done = run_longpole(*words)
        assert done.returncode == 0, done.stderr
    assert count_stored_rows(back) == before
    assert count_stored_rows(data) == before


def send_run(server: ServerProcess) -> None:
    start_s = (time.time_ns() - T0_NS) // 10**9 - 500.0
    for step in range(1, STEPS + 1):
        at_s = start_s + 10.0 * step
        spans = [stage("gen", step, at_s, at_s + 6.0), loop(step, at_s, at_s + 10.0)]
        assert server.send("traces", traces((process(RUN_ID), spans))).status_code == 200
    server.wait_for(f"/runs/{RUN_ID}/steps", lambda page: len(page["steps"]) == STEPS)


def test_an_export_or_import_that_was_killed_is_repeated_without_doubles(
    start_server: StartServer, tmp_path: Path, seed: int
):
    moment = random.Random(seed).random
    server = start_server(tmp_path, "--no-agent")
    send_run(server)
    target, partial = tmp_path / "run", tmp_path / "run.partial"

    def export() -> list[str]:
        return ["export", RUN_ID, "--to", str(target), "--server", server.url]

    kill_amid(export(), tmp_path / "out", partial.exists, MOMENT_S * moment())
    # Once more, with its server killed amid it.
    shutil.rmtree(target, ignore_errors=True)
    command = start_longpole(*export(), log=tmp_path / "out")
    wait_until(lambda: partial.exists() or command.poll() is not None)
    time.sleep(MOMENT_S * moment())
    server.kill()
    command.wait()
    server = start_server(tmp_path, "--no-agent")
    if not target.exists():
        done = run_longpole(*export())
        assert done.returncode == 0, done.stderr

    def bring() -> list[str]:
        return ["import", str(target), "--run", "again", "--server", server.url]

    def has_begun() -> bool:
        return "again" in server.client.get("/api/v1/runs").text

    kill_amid(bring(), tmp_path / "out", has_begun, MOMENT_S * moment())
    command = start_longpole(*bring(), log=tmp_path / "out")
    with contextlib.suppress(subprocess.TimeoutExpired):
        command.wait(2.0 * moment())
    server.kill()
    command.wait()
    server = start_server(tmp_path, "--no-agent")
    done = run_longpole(*bring())
    assert done.returncode == 0, done.stderr
    server.wait_for("/runs/again/steps", lambda page: len(page["steps"]) == STEPS)
    server.kill()
    counted = count_stored_rows(server.data_dir)
    assert (counted["run_starts"], counted["steps"]) == (2, 2 * STEPS)
    # Raw spans belong to the run that they name, and were there.
    assert (counted["stage_spans"], counted["otel_traces"]) == (4 * STEPS, 2 * STEPS)
