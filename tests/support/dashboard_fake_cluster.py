"""A pretend cluster: the nodes of the runs, spare ones, a throttled GPU and a silent node."""

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from longpole_server.model.cluster import GpuMinute, GpuState, NodeNow
from longpole_server.model.gpu import GpuNow, RunGpu
from longpole_server.model.storage import StorageReport, TableSize
from support.dashboard_workload import PlannedStep, RunSpec, S, make_gpus, make_heatmap

GIB = 1 << 30
THERMAL = 0x40
SILENT_NODE = "node-e1"
_SILENT_S = 420


def make_node_gpus(spec: RunSpec, steps: list[PlannedStep], now_ns: int) -> list[GpuState]:
    """Return the GPUs that a run holds; the fourth of its first node is too hot."""
    centres = now_ns - np.arange(60, dtype=np.int64)[::-1] * S
    fields = {
        name: make_heatmap(spec, steps, name, centres, now_ns)
        for name in ("utilization_ratio", "sm_active_ratio", "tensor_active_ratio", "power_watts")
    }
    states = list[GpuState]()
    for row, gpu in enumerate(make_gpus(spec)):
        is_hot = gpu.gpu_index == 3 and gpu.host == spec.hosts[0]
        newest = {name: _known(values[row]) for name, values in fields.items()}
        now = GpuNow(
            utilization_ratio=None,
            sm_active_ratio=None,
            tensor_active_ratio=None,
            power_watts=None,
            host=gpu.host,
            gpu_uuid=gpu.gpu_uuid,
            gpu_index=gpu.gpu_index,
            model=gpu.model,
            ts_ns=now_ns - S // 2,
            memory_used_bytes=int((62 + gpu.gpu_index) * GIB),
            memory_total_bytes=80 * GIB,
            temperature_celsius=88.0 if is_hot else 52.0 + gpu.gpu_index,
            run_id=spec.run_id,
            role=gpu.role,
            how="estimated" if spec.mode == "fully_async" else "pid",
        )
        now = replace(now, **newest)
        mean = fmean(filter(math.isfinite, fields["utilization_ratio"][row].tolist()))
        minute = GpuMinute(
            gpu.host, gpu.gpu_uuid, 60, mean, 0.7 if is_hot else 0.0, THERMAL if is_hot else 0
        )
        states.append(GpuState(now, minute))
    return states


def _known(values: NDArray[np.float32]) -> float | None:
    newest = values.tolist()[-1]
    return newest if math.isfinite(newest) else None


def make_storage(now_ns: int) -> StorageReport:
    """Return the sizes of a store after a day."""
    day_ns = 86_400 * S
    return StorageReport(
        "/var/lib/longpole/store",
        600 * GIB,
        (
            TableSize("gpu_samples", 88_473_600, 2_744 << 20, now_ns - day_ns, now_ns, 14 * 86_400),
            TableSize("otel_traces", 10_000_000, 429 << 20, now_ns - day_ns, now_ns, 30 * 86_400),
            TableSize("steps", 10_000, 4 << 20, now_ns - day_ns, now_ns, None),
            TableSize("schema_migrations", 9, 1_300, None, None, None),
            TableSize("alert_events", 0, 0, None, None, None),
        ),
    )


def add_spare_nodes(states: Sequence[GpuState], count: int, now_ns: int) -> list[GpuState]:
    """Return the GPUs with those of nodes that no run uses, the first of them silent."""
    found = list(states)
    for number in range(count):
        host = SILENT_NODE if number == 0 else f"node-f{number}"
        silent_s = _SILENT_S if number == 0 else 0.5
        for index in range(8):
            now = GpuNow(
                host=host,
                gpu_uuid=f"GPU-{host}-{index}",
                gpu_index=index,
                model="NVIDIA H100 80GB HBM3",
                ts_ns=now_ns - int(silent_s * S),
                utilization_ratio=0.0,
                memory_used_bytes=GIB // 2,
                memory_total_bytes=80 * GIB,
                sm_active_ratio=0.0,
                tensor_active_ratio=0.0,
                power_watts=71.0 + index,
                temperature_celsius=31.0,
                run_id=None,
                role=None,
            )
            minute = GpuMinute(host, now.gpu_uuid, 60, 0.0, 0.0, 0)
            found.append(GpuState(now, minute if number else None))
    return found


def make_nodes(states: Sequence[GpuState], now_ns: int) -> tuple[NodeNow, ...]:
    """Return the nodes of some GPUs."""
    seen = {state.now.host: state.now.ts_ns for state in states}
    return tuple(
        NodeNow(
            host,
            seen_ns,
            0.21 + 0.01 * index,
            412 * GIB,
            2048 * GIB,
            1.1e9,
            0.9e9,
            spool_used_ratio=0.01,
            agent_dropped_total=0,
            clock_offset_s=0.0,
        )
        for index, (host, seen_ns) in enumerate(sorted(seen.items()))
    )


def make_lanes(states: Sequence[GpuState]) -> tuple[RunGpu, ...]:
    """Return GPUs as lanes of a heat-map."""
    return tuple(
        RunGpu(
            run_id=state.now.run_id or "",
            attempt=0,
            host=state.now.host,
            gpu_uuid=state.now.gpu_uuid,
            gpu_index=state.now.gpu_index,
            role=state.now.role or "",
            since_ns=0,
            until_ns=None,
            how=state.now.how or "estimated",
            model=state.now.model,
        )
        for state in states
    )
