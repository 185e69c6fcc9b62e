import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from longpole_server.cli.children import Child, supervise

# Writes a line when it starts; ends at SIGTERM with another line.
POLITE = """
import signal, sys, time
file = open(sys.argv[1], "a", buffering=1)
def stop(*_):
    file.write("stopped\\n")
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
file.write("started\\n")
while True:
    time.sleep(0.01)
"""
FAILING = """
import sys
open(sys.argv[1], "a").write("started\\n")
sys.exit(3)
"""


def make_child(script: str, file: Path, *, restarts: bool = True) -> Child:
    command = (sys.executable, "-c", script, str(file))
    paths = {"PYTHONPATH": os.pathsep.join(sys.path)}
    return Child("child", command, {**os.environ, **paths}, restarts, stop_s=60.0)


async def wait_until(condition: Callable[[], bool]) -> None:
    for _ in range(6_000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("waited in vain")


async def wait_for_text(file: Path, text: str) -> None:
    await wait_until(lambda: file.exists() and text in file.read_text())


async def test_a_child_ends_with_its_block(tmp_path: Path):
    file = tmp_path / "file"
    async with supervise(make_child(POLITE, file)):
        await wait_for_text(file, "started")
    assert file.read_text() == "started\nstopped\n"


async def test_a_child_that_fails_starts_again(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    file = tmp_path / "file"
    async with supervise(make_child(FAILING, file)):
        await wait_for_text(file, "started\nstarted\n")
    assert "child ended with status 3 and starts again" in caplog.text


async def test_a_child_that_should_not_is_not_started_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    file = tmp_path / "file"
    async with supervise(make_child(FAILING, file, restarts=False)):
        await wait_until(lambda: "ended with status 3" in caplog.text)
    assert file.read_text() == "started\n"
