"""Points of a GPU, made alike by every source of GPUs."""

from longpole.conventions import attributes as names
from longpole.conventions.gpus import (
    GPU_FAULTS,
    GPU_INDEX,
    GPU_METRICS,
    HW_ID,
    HW_MODEL,
    PROCESS_GPU_MEMORY,
    GpuMetric,
)
from longpole_agent.sources.source import Attributes, Kind, Point

METRIC_OF_COLUMN: dict[str, GpuMetric] = {
    metric.column: metric for metric in (*GPU_METRICS, *GPU_FAULTS)
}
_KIND_OF_COLUMN: dict[str, Kind] = {
    "memory_used_bytes": "total",
    "memory_total_bytes": "total",
    "energy_joules": "counter",
    "ecc_uncorrected_errors": "counter",
}


def name_gpu(uuid: str, index: int, model: str) -> Attributes:
    """Return the attributes that every point of this GPU carries."""
    return ((HW_ID, uuid), (GPU_INDEX, index), (HW_MODEL, model))


def make_point(column: str, value: float, ts_ns: int, gpu: Attributes) -> Point:
    """Return the point of a GPU sample's column (`power_watts`, ...)."""
    metric = METRIC_OF_COLUMN[column]
    kind = _KIND_OF_COLUMN.get(column, "gauge")
    return Point(metric.metric, metric.unit, kind, ts_ns, value, gpu)


def make_process_point(
    pid: int, memory_bytes: int | None, ts_ns: int, gpu: Attributes, owner: Attributes = ()
) -> Point:
    """Return the point that says a process holds memory on a GPU (None: not known how much).

    `owner` names the job and the pod that the process belongs to.
    """
    attributes = (*gpu, (names.PROCESS_PID, pid), *owner)
    return Point(PROCESS_GPU_MEMORY, "By", "total", ts_ns, memory_bytes, attributes)
