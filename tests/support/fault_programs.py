"""Agent and server as programs that are killed and started again, whatever they are doing."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from support.agent_waiting import wait_until


class Program:
    """A program that writes its ports into a file once it listens.

    Args:
        directory: Its own; data, ports file and log lie in it.
        words: Arguments of Python; `{data}` and `{ports}` stand for its paths.
    """

    def __init__(self, directory: Path, words: Sequence[str]) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.data = directory / "data"
        self._log = directory / "log"
        self._ports_file = directory / "ports.json"
        paths = {"data": str(self.data), "ports": str(self._ports_file)}
        self._words = [word.format(**paths) for word in words]
        self._environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            # A killed writer leaves the file of its last insert in the temporary directory.
            "TMPDIR": str(directory),
        }
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> str:
        return self._log.read_text() if self._log.exists() else ""

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it, and return at once."""
        self._ports_file.unlink(missing_ok=True)
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, *self._words], stdout=log, stderr=log, env=self._environment
            )

    def kill_within(self, seconds: float) -> None:
        """Kill it as the kernel would, after a while."""
        assert self._process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
            raise AssertionError(f"it ended by itself: {self.log}")
        self.kill()

    def kill(self) -> None:
        """Kill it as the kernel would; one that has ended stays as it is."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> int:
        """Ask it to end, and return its exit status."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(timeout=120)

    def wait_for_ports(self) -> dict[str, int]:
        """Return the ports once it listens."""
        wait_until(lambda: self._ports_file.exists() or self._has_ended(), 120.0)
        assert not self._has_ended(), self.log
        return json.loads(self._ports_file.read_text())

    def _has_ended(self) -> bool:
        return self._process is not None and self._process.poll() is not None


def make_server(directory: Path, journal_max_bytes: int = 64 << 20) -> Program:
    """The server's path from receivers to store."""
    words = ("-m", "support.fault_server", "{data}", "{ports}", str(journal_max_bytes))
    return Program(directory, words)


def make_whole_server(directory: Path) -> Program:
    """`longpole server`, which takes longer to start; it keeps rows that are older than it does."""
    kept = ("gpu_samples", "gpu_samples_10s", "gpu_samples_60s", "otel_traces", "host_samples")
    words = (
        "-m", "longpole.cli", "server", "--port", "0", "--data-dir", "{data}",
        "--otlp-http-port", "0", "--otlp-grpc-port", "0", "--ports-file", "{ports}",
        "--retention", ",".join(f"{table}=forever" for table in kept),
    )  # fmt: skip
    return Program(directory, words)


def make_agent(directory: Path, server: str, *arguments: str) -> Program:
    """The real agent, on free ports and without GPUs."""
    words = (
        "-m", "longpole.cli", "agent", "--server", server, "--data-dir", "{data}", "--no-nvml",
        "--otlp-http-port", "0", "--otlp-grpc-port", "0", "--ports-file", "{ports}", *arguments,
    )  # fmt: skip
    return Program(directory, words)
