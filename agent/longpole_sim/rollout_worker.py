"""The process on each node that holds the GPUs and reports the trajectories it made."""

import contextlib
import multiprocessing
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess

import longpole
from longpole_sim.nodes import NodeAddress
from longpole_sim.plan import TrajectoryPlan
from longpole_sim.run_identity import SYSTEM, RunIdentity
from longpole_sim.tether import tie_to_parent

_FLUSH_SECONDS = 3.0
_STOP_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Prepare:
    """The trajectories of the next rollout."""

    step: int
    trajectories: tuple[TrajectoryPlan, ...]


@dataclass(frozen=True, slots=True)
class Go:
    """The prepared rollout belongs to a step whose second 0 was at `origin_ns`."""

    origin_ns: int


@dataclass(frozen=True, slots=True)
class Stop:
    """Send what is left and end."""


@dataclass(frozen=True, slots=True)
class Ready:
    """The worker's answer once it can report."""


class RolloutWorkers:
    """The workers of all nodes, as the trainer sees them. They end with it."""

    def __init__(self, identity: RunIdentity, addresses: Sequence[NodeAddress]) -> None:
        context = multiprocessing.get_context("spawn")
        self._connections: list[Connection] = []
        self._processes: list[SpawnProcess] = []
        for address in addresses:
            ours, theirs = context.Pipe()
            process = context.Process(
                target=run_rollout_worker,
                args=(identity, address, theirs, os.getpid()),
                name=f"rollout-{address.node}",
            )
            process.start()
            theirs.close()
            self._connections.append(ours)
            self._processes.append(process)
        for connection in self._connections:
            connection.recv()

    @property
    def pids(self) -> list[int]:
        """Process ids in the order of the nodes."""
        return [process.pid or 0 for process in self._processes]

    def prepare(self, step: int, trajectories: Sequence[TrajectoryPlan]) -> None:
        """Hand each worker the trajectories of its node."""
        for node, connection in enumerate(self._connections):
            own = tuple(item for item in trajectories if item.node == node)
            connection.send(Prepare(step, own))

    def go(self, origin_ns: int) -> None:
        """Start the prepared rollout."""
        for connection in self._connections:
            connection.send(Go(origin_ns))

    def stop(self) -> None:
        """Let the workers send what they hold, and end them."""
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.send(Stop())
        deadline_s = time.monotonic() + _STOP_SECONDS
        for process in self._processes:
            process.join(max(0.0, deadline_s - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()


def run_rollout_worker(
    identity: RunIdentity, address: NodeAddress, connection: Connection, parent_pid: int
) -> None:
    """Run one worker until it is told to stop."""
    # Ctrl-C reaches every process of a terminal; the trainer says when to end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    tie_to_parent(parent_pid)
    cluster = identity.run.cluster
    longpole.init(
        identity.run_id,
        identity.project,
        system=SYSTEM,
        role="hybrid",
        attempt=identity.attempt,
        gpu_ids=cluster.node_gpu_uuids(address.node),
        endpoint=address.endpoint,
        instance=f"rollout-{address.node}",
        host=address.host,
    )
    connection.send(Ready())
    try:
        _report(connection)
    except EOFError:
        # The trainer died; a worker whose GPU group is gone dies with it.
        os._exit(1)
    longpole.shutdown(timeout_s=_FLUSH_SECONDS)


def _report(connection: Connection) -> None:
    """Report every trajectory when it ends, until told to stop.

    Raises:
        EOFError: The trainer is gone.
    """
    prepared = Prepare(0, ())
    origin_ns = 0
    due: list[TrajectoryPlan] = []
    while True:
        wait_s = None
        if due:
            wait_s = max(0.0, (origin_ns - time.time_ns()) / 1e9 + due[-1].end_s)
        if connection.poll(wait_s):
            message = connection.recv()
            if isinstance(message, Stop):
                return
            if isinstance(message, Prepare):
                prepared = message
            elif isinstance(message, Go):
                origin_ns = message.origin_ns
                due = sorted(prepared.trajectories, key=lambda item: item.end_s, reverse=True)
        elif due:
            report_trajectory(prepared.step, due.pop(), origin_ns)


def report_trajectory(step: int, plan: TrajectoryPlan, origin_ns: int) -> None:
    """Send one trajectory whose step began at `origin_ns`."""

    def at(second: float) -> int:
        return origin_ns + round(second * 1e9)

    longpole.trajectory(
        plan.trajectory_id,
        start_ns=at(plan.start_s),
        end_ns=at(plan.end_s),
        step=step,
        phase=plan.phase,
        group_id=plan.group_id,
        generate_s=plan.seconds("generate"),
        tool_s=plan.seconds("tool"),
        score_s=plan.seconds("score"),
        queue_s=plan.seconds("queue"),
        input_tokens=plan.input_tokens,
        output_tokens=plan.output_tokens,
        turns=plan.turns,
        preemptions=plan.preemptions,
        status=plan.status,
        reward=plan.reward,
        policy_version_start=plan.policy_version,
        policy_version_end=plan.policy_version,
        replica=plan.replica,
        parts=[(part.kind, part.name, at(part.start_s), at(part.end_s)) for part in plan.parts],
    )
