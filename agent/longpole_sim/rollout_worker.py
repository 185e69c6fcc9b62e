"""The process on each node that holds the GPUs and reports the trajectories it made."""

import contextlib
import math
import multiprocessing
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess

import longpole
from longpole.conventions import attributes as names
from longpole_sim.engine_report import INTERVAL_S, EngineReporter
from longpole_sim.engine_requests import RequestReporter
from longpole_sim.engine_series import EngineMeter
from longpole_sim.nodes import NodeAddress
from longpole_sim.plan import TrajectoryPlan
from longpole_sim.run_identity import SYSTEM, RunIdentity
from longpole_sim.tether import tie_to_parent

_FLUSH_SECONDS = 10.0
_STOP_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Prepare:
    """The trajectories of the next rollout; those that end later than `until_s` end elsewhere."""

    step: int
    trajectories: tuple[TrajectoryPlan, ...]
    until_s: float = math.inf


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
        self._nodes: list[int] = []
        self._connections: list[Connection] = []
        self._processes: list[SpawnProcess] = []
        nodes = {replica.node for replica in identity.run.cluster.replicas}
        for address in addresses:
            if address.node not in nodes:
                continue
            self._nodes.append(address.node)
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
    def pids(self) -> dict[int, int]:
        """Process ids by node."""
        pids = (process.pid or 0 for process in self._processes)
        return dict(zip(self._nodes, pids, strict=True))

    def prepare(
        self, step: int, trajectories: Sequence[TrajectoryPlan], until_s: float = math.inf
    ) -> None:
        """Hand each worker the trajectories of its node."""
        for node, connection in zip(self._nodes, self._connections, strict=True):
            own = tuple(item for item in trajectories if item.node == node)
            connection.send(Prepare(step, own, until_s))

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
    gpus = [gpu for replica in cluster.replicas for gpu in replica.gpus if gpu.node == address.node]
    role = "rollout" if cluster.trainer_gpu_count else "hybrid"
    longpole.init(
        identity.run_id,
        identity.project,
        system=SYSTEM,
        role=role,
        attempt=identity.attempt,
        gpu_ids=[cluster.gpu_uuid(gpu) for gpu in gpus],
        endpoint=address.endpoint,
        instance=f"rollout-{address.node}",
        host=address.host,
    )
    connection.send(Ready())
    try:
        _report(
            connection,
            _make_reporter(identity, address, role),
            _make_request_reporter(identity, address, role),
        )
    except EOFError:
        # The trainer died; a worker whose GPU group is gone dies with it.
        os._exit(1)
    longpole.shutdown(timeout_s=_FLUSH_SECONDS)


def _make_reporter(identity: RunIdentity, address: NodeAddress, role: str) -> EngineReporter:
    run = identity.run
    resource = _describe_engine(identity, address, role, f"rollout-{address.node}")
    meters = {
        replica.name: EngineMeter(run.scenario, replica)
        for replica in run.cluster.replicas
        if replica.node == address.node
    }
    return EngineReporter(address.endpoint, resource, meters, time.time_ns())


def _make_request_reporter(
    identity: RunIdentity, address: NodeAddress, role: str
) -> RequestReporter:
    cluster = identity.run.cluster
    resources = {
        replica.name: {
            **_describe_engine(identity, address, role, replica.name),
            names.GPU_IDS: [cluster.gpu_uuid(gpu) for gpu in replica.gpus],
        }
        for replica in cluster.replicas
        if replica.node == address.node
    }
    return RequestReporter(address.endpoint, resources, identity.run.speed)


def _describe_engine(
    identity: RunIdentity, address: NodeAddress, role: str, instance: str
) -> dict[str, str | int]:
    return {
        names.RUN_ID: identity.run_id,
        names.RUN_ATTEMPT: identity.attempt,
        names.PROJECT: identity.project,
        names.SYSTEM: SYSTEM,
        names.ROLE: role,
        names.SERVICE_NAME: "vllm",
        names.SERVICE_INSTANCE_ID: instance,
        names.HOST_NAME: address.host,
        names.PROCESS_PID: os.getpid(),
    }


def _report(connection: Connection, engines: EngineReporter, requests: RequestReporter) -> None:
    """Report every trajectory when it ends, and the engines every second, until told to stop.

    Requests of the engines go with their numbers, and once more at the end.

    Raises:
        EOFError: The trainer is gone.
    """
    prepared = Prepare(0, ())
    origin_ns = 0
    due: list[TrajectoryPlan] = []
    next_reading_ns = time.time_ns()
    while True:
        wait_s = (next_reading_ns - time.time_ns()) / 1e9
        if due:
            wait_s = min(wait_s, (origin_ns - time.time_ns()) / 1e9 + due[-1].end_s)
        if connection.poll(max(0.0, wait_s)):
            message = connection.recv()
            if isinstance(message, Stop):
                requests.send()
                return
            if isinstance(message, Prepare):
                prepared = message
            elif isinstance(message, Go):
                origin_ns = message.origin_ns
                engines.show(prepared.step, prepared.trajectories, origin_ns)
                due = _due(prepared)
            continue
        now_ns = time.time_ns()
        while due and origin_ns + due[-1].end_s * 1e9 <= now_ns:
            ended = due.pop()
            report_trajectory(ended, origin_ns)
            requests.add(ended, origin_ns)
        if now_ns >= next_reading_ns:
            engines.send(now_ns)
            requests.send()
            next_reading_ns = now_ns + round(INTERVAL_S * 1e9)


def _due(prepared: Prepare) -> list[TrajectoryPlan]:
    """Return the trajectories to report, the next one last."""
    ending = [item for item in prepared.trajectories if 0 < item.end_s <= prepared.until_s]
    return sorted(ending, key=lambda item: item.end_s, reverse=True)


def report_trajectory(plan: TrajectoryPlan, origin_ns: int) -> None:
    """Send one trajectory whose times count from `origin_ns`."""

    def at(second: float) -> int:
        return origin_ns + round(second * 1e9)

    longpole.trajectory(
        plan.trajectory_id,
        start_ns=at(plan.start_s),
        end_ns=at(plan.end_s),
        step=plan.step,
        phase=plan.phase,
        group_id=plan.group_id,
        generate_s=plan.seconds("generate"),
        tool_s=plan.seconds("tool"),
        score_s=plan.seconds("score"),
        queue_s=plan.seconds("queue"),
        paused_s=plan.paused_s,
        input_tokens=plan.input_tokens,
        output_tokens=plan.output_tokens,
        turns=plan.turns,
        preemptions=plan.preemptions,
        status=plan.status,
        reward=plan.reward,
        policy_version_start=plan.policy_version,
        policy_version_end=plan.policy_version
        if plan.policy_version_end is None
        else plan.policy_version_end,
        replica=plan.replica,
        parts=[(part.kind, part.name, at(part.start_s), at(part.end_s)) for part in plan.parts],
    )
