"""Runs a simulated training from start to end: nodes, trainer, and what happens between."""

import contextlib
import http.client
import json
import multiprocessing
import os
import signal
import tempfile
import time
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path

from longpole_sim.nodes import AgentSettings, NodeAddress, NodeError, Nodes, agent_environment
from longpole_sim.run_identity import RunIdentity
from longpole_sim.trainer import (
    CRASH_STATUS,
    StepFinished,
    StopTrainer,
    TrainerFinished,
    TrainerReady,
    TrainerSettings,
    run_trainer,
)
from longpole_sim.workload import RESTART_S, Run, first_step_of_attempt

_CHECK_SECONDS = 1.0
_STOP_SECONDS = 60.0
_PROBE_SECONDS = 5.0
_SHARES_SHOWN = 3


class DemoError(Exception):
    """The demo cannot go on. The text is for people."""


@dataclass(frozen=True, slots=True)
class DemoSettings:
    """What to simulate and where to send it.

    Attributes:
        server: Address of the server, without a path.
        public_url: The same for people; None: they use that one.
        last_step: None runs until stopped.
        ready_file: Written once the first step is about to start: JSON with run_id, url, pid.
    """

    run: Run
    run_id: str
    project: str
    server: str
    last_step: int | None = None
    token_file: Path | None = None
    ready_file: Path | None = None
    public_url: str | None = None

    @property
    def url(self) -> str:
        """The run's page."""
        return f"{self.public_url or self.server}/run?id={urllib.parse.quote(self.run_id, safe='')}"


class StopSignal:
    """SIGINT and SIGTERM, as something to wait for. The second one ends the process at once."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        self.requested = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._handle)

    def fileno(self) -> int:
        """Return what `multiprocessing.connection.wait` waits on."""
        return self._read

    def sleep(self, seconds: float) -> None:
        """Sleep, shorter when a signal comes."""
        wait([self._read], seconds)

    def _handle(self, number: int, _frame: object) -> None:
        if self.requested:
            os._exit(128 + number)
        self.requested = True
        os.write(self._write, b"!")


def run_demo(settings: DemoSettings, say: Callable[[str], None]) -> None:
    """Simulate until the last step or a signal; nothing it started is left behind.

    Args:
        settings: What to simulate.
        say: Shows a line to a person.

    Raises:
        DemoError: The server cannot be reached, or a part of the demo failed.
    """
    probe_server(settings.server)
    stop = StopSignal()
    with (
        tempfile.TemporaryDirectory(prefix="longpole-demo-") as folder,
        Nodes(settings.run.cluster, Path(folder)) as nodes,
    ):
        agents = AgentSettings(settings.server, settings.token_file, agent_environment(os.environ))
        try:
            addresses = nodes.start(agents, lambda: stop.requested)
            if addresses is not None:
                say(f"run {settings.run_id}: {settings.url}")
                _run_attempts(settings, nodes, addresses, stop, say)
        except NodeError as error:
            raise DemoError(str(error)) from error


def probe_server(server: str) -> None:
    """Raise `DemoError` unless an HTTP server answers at that address."""
    address = urllib.parse.urlsplit(server)
    secure = address.scheme == "https"
    kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    try:
        connection = kind(address.hostname or "", address.port, timeout=_PROBE_SECONDS)
        with contextlib.closing(connection):
            connection.request("GET", "/api/v1/health")
            connection.getresponse().read()
    except (OSError, http.client.HTTPException) as error:
        raise DemoError(f"no server answers at {server} ({error})") from error


def _run_attempts(
    settings: DemoSettings,
    nodes: Nodes,
    addresses: tuple[NodeAddress, ...],
    stop: StopSignal,
    say: Callable[[str], None],
) -> None:
    attempt = 1
    while _run_attempt(settings, nodes, addresses, attempt, stop, say) == CRASH_STATUS:
        attempt += 1
        first = first_step_of_attempt(settings.run.scenario, attempt)
        say(f"the trainer crashed; attempt {attempt} resumes with step {first}")
        nodes.show_empty()
        stop.sleep(RESTART_S / settings.run.speed)
        if stop.requested:
            return


def _run_attempt(
    settings: DemoSettings,
    nodes: Nodes,
    addresses: tuple[NodeAddress, ...],
    attempt: int,
    stop: StopSignal,
    say: Callable[[str], None],
) -> int:
    """Run one trainer process to its end and return its exit status."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    identity = RunIdentity(settings.run, settings.run_id, settings.project, attempt)
    process = context.Process(
        target=run_trainer,
        args=(TrainerSettings(identity, addresses, settings.last_step), theirs, os.getpid()),
        name="trainer",
    )
    process.start()
    theirs.close()
    with ours:
        try:
            _follow(settings, nodes, ours, stop, say)
        finally:
            _finish(process, ours, say)
    status = process.exitcode or 0
    if status not in {0, CRASH_STATUS}:
        raise DemoError(f"the simulated trainer ended with status {status}")
    return status


def _follow(
    settings: DemoSettings,
    nodes: Nodes,
    trainer: Connection,
    stop: StopSignal,
    say: Callable[[str], None],
) -> None:
    """Show what the trainer reports until it ends or a signal comes."""
    while not stop.requested:
        nodes.check()
        if trainer not in wait([trainer, stop.fileno()], _CHECK_SECONDS):
            continue
        try:
            message = trainer.recv()
        except (EOFError, ConnectionError):
            return
        if isinstance(message, TrainerReady):
            _write_ready_file(settings)
        elif isinstance(message, StepFinished):
            say(describe_step(message))
        elif isinstance(message, TrainerFinished):
            _tell_dropped(message, say)
            return


def _finish(process: SpawnProcess, trainer: Connection, say: Callable[[str], None]) -> None:
    """Ask the trainer to end, and see to it that it does."""
    with contextlib.suppress(OSError):
        trainer.send(StopTrainer())
    process.join(_STOP_SECONDS)
    if process.is_alive():
        process.kill()
        process.join()
    with contextlib.suppress(EOFError, OSError):
        while trainer.poll():
            message = trainer.recv()
            if isinstance(message, TrainerFinished):
                _tell_dropped(message, say)


def _tell_dropped(finished: TrainerFinished, say: Callable[[str], None]) -> None:
    if finished.num_dropped:
        say(f"{finished.num_dropped} records of the controller did not reach its agent")


def describe_step(finished: StepFinished) -> str:
    """Return one line about a finished step: its seconds and its largest stages."""
    total_s = finished.seconds["step"]
    stages = {name: value for name, value in finished.seconds.items() if name != "step"}
    largest = sorted(stages, key=lambda name: stages[name], reverse=True)[:_SHARES_SHOWN]
    shares = "  ".join(f"{name} {stages[name] / total_s:.0%}" for name in largest)
    return (
        f"step {finished.step:>4}  {total_s:6.2f} s  {shares}  "
        f"{finished.throughput:,.0f} tokens/s/GPU"
    )


def _write_ready_file(settings: DemoSettings) -> None:
    if settings.ready_file is None:
        return
    ready = {"run_id": settings.run_id, "url": settings.url, "pid": os.getpid()}
    partial = settings.ready_file.with_suffix(".partial")
    partial.write_text(json.dumps(ready), encoding="utf-8")
    partial.replace(settings.ready_file)


def default_run_id(scenario: str) -> str:
    """Return a run id that no other demo has: scenario, time, and a few random letters."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    return f"demo-{scenario}-{stamp}-{os.urandom(2).hex()}"
