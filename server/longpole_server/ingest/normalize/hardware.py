"""Points about GPUs and hosts, one row per entity and time. They know nothing of runs."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, NumberDataPoint

from longpole.conventions import attributes as names
from longpole.conventions import gpus
from longpole_server.ingest.normalize.attributes import (
    Values,
    get_int,
    get_text,
    read_attributes,
)
from longpole_server.ingest.normalize.points import NumberPoint, read_moment, read_number
from longpole_server.ingest.normalize.sender import Sender, read_owner
from longpole_server.ingest.normalize.spans import get_iteration
from longpole_server.model.records import (
    GpuAllocation,
    GpuProcess,
    GpuSample,
    HostProcess,
    HostSample,
    Records,
)

_PREFIXES = (
    "hw.",
    "system.",
    gpus.PROCESS_GPU_MEMORY,
    gpus.PROCESS_PRIVATE_MEMORY,
    gpus.AGENT_PREFIX,
    "ray.object_store.",
    gpus.RAY_WORKERS_KILLED,
)
_INTEGER_COLUMNS = frozenset(
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
        "agent_dropped_total",
        "cpu_count",
        "object_store_used_bytes",
        "object_store_total_bytes",
        "object_store_fallback_bytes",
        "object_store_spilled_bytes",
        "spilled_bytes_total",
        "restored_bytes_total",
        "workers_killed_total",
    }
)
_UNKNOWN_INDEX = -1
_GPU = "gpu"
# Points that say which part of a whole they count; only the whole, or what is used, is kept.
_PART_LABELS = frozenset(
    {"cpu.mode", "cpu.logical_number", "state", "system.memory.state", "hw.gpu.task"}
)
_WHOLE_PARTS = frozenset({"used", "general"})
_MAX_TITLE_CHARS = 128
_DIRECTION_LABELS = ("network.io.direction", "disk.io.direction", "direction")
_DEVICE_LABELS = ("network.interface.name", "system.device", gpus.HW_ID)
_RATE_UNIT = "By/s"
_NS_PER_S = 1e9
_MAX_COUNTERS = 65_536

_HOST_COLUMNS = {
    gpus.HOST_CPU_UTILIZATION: "cpu_utilization_ratio",
    gpus.HOST_MEMORY_USAGE: "memory_used_bytes",
    gpus.HOST_MEMORY_LIMIT: "memory_total_bytes",
    gpus.AGENT_SPOOL_UTILIZATION: "spool_used_ratio",
    gpus.AGENT_DISK_UTILIZATION: "disk_used_ratio",
    gpus.AGENT_DROPPED: "agent_dropped_total",
    gpus.HOST_CPU_COUNT: "cpu_count",
    gpus.RAY_STORE_USED: "object_store_used_bytes",
    gpus.RAY_STORE_LIMIT: "object_store_total_bytes",
    gpus.RAY_STORE_FALLBACK: "object_store_fallback_bytes",
    gpus.RAY_STORE_SPILLED: "object_store_spilled_bytes",
    gpus.RAY_SPILL_WRITTEN: "spilled_bytes_total",
    gpus.RAY_SPILL_RESTORED: "restored_bytes_total",
    gpus.RAY_WORKERS_KILLED: "workers_killed_total",
    gpus.AGENT_CLOCK_OFFSET: "clock_offset_s",
}
# Counters by direction, stored as rates.
_RATE_COLUMNS = {
    gpus.HOST_NETWORK_IO: {
        "receive": "network_receive_bytes_per_s",
        "transmit": "network_transmit_bytes_per_s",
    },
    gpus.FABRIC_IO: {
        "receive": "fabric_receive_bytes_per_s",
        "transmit": "fabric_transmit_bytes_per_s",
    },
    gpus.HOST_DISK_IO: {"read": "disk_read_bytes_per_s", "write": "disk_write_bytes_per_s"},
}


def is_hardware(name: str) -> bool:
    """Tell whether a metric is about a GPU or a host."""
    return name.startswith(_PREFIXES)


class NetworkRates:
    """Rates from counters that only grow: bytes per second since the point before."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str, str], tuple[int, float]] = {}

    def measure(self, key: tuple[str, str, str], ts_ns: int, total: float) -> float | None:
        """Return the rate, None for the first point, after a restart and out of order."""
        before = self._last.get(key)
        if before is not None and ts_ns <= before[0]:
            return None
        self._last.pop(key, None)
        if len(self._last) >= _MAX_COUNTERS:
            del self._last[next(iter(self._last))]
        self._last[key] = (ts_ns, total)
        if before is None or total < before[1]:
            return None
        return (total - before[1]) / ((ts_ns - before[0]) / _NS_PER_S)


class GpuLabels(NamedTuple):
    """Which GPU a point is about. Without a `uuid` it means nothing here."""

    attributes: Sequence[KeyValue]
    host: str
    uuid: str | None
    gpu_index: int
    model: str
    parent_uuid: str
    mig_profile: str


class LabelReader:
    """Reads which GPUs points are about.

    The GPUs of a node come with every metric in the same order and with the same labels: those are
    read once.
    """

    def __init__(self) -> None:
        self._known: list[GpuLabels] = []

    def read(self, place: int, point: NumberDataPoint, sender: Sender) -> GpuLabels:
        """Return the labels of the point at a place of its metric; a metric's come in order."""
        known = self._known[place] if place < len(self._known) else None
        if known is None or known.attributes != point.attributes:
            known = _read_labels(point, sender)
            self._known[place : place + 1] = [known]
        return known


class HardwarePivot:
    """Collects the points of one request into one record per entity and time.

    Args:
        rates: Remembers network counters between requests.
    """

    def __init__(self, rates: NetworkRates) -> None:
        self._rates = rates
        self._gpus: dict[tuple[str, str, int], dict[str, Any]] = {}
        self._hosts: dict[tuple[str, int], dict[str, float]] = {}
        self._labels = LabelReader()
        self._processes: list[GpuProcess] = []
        self._allocations: list[GpuAllocation] = []
        self._host_processes: list[HostProcess] = []

    def add(self, point: NumberPoint, sender: Sender) -> bool:
        """Take a point; False when it means nothing here."""
        host = sender.host or get_text(point.values, names.HOST_NAME)
        if host is None or not _is_whole(point.values):
            return False
        if point.name == gpus.PROCESS_GPU_MEMORY:
            return self._add_process(point, host)
        if point.name == gpus.PROCESS_PRIVATE_MEMORY:
            return self._add_host_process(point, host)
        if point.name == gpus.GPU_ALLOCATION:
            return self._add_allocation(point, host)
        column = gpus.GPU_COLUMN_OF_METRIC.get(point.name)
        if column is not None:
            return self._add_gpu(point, host, column)
        return self._add_host(point, host)

    def add_gauge(self, metric: Metric, sender: Sender, received_ns: int) -> int:
        """Take the points of a metric of GPUs that an agent sent; return how many mean nothing."""
        column = gpus.GPU_COLUMN_OF_METRIC[metric.name]
        num_ignored = 0
        # All GPUs of a node are sampled at one time.
        sent_ns, ts_ns = 0, received_ns
        for place, point in enumerate(metric.gauge.data_points):
            known = self._labels.read(place, point, sender)
            if known.uuid is None:
                num_ignored += 1
                continue
            if point.time_unix_nano != sent_ns:
                sent_ns = point.time_unix_nano
                ts_ns = read_moment(sent_ns, received_ns)
            self.get_gpu(known, ts_ns)[column] = to_column(column, read_number(point))
        return num_ignored

    def get_gpu(self, labels: GpuLabels, ts_ns: int) -> dict[str, Any]:
        """Return the columns of a GPU's sample, to be filled. The labels name a GPU."""
        key = (labels.host, labels.uuid or "", ts_ns)
        columns = self._gpus.get(key)
        if columns is None:
            columns = self._gpus[key] = {
                "gpu_index": labels.gpu_index,
                "model": labels.model,
                "parent_uuid": labels.parent_uuid,
                "mig_profile": labels.mig_profile,
            }
        return columns

    def finish(self, into: Records) -> None:
        """Add the records."""
        into.gpu_processes.extend(self._processes)
        into.gpu_allocations.extend(self._allocations)
        into.host_processes.extend(self._host_processes)
        into.gpu_samples.extend(
            GpuSample(host=host, gpu_uuid=uuid, ts_ns=ts_ns, **columns)
            for (host, uuid, ts_ns), columns in self._gpus.items()
        )
        into.host_samples.extend(
            HostSample(host=host, ts_ns=ts_ns, **_to_host_columns(columns))
            for (host, ts_ns), columns in self._hosts.items()
        )

    def _add_process(self, point: NumberPoint, host: str) -> bool:
        uuid = get_text(point.values, gpus.HW_ID)
        pid = get_int(point.values, names.PROCESS_PID)
        if uuid is None or pid is None:
            return False
        memory_bytes = to_column("memory_used_bytes", point.value)
        owner = read_owner(point.values)
        self._processes.append(
            GpuProcess(
                host=host,
                gpu_uuid=uuid,
                pid=pid,
                ts_ns=point.ts_ns,
                memory_bytes=None if memory_bytes is None else int(memory_bytes),
                pod_uid=owner.pod_uid,
                slurm_job_id=owner.slurm_job_id,
                ray_job_id=owner.ray_job_id,
                title=_read_title(point.values),
                rank=get_int(point.values, gpus.PROCESS_RANK),
            )
        )
        return True

    def _add_host_process(self, point: NumberPoint, host: str) -> bool:
        pid = get_int(point.values, names.PROCESS_PID)
        title = _read_title(point.values)
        if pid is None or title is None:
            return False
        private_bytes = to_column("memory_used_bytes", point.value)
        self._host_processes.append(
            HostProcess(
                host=host,
                pid=pid,
                ts_ns=point.ts_ns,
                title=title,
                private_bytes=None if private_bytes is None else int(private_bytes),
                ray_job_id=read_owner(point.values).ray_job_id,
            )
        )
        return True

    def _add_allocation(self, point: NumberPoint, host: str) -> bool:
        uuid = get_text(point.values, gpus.HW_ID)
        pod_name = get_text(point.values, names.K8S_POD_NAME)
        if uuid is None or pod_name is None or not point.value:
            return False
        self._allocations.append(
            GpuAllocation(
                host=host,
                gpu_uuid=uuid,
                pod_namespace=get_text(point.values, names.K8S_NAMESPACE_NAME) or "",
                pod_name=pod_name,
                container=get_text(point.values, names.K8S_CONTAINER_NAME) or "",
                ts_ns=point.ts_ns,
            )
        )
        return True

    def _add_gpu(self, point: NumberPoint, host: str, column: str) -> bool:
        uuid = get_text(point.values, gpus.HW_ID)
        if uuid is None or get_text(point.values, "hw.type") not in {None, _GPU}:
            return False
        columns = self._gpus.get((host, uuid, point.ts_ns))
        if columns is None:
            index = get_int(point.values, gpus.GPU_INDEX)
            columns = self._gpus[host, uuid, point.ts_ns] = {
                "gpu_index": _UNKNOWN_INDEX if index is None else index,
                "model": get_text(point.values, gpus.HW_MODEL) or "",
                "parent_uuid": get_text(point.values, gpus.HW_PARENT) or "",
                "mig_profile": get_text(point.values, gpus.MIG_PROFILE) or "",
            }
        columns[column] = to_column(column, point.value)
        return True

    def _add_host(self, point: NumberPoint, host: str) -> bool:
        value = to_column("", point.value)
        if value is None:
            return False
        column = _HOST_COLUMNS.get(point.name)
        by_direction = _RATE_COLUMNS.get(point.name)
        if by_direction is not None:
            column = by_direction.get(_first_text(point.values, _DIRECTION_LABELS))
            device = _first_text(point.values, _DEVICE_LABELS)
            if column is not None and point.unit != _RATE_UNIT:
                value = self._rates.measure((host, column, device), point.ts_ns, value)
        if column is None or value is None:
            return False
        columns = self._hosts.setdefault((host, point.ts_ns), {})
        columns[column] = columns.get(column, 0.0) + value
        return True


def _read_labels(point: NumberDataPoint, sender: Sender) -> GpuLabels:
    values = read_attributes(point.attributes)
    host = sender.host or get_text(values, names.HOST_NAME)
    uuid = get_text(values, gpus.HW_ID)
    is_gpu = get_text(values, "hw.type") in {None, _GPU}
    if host is None or not is_gpu or not _is_whole(values) or get_iteration(values) is not None:
        uuid = None
    index = get_int(values, gpus.GPU_INDEX)
    return GpuLabels(
        point.attributes,
        host or "",
        uuid,
        _UNKNOWN_INDEX if index is None else index,
        get_text(values, gpus.HW_MODEL) or "",
        get_text(values, gpus.HW_PARENT) or "",
        get_text(values, gpus.MIG_PROFILE) or "",
    )


def _read_title(values: Values) -> str | None:
    title = get_text(values, gpus.PROCESS_TITLE)
    return None if title is None else title[:_MAX_TITLE_CHARS]


def _first_text(values: Values, labels: Sequence[str]) -> str:
    return next((text for label in labels if (text := get_text(values, label))), "")


def _is_whole(values: Values) -> bool:
    if _PART_LABELS.isdisjoint(values):
        return True
    labels = _PART_LABELS.intersection(values)
    return all(values[label] in _WHOLE_PARTS for label in labels)


def to_column(column: str, value: float | None) -> float | int | None:
    """Return a value as its column holds it, None where it is no number."""
    if value is None or not math.isfinite(value):
        return None
    return int(value) if column in _INTEGER_COLUMNS else float(value)


def _to_host_columns(columns: dict[str, float]) -> dict[str, Any]:
    known = {field.name for field in dataclasses.fields(HostSample)}
    return {
        name: int(value) if name in _INTEGER_COLUMNS else value
        for name, value in columns.items()
        if name in known
    }
