"""What every GPU of the cluster shows over one step."""

import bisect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from longpole.conventions.stages import GEN, SAVE_CHECKPOINT, TESTING, UPDATE_CRITIC, UPDATE_WEIGHTS
from longpole_sim import levels
from longpole_sim.cluster import Gpu, Replica
from longpole_sim.levels import GpuLevels
from longpole_sim.plan import StagePlan, StepPlan, TrajectoryPlan
from longpole_sim.rollout import running_changes
from longpole_sim.samples import slow_replica
from longpole_sim.workload import Run

# Parts into which a rollout is cut; within one, the running sequences are averaged.
_ROLLOUT_PARTS = 48


@dataclass(frozen=True, slots=True)
class Segment:
    """Constant levels from `start_s` to `end_s` of the step."""

    start_s: float
    end_s: float
    levels: GpuLevels


@dataclass(frozen=True, slots=True)
class GpuTimeline:
    """Levels of every GPU over a step and what follows it, without holes, from second 0.

    Attributes:
        lost: GPUs that show nothing any more.
    """

    segments: Mapping[Gpu, Sequence[Segment]]
    stages: Sequence[StagePlan]
    incident_start_s: float = math.inf
    lost: frozenset[Gpu] = frozenset()

    def mean_levels(self, gpu: Gpu, start_s: float, end_s: float) -> GpuLevels:
        """Return a GPU's levels averaged over a window, as sampled counters are.

        After the end of the timeline its last levels go on.
        """
        segments = self.segments[gpu]
        first = max(0, bisect.bisect_right(segments, start_s, key=_start) - 1)
        mean, weight_s = segments[first].levels, 0.0
        for i in range(first, len(segments)):
            segment = segments[i]
            is_last = i == len(segments) - 1
            until_s = end_s if is_last else min(end_s, segment.end_s)
            overlap_s = until_s - max(start_s, segment.start_s)
            if overlap_s > 0:
                weight_s += overlap_s
                mean = mean.blended(segment.levels, overlap_s / weight_s)
            if segment.end_s >= end_s:
                break
        return mean

    def stage_at(self, second: float) -> str:
        """Return the stage that runs at a second of the step, or an empty string."""
        for stage in self.stages:
            if stage.start_s <= second < stage.end_s:
                return stage.stage
        if second >= self.incident_start_s:
            return self.stages[-1].stage
        return ""


def _start(segment: Segment) -> float:
    return segment.start_s


def make_timeline(run: Run, plan: StepPlan) -> GpuTimeline:
    """Return the GPUs' levels for a planned step."""
    stages = [*plan.stages, *plan.between]
    by_gpu: dict[Gpu, Sequence[Segment]] = {}
    for replica in run.cluster.replicas:
        segments = _replica_segments(run, plan, stages, replica)
        by_gpu.update(dict.fromkeys(replica.gpus, segments))
    if run.cluster.trainer_gpu_count:
        segments = _stage_by_stage(run, plan, stages, None)
        by_gpu.update(dict.fromkeys(run.cluster.trainer_gpus, segments))
    _add_fault(run, plan, by_gpu)
    incident_start_s = plan.stages[-1].start_s if plan.incident else math.inf
    return GpuTimeline(by_gpu, stages, incident_start_s, _lost_gpus(run, plan))


def faulty_gpu(run: Run) -> Gpu | None:
    """Return the GPU that is unlike the others, None where all are alike."""
    fault = run.scenario.fault
    return None if fault is None else run.cluster.gpus[fault.index % run.cluster.gpu_count]


def _lost_gpus(run: Run, plan: StepPlan) -> frozenset[Gpu]:
    fault, gpu = run.scenario.fault, faulty_gpu(run)
    if fault is None or gpu is None or fault.kind != "lost" or plan.step < fault.step:
        return frozenset()
    return frozenset({gpu})


def _add_fault(run: Run, plan: StepPlan, by_gpu: dict[Gpu, Sequence[Segment]]) -> None:
    fault, gpu = run.scenario.fault, faulty_gpu(run)
    if fault is None or gpu is None:
        return
    if fault.kind == "idle":
        by_gpu[gpu] = [Segment(0.0, plan.next_s, levels.EMPTY)]
    elif fault.kind == "throttled":
        by_gpu[gpu] = [
            replace(segment, levels=levels.throttled(segment.levels, fault.clock_ratio))
            for segment in by_gpu[gpu]
        ]


def _replica_segments(
    run: Run, plan: StepPlan, stages: Sequence[StagePlan], replica: Replica
) -> list[Segment]:
    if run.scenario.separate_pools:
        whole = StagePlan(GEN, 0.0, plan.next_s)
        return _rollout_segments(run, whole, replica, plan.rollout)
    return _stage_by_stage(run, plan, stages, replica)


def _stage_by_stage(
    run: Run, plan: StepPlan, stages: Sequence[StagePlan], replica: Replica | None
) -> list[Segment]:
    segments: list[Segment] = []
    now_s = 0.0
    for planned in stages:
        # Where two stages overlap, the GPUs are seen in the first until it ends.
        stage = replace(planned, start_s=max(now_s, planned.start_s))
        if stage.start_s > now_s:
            segments.append(Segment(now_s, stage.start_s, levels.waiting("")))
        segments.extend(_stage_segments(run, plan, stage, replica))
        now_s = stage.end_s
    segments.append(Segment(now_s, max(now_s, plan.next_s), _after(plan)))
    return segments


def _after(plan: StepPlan) -> GpuLevels:
    if plan.incident is not None and plan.incident.kind == "hang":
        return levels.hanging(plan.incident.stage)
    return levels.waiting("")


def _stage_segments(
    run: Run, plan: StepPlan, stage: StagePlan, replica: Replica | None
) -> Sequence[Segment]:
    name = stage.stage
    if plan.incident is not None and stage.stage == plan.stages[-1].stage:
        return _incident_segments(plan, stage)
    if name in {GEN, TESTING} and replica is None:
        return [Segment(stage.start_s, stage.end_s, levels.waiting(name))]
    if name == GEN and replica is not None:
        return _rollout_segments(run, stage, replica, plan.trajectories)
    if name == TESTING and replica is not None:
        return _rollout_segments(run, stage, replica, plan.validation)
    if name in levels.FORWARD_STAGES:
        busy = levels.computing(name, plan.stage_mfu["actor_infer"])
        return [Segment(stage.start_s, stage.end_s, busy)]
    if name in levels.UPDATE_STAGES:
        mfu = plan.stage_mfu["critic" if name == UPDATE_CRITIC else "actor"]
        return _update_segments(run, stage, mfu)
    if name == UPDATE_WEIGHTS:
        return _sync_segments(stage)
    if name == SAVE_CHECKPOINT:
        return [Segment(stage.start_s, stage.end_s, levels.saving())]
    return [Segment(stage.start_s, stage.end_s, levels.waiting(name))]


def _incident_segments(plan: StepPlan, stage: StagePlan) -> list[Segment]:
    """The stage runs for a third of its time before it hangs or dies."""
    turn_s = stage.start_s + stage.duration_s / 3.0
    busy = levels.waiting(stage.stage)
    if stage.stage in levels.UPDATE_STAGES:
        busy = levels.computing(stage.stage, plan.stage_mfu["actor"])
    return [
        Segment(stage.start_s, turn_s, busy),
        Segment(turn_s, stage.end_s, levels.hanging(stage.stage)),
    ]


def _rollout_segments(
    run: Run, stage: StagePlan, replica: Replica, trajectories: Sequence[TrajectoryPlan]
) -> list[Segment]:
    own = [item.parts for item in trajectories if item.replica == replica.name]
    is_slow = replica.index == slow_replica(run.cluster)
    throttled = is_slow and run.scenario.slow_replica_speed < 1.0
    width_s = stage.duration_s / _ROLLOUT_PARTS
    busy_s = _running_seconds(stage, running_changes(own), width_s)
    return [
        Segment(
            stage.start_s + part * width_s,
            stage.start_s + (part + 1) * width_s,
            levels.decoding(seconds / width_s / len(replica.gpus), throttled),
        )
        for part, seconds in enumerate(busy_s)
    ]


def _running_seconds(
    stage: StagePlan, changes: Sequence[tuple[float, int]], width_s: float
) -> list[float]:
    """Return sequence-seconds in each part of a rollout.

    On pools of their own, samples may begin before the stage and end after it.
    """
    busy_s = [0.0] * _ROLLOUT_PARTS
    count, now_s, part = 0, stage.start_s, 0
    for when_s, next_count in (*changes, (math.inf, 0)):
        until_s = min(when_s, stage.end_s)
        while part < _ROLLOUT_PARTS and until_s > now_s:
            edge_s = min(until_s, stage.start_s + (part + 1) * width_s)
            busy_s[part] += count * max(0.0, edge_s - now_s)
            now_s = max(now_s, edge_s)
            if edge_s < until_s or edge_s >= stage.start_s + (part + 1) * width_s:
                part += 1
        count = next_count
    return busy_s


def _update_segments(run: Run, stage: StagePlan, mfu: float) -> list[Segment]:
    bubble_ratio = run.scenario.bubble_ratio
    # The stage's MFU includes the bubbles; outside them the kernels do better.
    busy = levels.computing(stage.stage, mfu / (1.0 - bubble_ratio))
    width_s = stage.duration_s / run.scenario.mini_batches
    segments: list[Segment] = []
    for i in range(run.scenario.mini_batches):
        start_s = stage.start_s + i * width_s
        turn_s = start_s + (1.0 - bubble_ratio) * width_s
        segments.append(Segment(start_s, turn_s, busy))
        segments.append(Segment(turn_s, start_s + width_s, levels.bubble(busy)))
    return segments


def _sync_segments(stage: StagePlan) -> list[Segment]:
    idle = levels.waiting(UPDATE_WEIGHTS)
    moving = levels.transferring(stage.method or "nccl")
    return [
        Segment(phase.start_s, phase.end_s, moving if phase.phase == "transfer" else idle)
        for phase in stage.phases
    ]
