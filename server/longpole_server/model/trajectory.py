"""Trajectories: one sample each, with its own times. Names and units are those of the API."""

from dataclasses import dataclass

from longpole_server.model.gpu import RunGpu


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One sample of one step. Durations in seconds; None is not reported."""

    run_id: str
    attempt: int
    trajectory_id: str
    step: int
    phase: str
    group_id: str | None
    start_ns: int
    end_ns: int
    duration_s: float
    generate_s: float | None
    tool_s: float | None
    score_s: float | None
    queue_s: float | None
    paused_s: float | None
    input_tokens: int | None
    output_tokens: int | None
    turns: int | None
    preemptions: int | None
    status: str | None
    reward: float | None
    policy_version_start: int | None
    policy_version_end: int | None
    replica: str | None


@dataclass(frozen=True, slots=True)
class TrajectoryPart:
    """A window inside a trajectory.

    Attributes:
        kind: `generate`, `tool`, `score` or `queue`; `prefill` and `decode` are the two halves of
            an engine's `generate`, beside it.
    """

    kind: str
    name: str
    start_ns: int
    end_ns: int
    turn: int | None
    input_tokens: int | None
    output_tokens: int | None


@dataclass(frozen=True, slots=True)
class TrajectoryDetail:
    """A trajectory, where its time went, and the other samples of its group.

    Attributes:
        gpus: Those that its replica works on; empty where nothing tells.
        replica_hosts: The nodes of its replica's processes, as far as they are known.
    """

    trajectory: Trajectory
    spans: tuple[TrajectoryPart, ...]
    siblings: tuple[Trajectory, ...]
    gpus: tuple[RunGpu, ...] = ()
    replica_hosts: tuple[str, ...] = ()
