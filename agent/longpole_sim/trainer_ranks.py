"""The processes that hold the trainer's GPUs, where it has GPUs of its own: one on each node.

They report the training stages as each rank sees them, beside the controller's.
"""

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess

import longpole
from longpole.conventions.stages import GEN
from longpole_sim.nodes import NodeAddress
from longpole_sim.run_identity import SYSTEM, RunIdentity
from longpole_sim.tether import tie_to_parent

_FLUSH_SECONDS = 10.0
_STOP_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Enter:
    """The rank enters a stage."""

    stage: str
    step: int


@dataclass(frozen=True, slots=True)
class Leave:
    """The rank leaves the stage that it is in."""


@dataclass(frozen=True, slots=True)
class StopRank:
    """Send what is left and end."""


class TrainerRanks:
    """The ranks of all nodes that only train, as the controller sees them; none elsewhere."""

    def __init__(self, identity: RunIdentity, addresses: Sequence[NodeAddress]) -> None:
        cluster = identity.run.cluster
        held: set[int] = set()
        if cluster.trainer_gpu_count:
            held = {gpu.node for gpu in cluster.trainer_gpus}
        context = multiprocessing.get_context("spawn")
        self._nodes: list[int] = []
        self._connections: list[Connection] = []
        self._processes: list[SpawnProcess] = []
        for address in addresses:
            if address.node not in held:
                continue
            ours, theirs = context.Pipe()
            process = context.Process(
                target=run_trainer_rank,
                args=(identity, address, theirs, os.getpid()),
                name=f"trainer-{address.node}",
            )
            process.start()
            theirs.close()
            self._nodes.append(address.node)
            self._connections.append(ours)
            self._processes.append(process)
        for connection in self._connections:
            connection.recv()

    @property
    def pids(self) -> dict[int, int]:
        """Process ids by node."""
        pids = (process.pid or 0 for process in self._processes)
        return dict(zip(self._nodes, pids, strict=True))

    @contextlib.contextmanager
    def at(self, stage: str, step: int) -> Generator[None]:
        """Let all ranks be in a training stage for as long as this lasts."""
        if stage == GEN:
            yield
            return
        self._tell(Enter(stage, step))
        try:
            yield
        finally:
            self._tell(Leave())

    def stop(self) -> None:
        """Let the ranks send what they hold, and end them."""
        self._tell(StopRank())
        for process in self._processes:
            process.join(_STOP_SECONDS)
            if process.is_alive():
                process.kill()
                process.join()

    def _tell(self, message: Enter | Leave | StopRank) -> None:
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.send(message)


def run_trainer_rank(
    identity: RunIdentity, address: NodeAddress, connection: Connection, parent_pid: int
) -> None:
    """Run one rank until it is told to stop."""
    # Ctrl-C reaches every process of a terminal; the trainer says when to end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    tie_to_parent(parent_pid)
    cluster = identity.run.cluster
    longpole.init(
        identity.run_id,
        identity.project,
        system=SYSTEM,
        role="trainer",
        attempt=identity.attempt,
        gpu_ids=[cluster.gpu_uuid(gpu) for gpu in cluster.trainer_gpus if gpu.node == address.node],
        endpoint=address.endpoint,
        instance=f"trainer-{address.node}",
        host=address.host,
    )
    connection.send(True)
    try:
        _report(connection)
    except EOFError:
        # The controller died; a rank whose group is gone dies with it.
        os._exit(1)
    longpole.shutdown(timeout_s=_FLUSH_SECONDS)


def _report(connection: Connection) -> None:
    """Be in the stages that the controller names, until told to stop.

    Raises:
        EOFError: The controller is gone.
    """
    with contextlib.ExitStack() as windows:
        while True:
            message = connection.recv()
            if isinstance(message, StopRank):
                windows.pop_all()
                return
            windows.close()
            if isinstance(message, Enter):
                windows.enter_context(longpole.stage(message.stage, step=message.step))
