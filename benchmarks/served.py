"""A server in a process of its own, and what it used: for benchmarks of the whole path."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

START_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Served:
    """A running server.

    Attributes:
        http: Address of UI, API and OTLP/HTTP.
        grpc: Address of OTLP/gRPC.
    """

    process: psutil.Process
    http: str
    grpc: str

    def cpu_s(self) -> float:
        """Return the seconds of CPU it used, all threads."""
        times = self.process.cpu_times()
        return times.user + times.system

    def resident_mib(self) -> float:
        """Return the memory it holds."""
        return self.process.memory_info().rss / (1 << 20)

    def ask(self, sql: str) -> str:
        """Return the answer to a query through its door for people's own SQL."""
        request = urllib.request.Request(f"{self.http}/clickhouse/", sql.encode())
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.read().decode().strip()

    def count(self, table: str) -> int:
        """Return how many rows of a table can be queried."""
        return int(self.ask(f"SELECT count() FROM {table}"))

    def read_metric(self, name: str) -> float:
        """Return one of its own numbers."""
        with urllib.request.urlopen(f"{self.http}/metrics", timeout=60) as answer:
            for line in answer.read().decode().splitlines():
                if line.startswith(f"{name} "):
                    return float(line.split()[1])
        return 0.0

    def wait_until_stored(self, table: str, rows: int, timeout_s: float = 120.0) -> None:
        """Wait until a table has so many rows.

        Each look is work of the server that is measured, and counting a large table is a lot of it:
        it is asked only when nothing waits to be stored.
        """
        deadline_s = time.monotonic() + timeout_s
        while self.read_metric("longpole_ingest_pending_requests") or self.count(table) < rows:
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"{table} has {self.count(table)} rows instead of {rows}")
            time.sleep(0.25)


@contextmanager
def open_server(directory: Path, *options: str) -> Generator[Served]:
    """Start `longpole server` on free ports of loopback, and end it after use."""
    ports_file = directory / "ports.json"
    with run_program(
        ["server", "--port", "0", "--otlp-http-port", "0", "--otlp-grpc-port", "0"],
        ["--data-dir", str(directory / "data"), "--ports-file", str(ports_file), *options],
    ) as process:
        ports = wait_for_ports(ports_file, process)
        yield Served(
            process, f"http://127.0.0.1:{ports['http']}", f"127.0.0.1:{ports['otlp_grpc']}"
        )


@contextmanager
def run_program(*arguments: Sequence[str]) -> Generator[psutil.Process]:
    """Run a command of `longpole`, and end it after use."""
    command = [sys.executable, "-m", "longpole.cli", *(word for part in arguments for word in part)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as program:
        try:
            yield psutil.Process(program.pid)
        finally:
            program.send_signal(signal.SIGINT)
            try:
                program.wait(30)
            except subprocess.TimeoutExpired:
                program.kill()


def wait_for_ports(path: Path, process: psutil.Process) -> dict[str, int]:
    """Return what a program wrote into its ports file, once it listens."""
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while not path.exists() or not path.read_text():
        if not process.is_running() or time.monotonic() > deadline_s:
            raise RuntimeError(f"{process.cmdline()} does not listen")
        time.sleep(0.05)
    return json.loads(path.read_text())


def describe_machine() -> str:
    """Return the machine and the versions that a result belongs to."""
    import chdb
    import pyarrow as pa

    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        "unknown processor",
    )
    load = os.getloadavg()[0]
    return (
        f"{model}, {os.cpu_count()} cores, Python {sys.version.split()[0]}, "
        f"chDB {chdb.__version__}, Arrow {pa.__version__}; load {load:.1f} at the start"
    )
