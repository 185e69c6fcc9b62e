"""Points of a GPU, made alike by every source of GPUs."""

from longpole.conventions import attributes as names
from longpole.conventions.gpus import (
    GPU_FAULTS,
    GPU_INDEX,
    GPU_METRICS,
    GPU_TRAITS,
    HW_ID,
    HW_MODEL,
    HW_PARENT,
    MIG_PROFILE,
    PROCESS_GPU_MEMORY,
    GpuMetric,
)
from longpole_agent.sources.source import Attributes, Kind, Point

METRIC_OF_COLUMN: dict[str, GpuMetric] = {
    metric.column: metric for metric in (*GPU_METRICS, *GPU_TRAITS, *GPU_FAULTS)
}
_KIND_OF_COLUMN: dict[str, Kind] = {
    "memory_used_bytes": "total",
    "memory_total_bytes": "total",
    "energy_joules": "counter",
    "ecc_uncorrected_errors": "counter",
    "ecc_corrected_errors": "counter",
    "remapped_rows": "counter",
}
# What is counted, not measured.
WHOLE_COLUMNS = frozenset(
    {
        "memory_used_bytes",
        "memory_total_bytes",
        "clocks_event_reasons",
        "xid",
        "ecc_uncorrected_errors",
        "ecc_corrected_errors",
        "remapped_rows",
        "row_remap_pending",
        "row_remap_failed",
    }
)


def name_gpu(uuid: str, index: int, model: str) -> Attributes:
    """Return the attributes that every point of this GPU carries."""
    return ((HW_ID, uuid), (GPU_INDEX, index), (HW_MODEL, model))


def name_mig(uuid: str, index: int, model: str, parent_uuid: str, profile: str) -> Attributes:
    """Return the attributes that every point of a MIG device carries; the index is its GPU's."""
    parts = ((HW_PARENT, parent_uuid), (MIG_PROFILE, profile))
    return (*name_gpu(uuid, index, model), *parts)


def make_point(column: str, value: float, ts_ns: int, gpu: Attributes) -> Point:
    """Return the point of a GPU sample's column (`power_watts`, ...)."""
    metric = METRIC_OF_COLUMN[column]
    kind = _KIND_OF_COLUMN.get(column, "gauge")
    number = int(value) if column in WHOLE_COLUMNS else value
    return Point(metric.metric, metric.unit, kind, ts_ns, number, gpu)


def make_process_point(
    pid: int, memory_bytes: int | None, ts_ns: int, gpu: Attributes, owner: Attributes = ()
) -> Point:
    """Return the point that says a process holds memory on a GPU (None: not known how much).

    `owner` names the job and the pod that the process belongs to.
    """
    attributes = (*gpu, (names.PROCESS_PID, pid), *owner)
    return Point(PROCESS_GPU_MEMORY, "By", "total", ts_ns, memory_bytes, attributes)
