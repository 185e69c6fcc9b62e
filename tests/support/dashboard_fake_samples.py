"""Parts of pretend samples, and metrics of pretend steps."""

from collections.abc import Sequence

import numpy as np

from longpole_server.model.gpu import RunGpu
from longpole_server.model.trajectory import Trajectory, TrajectoryPart
from support.dashboard_workload import PlannedStep, RunSpec, S


def make_parts(trajectory: Trajectory) -> tuple[TrajectoryPart, ...]:
    """Return where the time of a sample went, in order."""
    turns = trajectory.turns or 1
    clock = trajectory.start_ns
    parts = list[TrajectoryPart]()

    def add(kind: str, name: str, seconds: float, turn: int | None) -> None:
        nonlocal clock
        end = clock + int(seconds * S)
        tokens = (None, None)
        if kind == "generate":
            output = (trajectory.output_tokens or 0) // turns
            tokens = ((trajectory.input_tokens or 0) + ((turn or 1) - 1) * output, output)
        parts.append(TrajectoryPart(kind, name, clock, end, turn, *tokens))
        if kind == "generate":
            parts.extend(_halve(parts[-1]))
        clock = end

    add("queue", "queue", trajectory.queue_s or 0.0, None)
    for turn in range(1, turns + 1):
        add("generate", "generate", (trajectory.generate_s or 0.0) / turns, turn)
        if turn < turns:
            add("tool", "python", (trajectory.tool_s or 0.0) / (turns - 1), turn)
    add("score", "math_verify", trajectory.score_s or 0.0, None)
    return tuple(parts)


def _halve(part: TrajectoryPart) -> tuple[TrajectoryPart, TrajectoryPart]:
    """Return what the engine did of a part: it reads 50,000 prompt tokens a second."""
    first = min(part.end_ns, part.start_ns + (part.input_tokens or 0) * S // 50_000)
    return (
        TrajectoryPart("prefill", "engine", part.start_ns, first, None, part.input_tokens, None),
        TrajectoryPart("decode", "engine", first, part.end_ns, None, None, part.output_tokens),
    )


def make_replica_gpus(trajectory: Trajectory, lanes: Sequence[RunGpu]) -> tuple[RunGpu, ...]:
    """Return the two GPUs of a sample's replica."""
    return list_replica_gpus(trajectory.replica or "replica-0", lanes)


def list_replica_gpus(replica: str, lanes: Sequence[RunGpu]) -> tuple[RunGpu, ...]:
    """Return the two GPUs of a replica; none of what is no replica of theirs."""
    number = replica.removeprefix("replica-")
    if not number.isdigit():
        return ()
    return tuple(lanes[2 * int(number) : 2 * int(number) + 2])


def make_metric(spec: RunSpec, planned: PlannedStep, name: str) -> float:
    """Return a metric of a step; NaN where the run does not report it."""
    rng = np.random.default_rng((spec.seed, planned.step, len(name)))
    step = planned.step
    levels = {
        "reward_mean": 0.34 + 0.30 * (1 - np.exp(-step / 28)) + rng.normal(0, 0.012),
        "response_length_mean": planned.response_length,
        "kl_ref": 0.002 + 0.00011 * step + abs(rng.normal(0, 0.0003)),
        "entropy": 0.62 * np.exp(-step / 90) + rng.normal(0, 0.008),
        "clip_fraction": 0.11 + 0.02 * np.sin(step / 4) + abs(rng.normal(0, 0.008)),
        "truncated_ratio": 0.02 + 0.001 * step,
        "grad_norm": 0.21 + abs(rng.normal(0, 0.03)),
        "stale_drop_ratio": 0.02,
        "rollout_train_mismatch": 0.012,
        "critic/advantages/std": 0.9 + rng.normal(0, 0.05),
        "staleness_max": spec.staleness if spec.staleness is not None else np.nan,
    }
    return float(levels.get(name, np.nan))
