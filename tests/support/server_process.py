"""The real server in its own process, on free ports."""

import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx

from support.agent_waiting import wait_until

# Only a server that never gets there takes so long.
_ANSWER_S = 300.0


class ServerProcess:
    """`longpole up`, or another command that serves, on free ports.

    Args:
        directory: For its data, ports file and log; give the same one to start it again.
        arguments: More options.
        environment: Added to this process's environment.
        command: `up` or `server`.
    """

    def __init__(
        self,
        directory: Path,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        command: str = "up",
    ) -> None:
        directory.mkdir(exist_ok=True)
        self._ports_file = directory / "ports.json"
        self._ports_file.unlink(missing_ok=True)
        self._log = directory / "log"
        self.data_dir = directory / "data"
        self.process = start_longpole(
            command, "--port", "0", "--data-dir", str(self.data_dir),
            "--otlp-http-port", "0", "--otlp-grpc-port", "0",
            "--ports-file", str(self._ports_file), *arguments,
            environment=environment, log=self._log,
        )  # fmt: skip
        # How long it takes says nothing on a machine that is busy with other tests: it listens or
        # ends, and only its test has a limit of time.
        wait_until(lambda: self._ports_file.exists() or self.process.poll() is not None, math.inf)
        if self.process.poll() is not None:
            raise AssertionError(self.log)
        self.ports: dict[str, int] = json.loads(self._ports_file.read_text())
        self.url = f"http://127.0.0.1:{self.ports['http']}"
        self.client = httpx.Client(base_url=self.url, timeout=60.0)

    @property
    def log(self) -> str:
        return self._log.read_text()

    def get(self, path: str) -> Any:
        """Return the JSON at a path of the API."""
        answer = self.client.get(f"/api/v1{path}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def send(
        self, signal_name: str, body: bytes, headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        """Send an OTLP request in protobuf."""
        return self.client.post(
            f"/v1/{signal_name}",
            content=body,
            headers={"content-type": "application/x-protobuf", **(headers or {})},
        )

    def wait_for(self, path: str, condition: Callable[[Any], bool]) -> Any:
        """Return the JSON at a path once it satisfies a condition."""
        newest: list[Any] = []

        def holds() -> bool:
            answer = self.client.get(f"/api/v1{path}")
            newest[:] = [answer.json()]
            return answer.status_code == 200 and condition(newest[0])

        wait_until(holds, _ANSWER_S)
        return newest[0]

    def interrupt(self) -> int:
        """Press Ctrl-C and return the exit status."""
        self.client.close()
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(timeout=60)

    def kill(self) -> None:
        """Kill it as the kernel would; one that has ended stays as it is."""
        self.client.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


# Starts a server as `ServerProcess` does, and cleans up behind a test that fails.
StartServer = Callable[..., ServerProcess]


def start_longpole(
    *words: str, log: Path, environment: Mapping[str, str] | None = None
) -> "subprocess.Popen[str]":
    """Start a command with its output in a file."""
    with log.open("a") as stream:
        return subprocess.Popen(
            [sys.executable, "-m", "longpole.cli", *words],
            stdout=stream,
            stderr=stream,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **(environment or {})},
        )


def run_longpole(
    *words: str, environment: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end, for which only its test has a limit of time.

    A machine that is busy with other tests takes minutes for what takes it seconds.
    """
    return subprocess.run(
        [sys.executable, "-m", "longpole.cli", *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **(environment or {})},
    )
