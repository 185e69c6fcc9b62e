"""A planned run as the facts that diagnosis judges: no clock, no sockets, no store.

What a live run would send as spans, scalars, samples, GPU and engine series is put together here
from the plan, in the units and with the windows that the service uses.
"""

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from longpole.conventions import stages
from longpole_server.analysis.ledger import assemble_step
from longpole_server.model.facts import (
    EngineWindow,
    GpuFacts,
    GpuWindow,
    RunFacts,
    StepFacts,
    StepInputs,
    SyncPhaseFacts,
    TrajectoryFacts,
)
from longpole_server.model.records import StageSpan
from longpole_server.model.step import StageTime
from longpole_sim.cluster import GPU_MODEL, Gpu, Replica
from longpole_sim.engine_series import DEFAULT_CAPACITY, kv_leaked, kv_pool
from longpole_sim.gpu_timeline import make_timeline
from longpole_sim.levels import REASON_THERMAL
from longpole_sim.plan import PartPlan, StepPlan, TrajectoryPlan
from longpole_sim.rollout import PREEMPTED
from longpole_sim.run_identity import SYSTEM, SYSTEM_VERSION, describe_config
from longpole_sim.workload import Run

NS = 1_000_000_000
# Any wall clock will do; this one is in 2025.
ORIGIN_NS = 1_750_000_000 * NS
_BUSY_RATIO = 0.05
_THERMAL = "hw_thermal_slowdown"
_LEVELS = (
    "utilization_ratio",
    "sm_active_ratio",
    "tensor_active_ratio",
    "power_watts",
    "dram_active_ratio",
)
Window = tuple[float, float]


def make_run_facts(run: Run, run_id: str = "run") -> RunFacts:
    """Return what a run says about itself."""
    scenario = run.scenario
    config = {name: str(value) for name, value in describe_config(run).items()}
    # Nothing about a simulation may help to judge it.
    for name in ("scenario", "simulated", "seed", "speed"):
        config.pop(name, None)
    model = run.reported_model
    return RunFacts(
        run_id=run_id,
        name=run_id,
        system=SYSTEM,
        system_version=SYSTEM_VERSION,
        algorithm=scenario.algorithm,
        mode=scenario.mode,
        gpu_count=run.cluster.gpu_count,
        gpu_model=GPU_MODEL,
        model_config=model.huggingface_config() if scenario.tells_model else None,
        response_length_cap=scenario.response.cap,
        config=config,
        model_name=model.name if scenario.tells_model else None,
        staleness_bound=scenario.staleness_bound,
        staleness_basis=None if scenario.staleness_bound is None else "versions",
    )


def make_step_facts(
    run: Run, plan: StepPlan, facts: RunFacts, scalars: Mapping[str, float]
) -> StepFacts:
    """Return everything that a run with all sources reports of a step."""
    step = assemble_step(
        StepInputs(
            facts,
            plan.attempt,
            plan.step,
            make_spans(run, plan),
            scalars,
            scalars_ns=at_ns(plan, plan.duration_s),
            successor_start_ns=at_ns(plan, plan.next_s),
            sequence_lengths=plan.sequence_lengths,
            response_lengths=[item.output_tokens for item in plan.trajectories],
        )
    )
    lanes = _lanes(run, plan)
    return StepFacts(
        step,
        scalars,
        make_samples(plan),
        _gpu_windows(plan, lanes, step.stages),
        make_engine_windows(run, plan),
        make_sync_phases(plan),
        _gpu_facts(run, plan, lanes),
    )


def make_log_facts(plan: StepPlan, scalars: Mapping[str, float], facts: RunFacts) -> StepFacts:
    """Return what an imported log says of a step: its scalars, without times of day."""
    step = assemble_step(
        StepInputs(
            facts,
            plan.attempt,
            plan.step,
            (),
            scalars,
            scalars_ns=at_ns(plan, plan.duration_s),
        )
    )
    return StepFacts(step, scalars)


def at_ns(plan: StepPlan, seconds: float) -> int:
    """Return the time of day of a second of a step."""
    return ORIGIN_NS + round((plan.start_s + seconds) * NS)


def make_spans(run: Run, plan: StepPlan) -> list[StageSpan]:
    """Return the controller's spans of a step, and those of the rollout where it is apart."""
    windows: list[tuple[str, float, float, str | None, str | None, int | None]] = [
        ("step", 0.0, plan.duration_s, None, None, None)
    ]
    for stage in plan.stages + plan.between:
        windows.append(
            (stage.stage, stage.start_s, stage.end_s, None, stage.method, stage.num_bytes)
        )
        windows += [
            (stage.stage, phase.start_s, phase.end_s, phase.phase, None, None)
            for phase in stage.phases
        ]
    spans = [
        StageSpan(
            run_id="run",
            attempt=plan.attempt,
            step=plan.step,
            stage=stage,
            name=stage,
            start_ns=at_ns(plan, start_s),
            end_ns=at_ns(plan, end_s),
            trace_id=f"trace-{plan.attempt}-{plan.step}",
            span_id=f"{plan.step}.{index}",
            parent_span_id=f"{plan.step}.0" if index else "",
            role="controller",
            host=run.cluster.host_name(0),
            pid=100,
            is_loop=index == 0,
            sync_phase=phase,
            sync_method=method,
            sync_bytes=num_bytes,
            tokens_total=sum(plan.sequence_lengths) if index == 0 else None,
        )
        for index, (stage, start_s, end_s, phase, method, num_bytes) in enumerate(windows)
    ]
    if run.scenario.separate_pools and plan.rollout_window is not None:
        spans.append(_rollout_span(run, plan, plan.rollout_window))
    return spans


def _rollout_span(run: Run, plan: StepPlan, window: Window) -> StageSpan:
    return StageSpan(
        run_id="run",
        attempt=plan.attempt,
        step=plan.step,
        stage=stages.GEN,
        name="rl.sample",
        start_ns=at_ns(plan, window[0]),
        end_ns=at_ns(plan, window[1]),
        trace_id=f"rollout-{plan.attempt}-{plan.step}",
        span_id=f"{plan.step}.rollout",
        role="rollout",
        host=run.cluster.host_name(run.cluster.nodes - 1),
        pid=200,
    )


def make_samples(plan: StepPlan) -> TrajectoryFacts:
    """Return the training samples as columns."""
    items = plan.trajectories
    return TrajectoryFacts(
        start_ns=[at_ns(plan, item.start_s) for item in items],
        end_ns=[at_ns(plan, item.end_s) for item in items],
        durations_s=[item.duration_s for item in items],
        generate_s=[item.seconds("generate") for item in items],
        tool_s=[item.seconds("tool") for item in items],
        score_s=[item.seconds("score") for item in items],
        queue_s=[item.seconds("queue") for item in items],
        output_tokens=[item.output_tokens for item in items],
        preemptions=[item.preemptions for item in items],
        statuses=[item.status for item in items],
        replicas=[item.replica for item in items],
        paused_s=[item.paused_s for item in items],
        input_tokens=[item.input_tokens for item in items],
        turns=[item.turns for item in items],
        group_ids=[item.group_id for item in items],
        rewards=[item.reward for item in items],
        policy_versions_start=[item.policy_version for item in items],
        policy_versions_end=[
            item.policy_version if item.policy_version_end is None else item.policy_version_end
            for item in items
        ],
        tools=[_main_tool(item) for item in items],
    )


def _main_tool(item: TrajectoryPlan) -> str | None:
    names = [part.name for part in item.parts if part.kind == "tool"]
    return names[0] if names else None


def make_sync_phases(plan: StepPlan) -> tuple[SyncPhaseFacts, ...]:
    """Return the phases of the step's weight sync; the bytes belong to the transfer."""
    sync = plan.stage(stages.UPDATE_WEIGHTS)
    if sync is None:
        return ()
    return tuple(
        SyncPhaseFacts(
            phase.phase,
            phase.end_s - phase.start_s,
            sync.method,
            sync.num_bytes if phase.phase == "transfer" else None,
        )
        for phase in sync.phases
    )


# --- GPUs -------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class _Lane:
    """GPUs that show the same over a step."""

    gpus: tuple[Gpu, ...]
    role: str
    starts: NDArray[np.float64]
    ends: NDArray[np.float64]
    # One row per field of `_LEVELS`.
    levels: NDArray[np.float64]
    clocks: NDArray[np.float64]
    throttled: NDArray[np.bool_]

    def weights(self, window: Window) -> NDArray[np.float64]:
        """Return how long each segment lies in a window."""
        overlap = np.minimum(self.ends, window[1]) - np.maximum(self.starts, window[0])
        return np.maximum(overlap, 0.0)


def _lanes(run: Run, plan: StepPlan) -> list[_Lane]:
    timeline = make_timeline(run, plan)
    grouped: dict[int, list[Gpu]] = {}
    for gpu in run.cluster.gpus:
        if gpu not in timeline.lost:
            grouped.setdefault(id(timeline.segments[gpu]), []).append(gpu)
    lanes: list[_Lane] = []
    for gpus in grouped.values():
        segments = timeline.segments[gpus[0]]
        lanes.append(
            _Lane(
                tuple(gpus),
                _role(run, gpus[0]),
                np.array([segment.start_s for segment in segments]),
                np.array([segment.end_s for segment in segments]),
                np.array([[getattr(s.levels, name) for s in segments] for name in _LEVELS]),
                np.array([segment.levels.sm_clock_hz for segment in segments]),
                np.array([bool(s.levels.clocks_event_reasons & REASON_THERMAL) for s in segments]),
            )
        )
    return lanes


def _role(run: Run, gpu: Gpu) -> str:
    if not run.cluster.trainer_gpu_count:
        return "hybrid"
    return "trainer" if gpu in run.cluster.trainer_gpus else "rollout"


def _gpu_windows(
    plan: StepPlan, lanes: Sequence[_Lane], stage_times: Iterable[StageTime]
) -> tuple[GpuWindow, ...]:
    """Return what the GPUs of each role did in each stage window."""
    found: list[GpuWindow] = []
    for stage in stage_times:
        windows = [
            (
                (start_ns - ORIGIN_NS) / NS - plan.start_s,
                (end_ns - ORIGIN_NS) / NS - plan.start_s,
            )
            for start_ns, end_ns in stage.windows
        ]
        seconds = sum(end_s - start_s for start_s, end_s in windows)
        for role in sorted({lane.role for lane in lanes}):
            own = [lane for lane in lanes if lane.role == role]
            count = sum(len(lane.gpus) for lane in own)
            means = _mean_levels(own, windows)
            found.append(GpuWindow(stage.stage, role, count, seconds, **means))
    return tuple(found)


def _mean_levels(lanes: Sequence[_Lane], windows: Sequence[Window]) -> dict[str, float | None]:
    total, weight = np.zeros(len(_LEVELS)), 0.0
    for lane in lanes:
        for window in windows:
            weights = lane.weights(window) * len(lane.gpus)
            total += lane.levels @ weights
            weight += float(weights.sum())
    if weight <= 0:
        return dict.fromkeys(_LEVELS, None)
    return {name: float(value / weight) for name, value in zip(_LEVELS, total, strict=True)}


def _gpu_facts(run: Run, plan: StepPlan, lanes: Sequence[_Lane]) -> tuple[GpuFacts, ...]:
    """Return every GPU of the run over the step; a lost one says when it was heard last."""
    found: dict[Gpu, GpuFacts] = {}
    step = (0.0, plan.duration_s)
    for lane in lanes:
        weights = lane.weights(step)
        busy = weights * (lane.levels[0] >= _BUSY_RATIO)
        busy_s = float(busy.sum())
        throttled = float((busy * lane.throttled).sum() / busy_s) if busy_s else None
        for gpu in lane.gpus:
            found[gpu] = GpuFacts(
                run.cluster.gpu_uuid(gpu),
                run.cluster.host_name(gpu.node),
                gpu.index,
                lane.role,
                busy_s,
                float(weights.sum()) - busy_s,
                float((busy * lane.clocks).sum() / busy_s) if busy_s else None,
                throttled,
                (_THERMAL,) if throttled else (),
                at_ns(plan, plan.duration_s),
            )
    for gpu in run.cluster.gpus:
        if gpu not in found:
            found[gpu] = GpuFacts(
                run.cluster.gpu_uuid(gpu),
                run.cluster.host_name(gpu.node),
                gpu.index,
                _role(run, gpu),
            )
    return tuple(found[gpu] for gpu in run.cluster.gpus)


# --- engines ----------------------------------------------------------------------------------


def make_engine_windows(run: Run, plan: StepPlan) -> tuple[EngineWindow, ...]:
    """Return each replica's engine over gen; over the whole step where it has its own GPUs."""
    if run.scenario.separate_pools:
        window, items = (0.0, plan.duration_s), plan.rollout
    else:
        gen = plan.stage(stages.GEN)
        if gen is None:
            return ()
        window, items = (gen.start_s, gen.end_s), plan.trajectories
    of_replica: dict[str, list[TrajectoryPlan]] = {}
    for item in items:
        of_replica.setdefault(item.replica, []).append(item)
    return tuple(
        _engine_window(run, plan, replica, of_replica.get(replica.name, []), window)
        for replica in run.cluster.replicas
    )


def _engine_window(
    run: Run, plan: StepPlan, replica: Replica, items: Sequence[TrajectoryPlan], window: Window
) -> EngineWindow:
    seconds = window[1] - window[0]
    parts = [part for item in items for part in item.parts]
    running = _rows([part for part in parts if part.kind == "generate"])
    waiting = _rows([part for part in parts if part.kind == "queue"])
    times = np.linspace(*window, 64)
    kv_mean, kv_max = _kv_usage(run, plan, replica, running, window, times)
    overlap = _overlaps(running, window)
    share = np.divide(
        overlap, running[:, 1] - running[:, 0], out=np.zeros(len(running)), where=overlap > 0
    )
    preempted = sum(
        part.name == "preempted" and window[0] <= part.start_s < window[1] for part in parts
    )
    begun = [item for item in items if window[0] <= item.start_s < window[1]]
    prompt_tokens = sum(item.input_tokens for item in begun)
    cached_tokens = sum(item.cached_tokens for item in begun)
    cap = run.scenario.max_running
    idle_s = _idle(np.concatenate([running, waiting]), window)
    return EngineWindow(
        replica=replica.name,
        seconds=seconds,
        kv_usage_mean_ratio=kv_mean,
        kv_usage_max_ratio=kv_max,
        running_mean=float(overlap.sum()) / seconds,
        running_max=_most(running, times),
        waiting_mean=float(_overlaps(waiting, window).sum()) / seconds,
        waiting_max=_most(waiting, times),
        preemptions=float(preempted),
        generated_tokens=float((share * running[:, 2]).sum()),
        prompt_tokens=float(prompt_tokens),
        prefix_hit_ratio=cached_tokens / prompt_tokens if prompt_tokens else None,
        idle_s=idle_s,
        capacity=float(cap * len(replica.gpus) if cap is not None else DEFAULT_CAPACITY),
        recomputed_tokens=_recomputed_tokens(parts),
        prefill_ratio=_prefill_ratio(run, replica, begun, seconds - idle_s),
        kv_usage_idle_ratio=kv_leaked(run.scenario, plan.step) if idle_s > 0 else None,
    )


def _recomputed_tokens(parts: Sequence[PartPlan]) -> float:
    """Return the tokens that were in the cache when their sample was thrown out of it."""
    lost = 0.0
    for before, part in itertools.pairwise(parts):
        if part.name == PREEMPTED:
            lost += before.kv_tokens + before.tokens
    return lost


def _prefill_ratio(
    run: Run, replica: Replica, begun: Sequence[TrajectoryPlan], busy_s: float
) -> float | None:
    """Return the part of the engine's work in which it read prompts."""
    if busy_s <= 0:
        return None
    unread = sum(item.input_tokens - item.cached_tokens for item in begun)
    return min(1.0, unread / (run.scenario.prefill_tokens_per_s * len(replica.gpus)) / busy_s)


def _rows(parts: Sequence[PartPlan]) -> NDArray[np.float64]:
    """Return (start, end, tokens, tokens in the cache at the start) of each part."""
    rows = np.zeros((len(parts), 4))
    for row, part in enumerate(parts):
        rows[row] = part.start_s, part.end_s, part.tokens, part.kv_tokens
    return rows


def _overlaps(rows: NDArray[np.float64], window: Window) -> NDArray[np.float64]:
    return np.maximum(np.minimum(rows[:, 1], window[1]) - np.maximum(rows[:, 0], window[0]), 0.0)


def _most(rows: NDArray[np.float64], times: NDArray[np.float64]) -> float:
    inside = (rows[:, 0][:, None] <= times) & (times < rows[:, 1][:, None])
    return float(inside.sum(axis=0).max(initial=0))


def _kv_usage(
    run: Run,
    plan: StepPlan,
    replica: Replica,
    rows: NDArray[np.float64],
    window: Window,
    times: NDArray[np.float64],
) -> tuple[float, float]:
    """Return mean and largest use of the KV cache, with what a leak keeps."""
    length = np.maximum(rows[:, 1] - rows[:, 0], 1e-9)[:, None]
    done = (times - rows[:, 0][:, None]) / length
    inside = (done >= 0) & (done < 1)
    used = np.where(inside, rows[:, 3][:, None] + rows[:, 2][:, None] * done, 0.0).sum(axis=0)
    largest = float(used.max(initial=0.0))
    pool = kv_pool(run.scenario, replica, largest)
    leaked = kv_leaked(run.scenario, plan.step)
    return (
        min(1.0, float(used.mean()) / pool + leaked),
        min(1.0, largest / pool + leaked),
    )


def _idle(rows: NDArray[np.float64], window: Window) -> float:
    """Return seconds of a window that no row covers."""
    covered, last = 0.0, window[0]
    for row in rows[np.argsort(rows[:, 0])]:
        start, end = max(float(row[0]), last), min(float(row[1]), window[1])
        if end > start:
            covered += end - start
            last = end
    return window[1] - window[0] - covered
