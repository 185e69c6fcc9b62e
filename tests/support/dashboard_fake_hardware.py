"""Pretend paces, energy and memory: one capped GPU, one slow replica, one process that leaks."""

from collections.abc import Sequence

import numpy as np

from longpole_server.analysis.stragglers import stand_gpus, stand_replicas
from longpole_server.model.cluster import ProcessMemory
from longpole_server.model.energy import RunEnergy, StepEnergy
from longpole_server.model.gpu import GpuHeatmap, RunGpu
from longpole_server.model.step import StageEnergy, Step
from longpole_server.model.stragglers import (
    GpuScore,
    ReplicaScore,
    RunStragglers,
    Stragglers,
)
from support.dashboard_workload import RunSpec, S, make_gpus

GIB = 1 << 30
_WATTS, _CAPPED = 540.0, 3


def make_stragglers(spec: RunSpec) -> Stragglers:
    """Return the paces of a step; the fourth GPU of the first node is too hot."""
    gpus = [_score(gpu, row, spec.hosts[0]) for row, gpu in enumerate(make_gpus(spec))]
    gpus.sort(key=lambda score: score.of_best_ratio or 0.0)
    replicas = (
        ReplicaScore("replica-2", 64, 0.021, 0.62, 1.58, is_straggler=True),
        ReplicaScore("replica-0", 64, 0.0136, 0.956, 1.01, is_straggler=False),
        ReplicaScore("replica-1", 64, 0.013, 1.0, 0.99, is_straggler=False),
    )
    return Stragglers(tuple(gpus), replicas if spec.has_trajectories else ())


def _score(gpu: RunGpu, rank: int, hot_host: str) -> GpuScore:
    is_hot = gpu.gpu_index == _CAPPED and gpu.host == hot_host
    hz = 1.21e9 if is_hot else 1.98e9 - 4e6 * gpu.gpu_index
    return GpuScore(
        gpu.gpu_uuid, gpu.host, gpu.gpu_index, gpu.role, hz, hz / 1.98e9,
        0.7 if is_hot else 0.0, ("hardware thermal",) if is_hot else (), is_hot,
        385.0 if is_hot else 660.0, rank,
    )  # fmt: skip


def make_run_stragglers(spec: RunSpec, steps: Sequence[Step]) -> RunStragglers:
    """Return the same over the last steps."""
    closed = [step.step for step in steps if step.closed_by is not None][-20:]
    if not closed:
        return RunStragglers()
    scored = [make_stragglers(spec)] * len(closed)
    ranks = {score.gpu_uuid: score.rank for score in scored[0].gpus if score.rank is not None}
    return RunStragglers(
        closed[0], closed[-1], len(closed), stand_gpus(scored, ranks), stand_replicas(scored)
    )


def make_stage_energy(spec: RunSpec, step: Step) -> tuple[StageEnergy, ...]:
    """Return the energy of a step by stage; nothing without GPUs."""
    count = len(make_gpus(spec))
    if not count:
        return ()
    return tuple(
        StageEnergy(
            stage.stage, "hybrid", count,
            stage.exclusive_s * count * _WATTS * (1.2 if stage.stage == "update_actor" else 0.9),
            is_estimated=spec.mode == "fully_async",
        )
        for stage in step.stages
    )  # fmt: skip


def make_run_energy(spec: RunSpec, steps: Sequence[Step]) -> RunEnergy:
    """Return the energy of closed steps."""
    found = [_step_energy(spec, step) for step in steps if step.end_ns is not None]
    total = sum(each.energy_joules or 0.0 for each in found)
    seconds = sum(each.duration_s for each in found) * len(make_gpus(spec))
    return RunEnergy(spec.run_id, total or None, seconds, tuple(found))


def _step_energy(spec: RunSpec, step: Step) -> StepEnergy:
    stages = make_stage_energy(spec, step)
    total = sum(each.energy_joules or 0.0 for each in stages) or None
    return StepEnergy(
        step=step.step,
        attempt=step.attempt,
        start_ns=step.start_ns,
        end_ns=step.end_ns or step.start_ns,
        duration_s=step.duration_s or 0.0,
        gpu_count=len(make_gpus(spec)),
        tokens_total=step.tokens_total,
        energy_joules=total,
        joules_per_token=total / step.tokens_total if total and step.tokens_total else None,
        is_estimated=any(each.is_estimated for each in stages),
        stages=stages,
    )


def make_gpu_series(
    host: str, gpu_uuid: str, start_ns: int, end_ns: int, max_bins: int
) -> dict[str, GpuHeatmap]:
    """Return waves of clock, power and heat; a gap in the middle; no activity counters."""
    bin_ns = max(S, -(-(end_ns - start_ns) // max_bins))
    bins = max(1, -(-(end_ns - start_ns) // bin_ns))
    wave = (np.sin(np.arange(bins) / 9.0) + 1.0) / 2.0
    wave[bins // 2 : bins // 2 + max(1, bins // 20)] = np.nan
    lane = RunGpu("", 0, host, gpu_uuid, 0, "", 0, None, "estimated")
    values = {
        "utilization_ratio": wave,
        "sm_active_ratio": np.full(bins, np.nan),
        "sm_clock_hz": 1.2e9 + 0.78e9 * wave,
        "power_watts": 120.0 + 540.0 * wave,
        "temperature_celsius": 41.0 + 30.0 * wave,
        "memory_used_bytes": (40.0 + 20.0 * wave) * GIB,
    }
    return {
        name: GpuHeatmap(name, (lane,), start_ns, bin_ns, row[np.newaxis].astype(np.float32))
        for name, row in values.items()
    }


def make_processes(
    hosts: Sequence[str], start_ns: int, end_ns: int, limit: int
) -> list[ProcessMemory]:
    """Return workers of each node; the first of each leaks."""
    found: list[ProcessMemory] = []
    for number, host in enumerate(hosts):
        for index in range(3):
            grown = (6 * GIB if index == 0 else GIB // 9) // (number + 1)
            first = (40 + 3 * index) * GIB
            points = tuple(
                (start_ns + (end_ns - start_ns) * at // 23, first + grown * at // 23)
                for at in range(24)
            )
            title = ("ray::WorkerDict.actor_rollout_update_actor", "ray::AgentLoopWorker",
                     "ray::vLLMHttpServer.generate")[index]  # fmt: skip
            found.append(
                ProcessMemory(
                    host, 4000 + index, title, "ray/session_1/01000000", start_ns, end_ns - S,
                    first, first + grown, first + grown, points,
                )
            )  # fmt: skip
    found.sort(key=lambda process: -process.grown_bytes)
    return found[:limit]
