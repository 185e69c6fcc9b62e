"""What normalisation hands to the store: one record per fact, keyed by run, attempt and step.

All times are UTC nanoseconds, all durations seconds. `None` means not reported.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

# Step of facts whose step is not known (yet).
UNKNOWN_STEP = -1


@dataclass(frozen=True, slots=True)
class RunStart:
    """A start of a run: one attempt, announced by `rl.run.start` or by its first data.

    Attributes:
        config: `rl.config.*` without the prefix, values as text; redacted by the sender.
        declared: Whether `rl.run.start` announced it, or data alone did.
        imported: Whether it comes from a log file.
        time_estimated: Whether its time axis is estimated (a log without times).
    """

    run_id: str
    attempt: int
    started_ns: int
    name: str | None = None
    project: str | None = None
    system: str | None = None
    system_version: str | None = None
    algorithm: str | None = None
    mode: str | None = None
    model_name: str | None = None
    model_config: str | None = None
    gpu_count: int | None = None
    staleness_bound: float | None = None
    staleness_basis: str | None = None
    host: str | None = None
    pid: int | None = None
    process_start_ns: int | None = None
    config: Mapping[str, str] = field(default_factory=dict[str, str])
    declared: bool = False
    imported: bool = False
    time_estimated: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunEnd:
    """The end of an attempt. `status` is `finished`, `crashed` or what the trainer sent."""

    run_id: str
    attempt: int
    ended_ns: int
    status: str


@dataclass(frozen=True, slots=True)
class StageSpan:
    """A finished window: the whole step (`is_loop`), a stage, or a phase of a weight sync.

    Attributes:
        stage: Canonical stage; `step` for the loop; the raw name where no stage is known.
        name: Span name as sent.
        role: `rl.role` of the sending process; stage spans of processes other than the one
            that sends `rl.loop` are lanes and never enter the ledger.
        sync_phase: Phase of a weight sync (`transfer`, ...), else None.
        tokens_total, tokens_prompt, tokens_response: On the loop only.
    """

    run_id: str
    attempt: int
    step: int
    stage: str
    name: str
    start_ns: int
    end_ns: int
    trace_id: str
    span_id: str
    parent_span_id: str = ""
    role: str = ""
    host: str = ""
    pid: int = 0
    is_loop: bool = False
    sync_phase: str | None = None
    sync_method: str | None = None
    sync_bytes: int | None = None
    tokens_total: int | None = None
    tokens_prompt: int | None = None
    tokens_response: int | None = None


@dataclass(frozen=True, slots=True)
class TrajectoryRecord:
    """One sample. `step` is `UNKNOWN_STEP` until its end falls into a known step's window."""

    run_id: str
    attempt: int
    step: int
    trajectory_id: str
    start_ns: int
    end_ns: int
    phase: str = "train"
    group_id: str | None = None
    generate_s: float | None = None
    tool_s: float | None = None
    score_s: float | None = None
    queue_s: float | None = None
    paused_s: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    turns: int | None = None
    preemptions: int | None = None
    status: str | None = None
    reward: float | None = None
    policy_version_start: int | None = None
    policy_version_end: int | None = None
    replica: str | None = None
    host: str | None = None
    trace_id: str = ""
    span_id: str = ""


@dataclass(frozen=True, slots=True)
class TrajectorySpan:
    """Where a sample's time went.

    Attributes:
        kind: `generate`, `tool`, `score` or `queue`; `prefill` and `decode` are the two halves of
            an engine's `generate`, beside it.
    """

    run_id: str
    attempt: int
    trajectory_id: str
    kind: str
    name: str
    start_ns: int
    end_ns: int
    span_id: str
    turn: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class MetricPoint:
    """A logged scalar under the name the trainer gave it."""

    run_id: str
    attempt: int
    step: int
    name: str
    value: float
    ts_ns: int


@dataclass(frozen=True, slots=True)
class StageStart:
    """A step or stage was entered, or still runs (heartbeat). `stage` is `step` for the step.

    Attributes:
        start_ns: When the window opened.
        seen_ns: When this heartbeat was sent: the window was open then.
    """

    run_id: str
    attempt: int
    step: int
    stage: str
    start_ns: int
    seen_ns: int
    host: str = ""
    pid: int = 0
    role: str = ""


@dataclass(frozen=True, slots=True)
class ProcessSeen:
    """A process of a run, for joining GPUs to runs and for listing sources.

    Attributes:
        pod_namespace, pod_name, pod_uid: The Kubernetes pod it runs in.
        slurm_job_id, ray_job_id: The scheduler's job it belongs to.
    """

    run_id: str
    attempt: int
    host: str
    pid: int
    role: str
    seen_ns: int
    gpu_ids: tuple[str, ...] = ()
    instance: str | None = None
    service: str | None = None
    scope: str | None = None
    pod_namespace: str | None = None
    pod_name: str | None = None
    pod_uid: str | None = None
    slurm_job_id: str | None = None
    ray_job_id: str | None = None


@dataclass(frozen=True, slots=True)
class GpuSample:
    """One GPU at one time. Fractions 0..1; not supported is None.

    Attributes:
        xid: Error that the driver reported at this moment.
        ecc_uncorrected_errors: Memory errors since boot that could not be corrected.
        parent_uuid, mig_profile: Of a MIG device: the GPU that it is a part of, and its size
            (`1g.10gb`). "" for a whole GPU.
        sm_clock_max_hz: Highest clock that the product reaches.
        ecc_corrected_errors: Memory errors since boot that were corrected.
        remapped_rows: Rows of memory that were replaced by spare ones.
        row_remap_pending, row_remap_failed: 1 when a row waits for a reset to be replaced, and
            when no spare one was left.
    """

    host: str
    gpu_uuid: str
    gpu_index: int
    ts_ns: int
    model: str = ""
    utilization_ratio: float | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    sm_active_ratio: float | None = None
    tensor_active_ratio: float | None = None
    dram_active_ratio: float | None = None
    power_watts: float | None = None
    energy_joules: float | None = None
    temperature_celsius: float | None = None
    sm_clock_hz: float | None = None
    clocks_event_reasons: int | None = None
    nvlink_rx_bytes_per_s: float | None = None
    nvlink_tx_bytes_per_s: float | None = None
    pcie_rx_bytes_per_s: float | None = None
    pcie_tx_bytes_per_s: float | None = None
    xid: int | None = None
    ecc_uncorrected_errors: int | None = None
    parent_uuid: str = ""
    mig_profile: str = ""
    memory_temperature_celsius: float | None = None
    sm_clock_max_hz: float | None = None
    ecc_corrected_errors: int | None = None
    remapped_rows: int | None = None
    row_remap_pending: int | None = None
    row_remap_failed: int | None = None


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process holds memory on a GPU: joins a GPU to a run by (host, pid), else by pod or job.

    Attributes:
        title: What it says it does, where that is Ray's (`ray::WorkerDict.actor_rollout_...`).
        rank: Its rank, as its launcher says in its environment.
    """

    host: str
    gpu_uuid: str
    pid: int
    ts_ns: int
    memory_bytes: int | None = None
    pod_uid: str | None = None
    slurm_job_id: str | None = None
    ray_job_id: str | None = None
    title: str | None = None
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class HostProcess:
    """What a process takes of a node's memory.

    Attributes:
        title: Its title without what it does just now, `ray::WorkerDict`.
        private_bytes: Resident memory without what is shared, such as an object store's.
    """

    host: str
    pid: int
    ts_ns: int
    title: str
    private_bytes: int | None = None
    ray_job_id: str | None = None


@dataclass(frozen=True, slots=True)
class GpuAllocation:
    """The kubelet of a node gave a GPU to a container of a pod."""

    host: str
    gpu_uuid: str
    pod_namespace: str
    pod_name: str
    container: str
    ts_ns: int


@dataclass(frozen=True, slots=True)
class HostSample:
    """One node at one time.

    Attributes:
        spool_used_ratio, disk_used_ratio: Of its agent's spool, and of the disk under it.
        agent_dropped_total: Batches that its agent dropped since it started.
        fabric_receive_bytes_per_s, fabric_transmit_bytes_per_s: InfiniBand and RoCE.
        object_store_used_bytes, object_store_total_bytes: Ray's object store in shared memory.
        object_store_fallback_bytes: Its objects that are mapped from disk for want of memory.
        object_store_spilled_bytes: Its objects that are on disk now.
        spilled_bytes_total, restored_bytes_total: Written to disk and read back since the raylet
            started.
        workers_killed_total: Workers that Ray killed since then because memory ran out.
        clock_offset_s: By how much its clock is ahead of the server's, as its agent found.
    """

    host: str
    ts_ns: int
    cpu_utilization_ratio: float | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    network_receive_bytes_per_s: float | None = None
    network_transmit_bytes_per_s: float | None = None
    spool_used_ratio: float | None = None
    agent_dropped_total: int | None = None
    disk_used_ratio: float | None = None
    cpu_count: int | None = None
    disk_read_bytes_per_s: float | None = None
    disk_write_bytes_per_s: float | None = None
    fabric_receive_bytes_per_s: float | None = None
    fabric_transmit_bytes_per_s: float | None = None
    object_store_used_bytes: int | None = None
    object_store_total_bytes: int | None = None
    object_store_fallback_bytes: int | None = None
    object_store_spilled_bytes: int | None = None
    spilled_bytes_total: int | None = None
    restored_bytes_total: int | None = None
    workers_killed_total: int | None = None
    clock_offset_s: float | None = None


@dataclass(frozen=True, slots=True)
class EngineSample:
    """One value of an engine's series under its Prometheus name (`vllm:num_requests_running`)."""

    run_id: str
    attempt: int
    replica: str
    name: str
    ts_ns: int
    value: float


@dataclass(frozen=True, slots=True)
class RawSpan:
    """A span as sent, for the table that other tools read. Attribute values are text."""

    ts_ns: int
    duration_ns: int
    trace_id: str
    span_id: str
    parent_span_id: str
    trace_state: str
    name: str
    kind: str
    service_name: str
    resource: Mapping[str, str]
    scope_name: str
    scope_version: str
    attributes: Mapping[str, str]
    status_code: str
    status_message: str
    events: tuple[tuple[int, str, Mapping[str, str]], ...] = ()
    links: tuple[tuple[str, str, str, Mapping[str, str]], ...] = ()


@dataclass(frozen=True, slots=True)
class RowBlock:
    """Records of one kind that came as columns: rows as the store keeps them.

    Attributes:
        kind: The field of `Records` that holds such records as objects.
        rows: An Arrow table.
        newest_ns: Latest time in it, by (run, attempt).
        steps: (run, attempt, step) of trajectories whose step is known.
        loose_ends_ns: Ends of trajectories whose step is not known, by (run, attempt).
    """

    kind: str
    rows: Any
    num_rows: int
    newest_ns: Mapping[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])
    steps: frozenset[tuple[str, int, int]] = frozenset()
    loose_ends_ns: Mapping[tuple[str, int], Sequence[int]] = field(
        default_factory=dict[tuple[str, int], Sequence[int]]
    )


@dataclass(slots=True)
class Records:
    """A batch on its way into the store: any number of each kind.

    `blocks` are more of the same kinds, as columns.
    """

    run_starts: list[RunStart] = field(default_factory=list[RunStart])
    run_ends: list[RunEnd] = field(default_factory=list[RunEnd])
    stage_spans: list[StageSpan] = field(default_factory=list[StageSpan])
    trajectories: list[TrajectoryRecord] = field(default_factory=list[TrajectoryRecord])
    trajectory_spans: list[TrajectorySpan] = field(default_factory=list[TrajectorySpan])
    metric_points: list[MetricPoint] = field(default_factory=list[MetricPoint])
    stage_starts: list[StageStart] = field(default_factory=list[StageStart])
    processes: list[ProcessSeen] = field(default_factory=list[ProcessSeen])
    gpu_samples: list[GpuSample] = field(default_factory=list[GpuSample])
    gpu_processes: list[GpuProcess] = field(default_factory=list[GpuProcess])
    gpu_allocations: list[GpuAllocation] = field(default_factory=list[GpuAllocation])
    host_samples: list[HostSample] = field(default_factory=list[HostSample])
    host_processes: list[HostProcess] = field(default_factory=list[HostProcess])
    engine_samples: list[EngineSample] = field(default_factory=list[EngineSample])
    raw_spans: list[RawSpan] = field(default_factory=list[RawSpan])
    blocks: list[RowBlock] = field(default_factory=list[RowBlock])

    def __len__(self) -> int:
        """Return the number of records of all kinds."""
        num_objects = sum(len(getattr(self, name)) for name in self.__slots__ if name != "blocks")
        return num_objects + sum(block.num_rows for block in self.blocks)

    def extend(self, other: "Records") -> None:
        """Add the records of another batch behind these."""
        for name in self.__slots__:
            getattr(self, name).extend(getattr(other, name))
