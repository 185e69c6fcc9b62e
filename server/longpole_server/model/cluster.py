"""The cluster as it is now: nodes and GPUs, with what they did in the last minute."""

from dataclasses import dataclass

from longpole_server.model.gpu import GpuNow


@dataclass(frozen=True, slots=True)
class NodeNow:
    """The newest sample of a node. None is not reported.

    Attributes:
        seen_ns: Time of the newest sample of the node or of one of its GPUs.
        fabric_receive_bytes_per_s, fabric_transmit_bytes_per_s: InfiniBand and RoCE.
        object_store_used_bytes, object_store_total_bytes, object_store_spilled_bytes: Ray's, on
            this node: in memory, its bound, and on disk now.
        spool_used_ratio: Of its agent's spool, 0..1.
        agent_dropped_total: Batches that its agent dropped since it started.
        clock_offset_s: By how much its clock is ahead of the server's.
    """

    host: str
    seen_ns: int
    cpu_utilization_ratio: float | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    network_receive_bytes_per_s: float | None = None
    network_transmit_bytes_per_s: float | None = None
    cpu_count: int | None = None
    disk_read_bytes_per_s: float | None = None
    disk_write_bytes_per_s: float | None = None
    fabric_receive_bytes_per_s: float | None = None
    fabric_transmit_bytes_per_s: float | None = None
    object_store_used_bytes: int | None = None
    object_store_total_bytes: int | None = None
    object_store_spilled_bytes: int | None = None
    spool_used_ratio: float | None = None
    agent_dropped_total: int | None = None
    clock_offset_s: float | None = None


@dataclass(frozen=True, slots=True)
class GpuMinute:
    """What one GPU did since a time. None is not reported.

    Attributes:
        num_samples: Samples since then.
        utilization_ratio: Their mean, 0..1.
        throttled_ratio: Part of the samples that name a slowdown reason, 0..1.
        throttle_bits: Those reasons, as NVML's bits or-ed together.
        ecc_uncorrected_errors: Memory errors since boot that could not be corrected.
        xid: Number of an error that its driver reported since then.
    """

    host: str
    gpu_uuid: str
    num_samples: int
    utilization_ratio: float | None
    throttled_ratio: float | None
    throttle_bits: int
    ecc_uncorrected_errors: int | None = None
    xid: int | None = None


@dataclass(frozen=True, slots=True)
class GpuState:
    """A GPU now and in the last minute. `minute` is None when nothing came from it since."""

    now: GpuNow
    minute: GpuMinute | None = None


@dataclass(frozen=True, slots=True)
class ClusterNow:
    """Everything that was heard of in the last day.

    Attributes:
        ts_ns: When it was asked for, by the server's clock.
        nodes: By name.
        gpus: By node and index.
    """

    ts_ns: int
    nodes: tuple[NodeNow, ...]
    gpus: tuple[GpuState, ...]


@dataclass(frozen=True, slots=True)
class ProcessMemory:
    """What one process held of its node's memory over a time, without what it shares.

    Attributes:
        title: What it calls itself, the last one. Empty where it is not told.
        first_ns, last_ns: Its first and last sample in that time.
        first_bytes, last_bytes: What it held then.
        max_bytes: The most it held.
        points: (time, most bytes around it), in order.
    """

    host: str
    pid: int
    title: str
    ray_job_id: str | None
    first_ns: int
    last_ns: int
    first_bytes: int
    last_bytes: int
    max_bytes: int
    points: tuple[tuple[int, int], ...] = ()

    @property
    def grown_bytes(self) -> int:
        """What it holds more than at first; negative where it holds less."""
        return self.last_bytes - self.first_bytes
