"""GPU and host metrics: OpenTelemetry name, unit, and the column that stores it."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

HW_ID = "hw.id"
HW_NAME = "hw.name"
HW_MODEL = "hw.model"
# Index of the device on its host as NVML counts it.
GPU_INDEX = "gpu.index"
# Of a MIG device: the id of the GPU that it is a part of, and its size (`1g.10gb`).
HW_PARENT = "hw.parent"
MIG_PROFILE = "hw.gpu.mig.profile"


@dataclass(frozen=True, slots=True)
class GpuMetric:
    """One GPU metric as sent and as stored.

    Attributes:
        metric: OpenTelemetry metric name; the data point carries `hw.id` and `gpu.index`.
        unit: Unit on the wire and in the store.
        column: Field of a GPU sample and column in the store.
        label: For people.
    """

    metric: str
    unit: str
    column: str
    label: str


GPU_METRICS: tuple[GpuMetric, ...] = (
    GpuMetric("hw.gpu.utilization", "1", "utilization_ratio", "utilisation"),
    GpuMetric("hw.gpu.memory.usage", "By", "memory_used_bytes", "memory used"),
    GpuMetric("hw.gpu.memory.limit", "By", "memory_total_bytes", "memory"),
    GpuMetric("hw.gpu.sm_active", "1", "sm_active_ratio", "SM active"),
    GpuMetric("hw.gpu.tensor_active", "1", "tensor_active_ratio", "tensor cores active"),
    GpuMetric("hw.gpu.dram_active", "1", "dram_active_ratio", "memory traffic"),
    GpuMetric("hw.power", "W", "power_watts", "power"),
    GpuMetric("hw.energy", "J", "energy_joules", "energy since boot"),
    GpuMetric("hw.temperature", "Cel", "temperature_celsius", "temperature"),
    GpuMetric("hw.gpu.clock.sm", "Hz", "sm_clock_hz", "SM clock"),
    GpuMetric("hw.gpu.clocks_event_reasons", "1", "clocks_event_reasons", "clock-event reasons"),
    GpuMetric("hw.gpu.nvlink.rx", "By/s", "nvlink_rx_bytes_per_s", "NVLink received"),
    GpuMetric("hw.gpu.nvlink.tx", "By/s", "nvlink_tx_bytes_per_s", "NVLink sent"),
    GpuMetric("hw.gpu.pcie.rx", "By/s", "pcie_rx_bytes_per_s", "PCIe received"),
    GpuMetric("hw.gpu.pcie.tx", "By/s", "pcie_tx_bytes_per_s", "PCIe sent"),
)
# What changes rarely, sent every ten seconds.
GPU_TRAITS: tuple[GpuMetric, ...] = (
    GpuMetric(
        "hw.gpu.memory.temperature", "Cel", "memory_temperature_celsius", "memory temperature"
    ),
    GpuMetric("hw.gpu.clock.sm.max", "Hz", "sm_clock_max_hz", "highest SM clock"),
)
# What goes wrong: an XID error is sent with the sample in which the driver reported it, and 0 now
# and then where one would be heard of; memory errors are counted since boot.
GPU_FAULTS: tuple[GpuMetric, ...] = (
    GpuMetric("hw.gpu.xid", "1", "xid", "XID error"),
    GpuMetric(
        "hw.gpu.ecc_uncorrected", "{error}", "ecc_uncorrected_errors", "uncorrected memory errors"
    ),
    GpuMetric("hw.gpu.ecc_corrected", "{error}", "ecc_corrected_errors", "corrected memory errors"),
    GpuMetric("hw.gpu.remapped_rows", "{row}", "remapped_rows", "remapped rows of memory"),
    GpuMetric(
        "hw.gpu.remapped_rows.pending", "1", "row_remap_pending", "a row waits to be remapped"
    ),
    GpuMetric(
        "hw.gpu.remapped_rows.failed", "1", "row_remap_failed", "a row could not be remapped"
    ),
)
GPU_COLUMN_OF_METRIC: Mapping[str, str] = MappingProxyType(
    {metric.metric: metric.column for metric in (*GPU_METRICS, *GPU_TRAITS, *GPU_FAULTS)}
)
PROCESS_GPU_MEMORY = "process.gpu.memory.usage"
# Resident memory of a process without what it shares, and the title that says who it is.
PROCESS_PRIVATE_MEMORY = "process.memory.private"
PROCESS_TITLE = "process.title"
PROCESS_RANK = "process.rank"
# 1 for each GPU that is allocated to a container; the point names the pod.
GPU_ALLOCATION = "hw.gpu.allocation"

# Host metrics as OpenTelemetry names them.
HOST_CPU_UTILIZATION = "system.cpu.utilization"
HOST_MEMORY_USAGE = "system.memory.usage"
HOST_MEMORY_LIMIT = "system.memory.limit"
HOST_NETWORK_IO = "system.network.io"
HOST_DISK_IO = "system.disk.io"
HOST_CPU_COUNT = "system.cpu.logical.count"
# InfiniBand and RoCE, which the system's network counters do not see.
FABRIC_IO = "hw.network.io"
# What Ray's own page says of a node: its object store, and workers killed when memory ran out.
RAY_STORE_USED = "ray.object_store.used"
RAY_STORE_LIMIT = "ray.object_store.limit"
RAY_STORE_FALLBACK = "ray.object_store.fallback"
RAY_STORE_SPILLED = "ray.object_store.spilled"
RAY_SPILL_WRITTEN = "ray.object_store.spill.written"
RAY_SPILL_RESTORED = "ray.object_store.spill.restored"
RAY_WORKERS_KILLED = "ray.workers.killed"
# What an agent says of itself: how full its spool is and the disk under it, what it dropped, and by
# how many seconds its clock is ahead of the server's.
AGENT_PREFIX = "longpole.agent."
AGENT_SPOOL_UTILIZATION = AGENT_PREFIX + "spool.utilization"
AGENT_DISK_UTILIZATION = AGENT_PREFIX + "disk.utilization"
AGENT_DROPPED = AGENT_PREFIX + "dropped"
AGENT_CLOCK_OFFSET = AGENT_PREFIX + "clock.offset"

# Clock-event reason bits of NVML that mean lost speed, and what they say.
THROTTLE_REASONS: Mapping[int, str] = MappingProxyType(
    {
        0x8: "hardware slowdown",
        0x20: "software thermal",
        0x40: "hardware thermal",
        0x80: "power brake",
    }
)
