"""Nothing acknowledged is missing after the process is killed, and nothing is stored twice."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
SEARCH_PATH = os.pathsep.join(str(ROOT / folder) for folder in ("agent", "server", "tests"))


def start_child(directory: Path, first: int, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "support.otlp_crash_child", str(directory), str(first), str(count)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": SEARCH_PATH},
    )


def read_acknowledged(child: subprocess.Popen[str], count: int) -> set[str]:
    """Kill the child once it acknowledged `count` requests; return all it acknowledged."""
    assert child.stdout is not None
    acknowledged = {child.stdout.readline().strip() for _ in range(count)}
    child.send_signal(signal.SIGKILL)
    rest, _ = child.communicate()
    return acknowledged | set(rest.split())


def read_written(directory: Path) -> dict[str, list[str]]:
    """Bodies by token; an insert tried again must hold the same ones."""
    written: dict[str, list[str]] = {}
    for line in (directory / "written").read_text().splitlines():
        insert = json.loads(line)
        assert written.setdefault(insert["token"], insert["bodies"]) == insert["bodies"]
    return written


def test_killed_again_and_again(tmp_path: Path) -> None:
    acknowledged: set[str] = set()
    for index, count in enumerate((1, 7, 40, 150)):
        child = start_child(tmp_path, index * 10_000, 10_000)
        acknowledged |= read_acknowledged(child, count)
    last = start_child(tmp_path, 0, 0)
    last.communicate(timeout=120)
    assert last.returncode == 0

    bodies = [body for batch in read_written(tmp_path).values() for body in batch]
    assert len(acknowledged) >= 198
    assert acknowledged <= set(bodies)
    assert len(bodies) == len(set(bodies))
