"""A log that grows is a run that is alive, on a real server and across restarts."""

import json
import signal
import subprocess
import sys
from pathlib import Path

from support.agent_waiting import wait_until
from support.server_process import ServerProcess

RUN = "followed/run"


def start(server: ServerProcess, file: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "longpole.cli",
            "import",
            "--follow",
            str(file),
            "--server",
            server.url,
            "--run",
            RUN,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    _, complaints = process.communicate(timeout=60)
    assert (process.returncode, complaints) == (0, b"")


def line(step: int, seconds: float) -> str:
    data = {"timing_s/step": seconds, "timing_s/gen": seconds * 0.75}
    return json.dumps({"step": step, "data": data}) + "\n"


def append(file: Path, *lines: str) -> None:
    with file.open("a") as stream:
        stream.writelines(lines)


def steps_of(server: ServerProcess) -> list[tuple[int, int, float, int]]:
    run = RUN.replace("/", "%2F")
    if server.client.get(f"/api/v1/runs/{run}").status_code != 200:
        return []
    return [
        (step["attempt"], step["step"], step["duration_s"], step["end_ns"])
        for step in server.get(f"/runs/{run}/steps")["steps"]
        if step["duration_s"] is not None
    ]


def test_a_growing_file_is_a_live_run(server: ServerProcess, tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    append(file, line(1, 20.0), line(2, 21.0))
    process = start(server, file)
    try:
        wait_until(lambda: len(steps_of(server)) == 2)
        append(file, line(3, 22.0))
        wait_until(lambda: len(steps_of(server)) == 3)
        run = server.get(f"/runs/{RUN.replace('/', '%2F')}")
        assert (run["state"], run["system"]) == ("live", "verl")
        before = steps_of(server)
        assert [entry[:3] for entry in before] == [(1, 1, 20.0), (1, 2, 21.0), (1, 3, 22.0)]
    finally:
        stop(process)

    append(file, line(4, 23.0))
    process = start(server, file)
    try:
        wait_until(lambda: len(steps_of(server)) == 4)
        # What was there already stands where it stood.
        assert steps_of(server)[:3] == before
        # The training starts again: its file is emptied.
        file.write_text(line(1, 30.0))
        wait_until(lambda: (2, 1, 30.0) in [entry[:3] for entry in steps_of(server)])
    finally:
        stop(process)
