"""The nodes of the pretend cluster: one real agent process and one file of GPU levels each."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from longpole_sim.cluster import Cluster
from longpole_sim.gpu_file import GpuFile
from longpole_sim.levels import EMPTY
from longpole_sim.tether import tethered

_START_SECONDS = 60.0
# An agent drains what it holds before it ends; one that cannot is ended for it.
_STOP_SECONDS = 15.0
_POLL_SECONDS = 0.05


class NodeError(Exception):
    """A node's agent did not start, or ended on its own. The text is for people."""


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """What all agents are told.

    Attributes:
        server: Address of the server.
        token_file: None where the server asks for none.
        environment: Of the agents' processes.
    """

    server: str
    token_file: Path | None
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class NodeAddress:
    """What a trainer process on a node needs to know of it."""

    node: int
    host: str
    endpoint: str
    gpu_path: Path


class Node:
    """One node. Its folder holds the agent's data, its log, and the GPU file."""

    def __init__(self, cluster: Cluster, node: int, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.gpu_file = GpuFile(folder / "gpus.json", cluster, node)
        self._cluster = cluster
        self._node = node
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def host(self) -> str:
        """Host name the agent reports."""
        return self._cluster.host_name(self._node)

    def start(self, settings: AgentSettings) -> None:
        """Start the agent without waiting for it."""
        self.show_empty()
        command = [
            *(sys.executable, "-m", "longpole.cli", "agent"),
            *("--server", settings.server),
            *("--otlp-http-port", "0", "--otlp-grpc-port", "0"),
            *("--ports-file", str(self._ports_path)),
            *("--host-name", self.host),
            *("--simulated-gpus", str(self.gpu_file.path), "--no-nvml"),
            *("--data-dir", str(self._folder / "agent")),
        ]
        if settings.token_file is not None:
            command += ["--token-file", str(settings.token_file)]
        with self._log_path.open("wb") as log:
            # In a session of its own: Ctrl-C in a terminal must not end the agents before the
            # trainer has sent its last data.
            self._process = subprocess.Popen(  # noqa: S603 - our own command line
                tethered(command),
                env=dict(settings.environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def address(self) -> NodeAddress | None:
        """Return where the agent listens, None until it does.

        Raises:
            NodeError: It has ended instead.
        """
        self.check()
        try:
            ports = json.loads(self._ports_path.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return None
        endpoint = f"http://127.0.0.1:{int(ports['http'])}"
        return NodeAddress(self._node, self.host, endpoint, self.gpu_file.path)

    def check(self) -> None:
        """Raise `NodeError` when the agent has ended."""
        if self._process is not None and self._process.poll() is not None:
            status = self._process.returncode
            raise NodeError(
                f"the agent of {self.host} ended with status {status}{self._last_words()}"
            )

    def show_empty(self) -> None:
        """Let the GPUs look as when nothing runs."""
        levels = dict.fromkeys(range(self._cluster.gpus_per_node), EMPTY)
        self.gpu_file.write(time.monotonic(), "", levels)

    def ask_to_stop(self) -> None:
        """Tell the agent to drain and end."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def wait(self, deadline_s: float) -> None:
        """Wait for the agent's end until `deadline_s` of the monotonic clock, then end it."""
        if self._process is None:
            return
        try:
            self._process.wait(max(0.0, deadline_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    @property
    def _ports_path(self) -> Path:
        return self._folder / "ports.json"

    @property
    def _log_path(self) -> Path:
        return self._folder / "agent.log"

    def _last_words(self) -> str:
        lines = self._log_path.read_text(encoding="utf-8", errors="replace").splitlines()
        said = [line.strip() for line in lines if line.strip()]
        return f": {said[-1]}" if said else ""


class Nodes:
    """All nodes of a cluster; on exit their agents are drained and ended."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._nodes = [Node(cluster, i, folder / f"node-{i}") for i in range(cluster.nodes)]

    def __enter__(self) -> "Nodes":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(
        self, settings: AgentSettings, should_stop: Callable[[], bool]
    ) -> tuple[NodeAddress, ...] | None:
        """Start all agents and return where they listen, None when asked to stop meanwhile.

        Raises:
            NodeError: An agent ended, or does not listen in time.
        """
        for node in self._nodes:
            node.start(settings)
        deadline_s = time.monotonic() + _START_SECONDS
        while not should_stop():
            addresses = [address for node in self._nodes if (address := node.address())]
            if len(addresses) == len(self._nodes):
                return tuple(addresses)
            if time.monotonic() > deadline_s:
                raise NodeError(f"an agent does not listen after {_START_SECONDS:.0f} s")
            time.sleep(_POLL_SECONDS)
        return None

    def check(self) -> None:
        """Raise `NodeError` when an agent has ended."""
        for node in self._nodes:
            node.check()

    def show_empty(self) -> None:
        """Let all GPUs look as when nothing runs."""
        for node in self._nodes:
            node.show_empty()

    def stop(self) -> None:
        """Let the agents drain, then end them."""
        for node in self._nodes:
            node.ask_to_stop()
        deadline_s = time.monotonic() + _STOP_SECONDS
        for node in self._nodes:
            node.wait(deadline_s)


def agent_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the given environment without the settings meant for other programs of ours."""
    kept = ("LONGPOLE_TOKEN", "LONGPOLE_TOKEN_FILE")
    return {
        name: value
        for name, value in environment.items()
        if name in kept or not name.startswith("LONGPOLE_")
    }
