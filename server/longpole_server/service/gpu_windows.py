"""What the GPUs of each role did in each stage window of a step."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from longpole_server.model.facts import GpuWindow
from longpole_server.model.gpu import GpuHeatmap
from longpole_server.model.step import StageTime, Step

# Fields of a GPU sample that rules read, in the order of `GpuWindow`.
WINDOW_FIELDS = ("utilization_ratio", "sm_active_ratio", "tensor_active_ratio", "power_watts")


def average_windows(step: Step, heatmaps: Mapping[str, GpuHeatmap]) -> tuple[GpuWindow, ...]:
    """Average GPU fields over each stage's windows, apart by role.

    Args:
        step: Its stages' windows say when; stages without windows have none.
        heatmaps: By field of `WINDOW_FIELDS`, all over the same lanes and bins.
    """
    first = next(iter(heatmaps.values()), None)
    if first is None or not first.lanes:
        return ()
    roles = np.array([lane.role for lane in first.lanes])
    return tuple(
        GpuWindow(
            stage=stage.stage,
            role=str(role),
            gpu_count=int(np.count_nonzero(roles == role)),
            seconds=sum(end_ns - start_ns for start_ns, end_ns in stage.windows) / 1e9,
            **{
                field: _mean(heatmap.values[roles == role][:, _bins(stage, heatmap)])
                for field, heatmap in heatmaps.items()
            },
        )
        for stage in step.stages
        if stage.windows
        for role in sorted(set(roles.tolist()))
    )


def _bins(stage: StageTime, heatmap: GpuHeatmap) -> list[int]:
    """Return the bins that have their middle inside a window of the stage."""
    first_ns = heatmap.start_ns + heatmap.bin_ns / 2
    return [
        index
        for index in range(heatmap.values.shape[1])
        if any(
            start_ns <= first_ns + index * heatmap.bin_ns < end_ns
            for start_ns, end_ns in stage.windows
        )
    ]


def _mean(values: NDArray[np.float32]) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.mean()) if known.size else None
