"""What GPUs did: by role in each stage window of a step, and each one over the whole step."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from longpole.conventions.gpus import THROTTLE_REASONS
from longpole.conventions.stages import UNATTRIBUTED
from longpole_server.analysis.intervals import Interval, length, union
from longpole_server.model.facts import GpuFacts, GpuWindow
from longpole_server.model.gpu import GpuHeatmap, RunGpu
from longpole_server.model.step import Step
from longpole_server.read import GpuWork

# Fields of a GPU sample that rules read, in the order of `GpuWindow`.
WINDOW_FIELDS = (
    "utilization_ratio",
    "sm_active_ratio",
    "tensor_active_ratio",
    "power_watts",
    "dram_active_ratio",
)
# SM activity, else NVML's utilisation, from which a sample of a GPU counts as at work.
BUSY_ACTIVITY = 0.10
SLOWDOWN_MASK = sum(THROTTLE_REASONS)


def average_windows(step: Step, heatmaps: Mapping[str, GpuHeatmap]) -> tuple[GpuWindow, ...]:
    """Average GPU fields over each stage's windows, apart by role.

    Args:
        step: Its stages' windows say when, and what they leave open is `unattributed`; stages
            without windows have none.
        heatmaps: By field of `WINDOW_FIELDS`, all over the same lanes and bins.
    """
    first = next(iter(heatmaps.values()), None)
    if first is None or not first.lanes:
        return ()
    roles = np.array([lane.role for lane in first.lanes])
    return tuple(
        GpuWindow(
            stage=name,
            role=str(role),
            gpu_count=int(np.count_nonzero(roles == role)),
            seconds=length(windows) / 1e9,
            **{
                field: _mean(heatmap.values[roles == role][:, _bins(windows, heatmap)])
                for field, heatmap in heatmaps.items()
            },
        )
        for name, windows in windows_of(step).items()
        for role in sorted(set(roles.tolist()))
    )


def describe_gpus(lanes: Sequence[RunGpu], work: Iterable[GpuWork]) -> tuple[GpuFacts, ...]:
    """Return every GPU that was held, with what it did where it sent samples."""
    known = {each.gpu_uuid: each for each in work}
    return tuple(_describe(lane, known.get(lane.gpu_uuid)) for lane in lanes)


def _describe(lane: RunGpu, work: GpuWork | None) -> GpuFacts:
    if work is None:
        return GpuFacts(lane.gpu_uuid, lane.host, lane.gpu_index, lane.role)
    reasons = tuple(name for bit, name in THROTTLE_REASONS.items() if work.reasons & bit)
    return GpuFacts(
        lane.gpu_uuid,
        lane.host,
        lane.gpu_index,
        lane.role,
        busy_s=work.busy_s,
        idle_s=work.idle_s,
        busy_sm_clock_hz=work.busy_sm_clock_hz,
        throttled_ratio=work.slow_ratio,
        throttle_reasons=reasons,
        reported_to_ns=work.reported_to_ns,
        busy_power_watts=work.busy_power_watts,
    )


def windows_of(step: Step) -> dict[str, list[Interval]]:
    """Return when each stage ran, and when none did, where there are any windows."""
    windows = {stage.stage: union(stage.windows) for stage in step.stages if stage.windows}
    if windows and step.end_ns is not None:
        covered = union(interval for intervals in windows.values() for interval in intervals)
        free = _between(covered, step.start_ns, step.end_ns)
        if free:
            windows[UNATTRIBUTED] = free
    return windows


def _between(covered: Sequence[Interval], start_ns: int, end_ns: int) -> list[Interval]:
    edges = [start_ns, *(edge for interval in covered for edge in interval), end_ns]
    pairs = zip(edges[::2], edges[1::2], strict=True)
    return [(begin, end) for begin, end in pairs if end > begin]


def _bins(windows: Sequence[Interval], heatmap: GpuHeatmap) -> NDArray[np.intp]:
    """Return the bins that have their middle inside one of the windows."""
    count = heatmap.values.shape[1]
    # In time since the first bin begins: exact in floats.
    first_ns = heatmap.start_ns
    middles = (np.arange(count, dtype=np.float64) + 0.5) * heatmap.bin_ns
    inside = np.zeros(count, dtype=np.bool_)
    for start_ns, end_ns in windows:
        inside |= (middles >= start_ns - first_ns) & (middles < end_ns - first_ns)
    return np.flatnonzero(inside)


def _mean(values: NDArray[np.float32]) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.mean()) if known.size else None
