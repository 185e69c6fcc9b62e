"""A believable RL run as pure functions of a seed and a time: steps, samples, GPUs, metrics."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from longpole.conventions import stages
from longpole_server.model.gpu import RunGpu
from longpole_server.model.run import RunState
from longpole_server.model.trajectory import Trajectory

S = 1_000_000_000

SYNC_STAGES = (
    (stages.PREPARE, 0.6),
    (stages.GEN, 58.0),
    (stages.REWARD, 2.1),
    (stages.OLD_LOG_PROB, 6.4),
    (stages.REF, 5.2),
    (stages.ADV, 0.5),
    (stages.UPDATE_ACTOR, 17.5),
    (stages.UPDATE_WEIGHTS, 4.1),
)
ASYNC_STAGES = (
    (stages.TRAINER_WAIT, 14.0),
    (stages.REF, 3.2),
    (stages.UPDATE_ACTOR, 21.0),
    (stages.UPDATE_WEIGHTS, 2.2),
)

# utilisation, SM active, tensor active, DRAM active, power (W) while a GPU works on a stage
_LEVELS = {
    stages.GEN: (0.98, 0.64, 0.14, 0.71, 455.0),
    stages.REWARD: (0.04, 0.02, 0.0, 0.01, 128.0),
    stages.OLD_LOG_PROB: (0.99, 0.83, 0.52, 0.48, 590.0),
    stages.REF: (0.99, 0.82, 0.50, 0.47, 580.0),
    stages.UPDATE_ACTOR: (1.0, 0.86, 0.46, 0.55, 642.0),
    stages.UPDATE_WEIGHTS: (0.62, 0.18, 0.0, 0.24, 240.0),
    stages.TRAINER_WAIT: (0.03, 0.01, 0.0, 0.01, 122.0),
}
_IDLE = (0.02, 0.01, 0.0, 0.01, 118.0)
_FIELDS = (
    "utilization_ratio",
    "sm_active_ratio",
    "tensor_active_ratio",
    "dram_active_ratio",
    "power_watts",
)


@dataclass(frozen=True)
class RunSpec:
    """What distinguishes one pretend run from another."""

    run_id: str
    name: str
    seed: int
    start_ns: int
    stage_seconds: tuple[tuple[str, float], ...] = SYNC_STAGES
    state: RunState = "live"
    algorithm: str = "grpo"
    mode: str = "sync"
    num_steps: int | None = None
    resume_at: int | None = None
    hang_at: tuple[int, str] | None = None
    hosts: tuple[str, ...] = ("node-a1", "node-a2")
    gpus_per_host: int = 8
    gpu_model: str = "NVIDIA H100 80GB HBM3"
    has_gpus: bool = True
    has_trajectories: bool = True
    has_mfu: bool = True
    samples_per_step: int = 256
    staleness: float | None = None
    time_estimated: bool = False
    config: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def gpu_count(self) -> int:
        return len(self.hosts) * self.gpus_per_host


@dataclass(frozen=True)
class PlannedStep:
    """One step as it will have happened; `windows` are (stage, start_ns, end_ns)."""

    step: int
    attempt: int
    start_ns: int
    end_ns: int
    windows: tuple[tuple[str, int, int], ...]
    outside: tuple[tuple[str, int, int], ...]
    tokens: int
    response_length: float

    def window(self, stage: str) -> tuple[int, int] | None:
        return next(((start, end) for name, start, end in self.windows if name == stage), None)


def plan_steps(spec: RunSpec) -> Iterator[PlannedStep]:
    """Yield the steps of a run, for ever or up to its last one."""
    clock = spec.start_ns
    step = 1
    while spec.num_steps is None or step <= spec.num_steps:
        planned = _plan_step(spec, step, clock)
        yield planned
        clock = max([planned.end_ns, *(end for _, _, end in planned.outside)])
        clock += S // 5
        if spec.resume_at == step + 1:
            clock += 240 * S
        step += 1


def _plan_step(spec: RunSpec, step: int, start_ns: int) -> PlannedStep:
    rng = np.random.default_rng((spec.seed, step))
    growth = 1 + 0.004 * min(step, 200)
    clock = start_ns
    windows: list[tuple[str, int, int]] = []
    for stage, seconds in spec.stage_seconds:
        spread = 0.09 if stage in (stages.GEN, stages.TRAINER_WAIT) else 0.03
        factor = rng.normal(1.0, spread) * (growth if stage == stages.GEN else 1.0)
        if step == 1:
            factor *= 1.35
        duration = max(0.1, seconds * factor)
        if spec.hang_at == (step, stage):
            duration = 1e7
        windows.append((stage, clock, clock + int(duration * S)))
        clock = windows[-1][2] + int(rng.uniform(0.1, 0.5) * S)
    end_ns = clock + int(rng.uniform(0.2, 0.9) * S)
    outside: list[tuple[str, int, int]] = []
    if step % 10 == 0:
        outside.append((stages.TESTING, end_ns, end_ns + int(rng.normal(21, 1) * S)))
        outside.append((stages.SAVE_CHECKPOINT, outside[-1][2], outside[-1][2] + 9 * S))
    length = 2100 * growth * rng.normal(1, 0.03)
    tokens = int(spec.samples_per_step * (length + 240))
    attempt = 2 if spec.resume_at is not None and step >= spec.resume_at else 1
    return PlannedStep(
        step, attempt, start_ns, end_ns, tuple(windows), tuple(outside), tokens, length
    )


def make_trajectories(spec: RunSpec, planned: PlannedStep) -> tuple[Trajectory, ...]:
    """Return the samples of a step: most end early, a few make everybody wait."""
    gen = planned.window(stages.GEN)
    if gen is None or not spec.has_trajectories:
        return ()
    count = spec.samples_per_step
    rng = np.random.default_rng((spec.seed, planned.step, 7))
    gen_s = (gen[1] - gen[0]) / S
    raw = rng.lognormal(0, 0.52, count)
    durations = raw / raw.max() * (gen_s - 1.2)
    starts = rng.uniform(0.05, 0.9, count)
    queue = rng.uniform(0.005, 0.05, count) * durations
    turns = rng.integers(1, 4, count)
    tool = np.where(turns > 1, rng.uniform(0.03, 0.12, count) * durations, 0.0)
    score = np.minimum(0.4, durations * 0.02)
    generate = durations - queue - tool - score
    tokens = np.maximum(1, generate * 142 * rng.normal(1, 0.05, count)).astype(int)
    prompts = rng.integers(120, 420, count)
    rewards = rng.random(count) < 0.35 + 0.008 * planned.step
    return tuple(
        Trajectory(
            run_id=spec.run_id,
            attempt=planned.attempt,
            trajectory_id=f"{planned.step:04d}-{i // 8:03d}-{i % 8}",
            step=planned.step,
            phase="train",
            group_id=f"{planned.step:04d}-{i // 8:03d}",
            start_ns=gen[0] + int(starts[i] * S),
            end_ns=gen[0] + int((starts[i] + durations[i]) * S),
            duration_s=float(durations[i]),
            generate_s=float(generate[i]),
            tool_s=float(tool[i]),
            score_s=float(score[i]),
            queue_s=float(queue[i]),
            paused_s=None,
            input_tokens=int(prompts[i]),
            output_tokens=int(tokens[i]),
            turns=int(turns[i]),
            preemptions=0 if i % 37 else 1,
            status="truncated" if tokens[i] >= 7600 else "success",
            reward=float(rewards[i]),
            policy_version_start=planned.step - 1,
            policy_version_end=planned.step - 1,
            replica=f"replica-{i % 4}",
        )
        for i in range(count)
    )


def make_gpus(spec: RunSpec) -> tuple[RunGpu, ...]:
    """Return the GPUs of a run, ordered by host and index."""
    if not spec.has_gpus:
        return ()
    separate = spec.mode != "sync"
    return tuple(
        RunGpu(
            run_id=spec.run_id,
            attempt=1,
            host=host,
            gpu_uuid=f"GPU-{spec.seed:04x}-{host}-{index}",
            gpu_index=index,
            role=("trainer" if position == 0 else "rollout") if separate else "hybrid",
            since_ns=spec.start_ns,
            until_ns=None,
            how="pid",
            model=spec.gpu_model,
        )
        for position, host in enumerate(spec.hosts)
        for index in range(spec.gpus_per_host)
    )


def make_heatmap(
    spec: RunSpec,
    steps: list[PlannedStep],
    field_name: str,
    centres_ns: NDArray[np.int64],
    now_ns: int,
) -> NDArray[np.float32]:
    """Return (lanes, bins) of one GPU field; NaN before the run, after now and for a lost GPU."""
    lanes = spec.gpu_count
    if field_name not in _FIELDS:
        return np.full((lanes, len(centres_ns)), np.nan, dtype=np.float32)
    column = _FIELDS.index(field_name)
    level = np.full(len(centres_ns), _IDLE[column])
    tail = np.ones(len(centres_ns))
    for planned in steps:
        for stage, start, end in planned.windows:
            inside = (centres_ns >= start) & (centres_ns < end)
            level[inside] = _LEVELS.get(stage, _IDLE)[column]
            if stage == stages.GEN and inside.any():
                ends = np.sort([t.end_ns for t in make_trajectories(spec, planned)] or [end])
                running = 1 - np.searchsorted(ends, centres_ns[inside]) / len(ends)
                tail[inside] = np.minimum(0.16 + 0.95 * running, 1.0)
    rng = np.random.default_rng((spec.seed, 99))
    gain = rng.normal(1, 0.02, lanes)[:, None]
    noise = np.random.default_rng((spec.seed, int(centres_ns[0] // S))).normal(
        0, 0.02, (lanes, len(centres_ns))
    )
    weight = tail if column else np.where(tail > 0.2, 1, 0.9)
    values = level * weight * gain * (1 + noise)
    limit = 700.0 if field_name == "power_watts" else 1.0
    values = np.minimum(np.maximum(values, 0.0), limit)
    values[:, (centres_ns < spec.start_ns) | (centres_ns > now_ns)] = np.nan
    return values.astype(np.float32)
