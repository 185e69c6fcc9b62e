"""The JSON documents of the HTTP API where they differ from the model's own types.

The model speaks the API's names, so the rest is sent as it is. What is not reported is null;
times are `_ns` (UTC nanoseconds), durations `_s` (seconds).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from typing_extensions import TypedDict

from longpole_server.diagnosis import diagnosis_document
from longpole_server.model.annotations import VerdictChange
from longpole_server.model.cluster import ClusterNow, ProcessMemory
from longpole_server.model.gpu import GpuNow, RunGpu
from longpole_server.model.long_tail import StepTail
from longpole_server.model.run import Attempt, RunDetail, RunSummary, Source
from longpole_server.model.step import (
    ClosedBy,
    Confidence,
    Gap,
    Note,
    OutsideStage,
    StageEnergy,
    StageLane,
    StageTime,
    Step,
    SyncPhase,
)
from longpole_server.model.stragglers import Stragglers
from longpole_server.model.trajectory import Trajectory, TrajectoryDetail, TrajectoryPart
from longpole_server.service import StepDetail

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

# `from` is a keyword of Python.
NoteDocument = TypedDict(
    "NoteDocument",
    {
        "code": str,
        "severity": str,
        "summary": str,
        "metric": str | None,
        "from": int | None,
        "to": int | None,
    },
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDocument(RunSummary):
    """A run with everything known beside its steps."""

    model_name: str | None
    model_config: str | None
    staleness_bound: float | None
    staleness_basis: str | None
    config: Mapping[str, str]
    attempts: Sequence[Attempt]
    sources: Sequence[Source]
    notes: Sequence[NoteDocument]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDocument:
    """A step with its ledger."""

    step: int
    attempt: int
    start_ns: int
    end_ns: int | None
    duration_s: float | None
    closed_by: ClosedBy | None
    stages: Sequence[StageTime]
    unattributed_s: float | None
    outside: Sequence[OutsideStage]
    tokens_total: int | None
    tokens_response: int | None
    response_length_mean: float | None
    response_length_max: float | None
    throughput_tokens_per_s_per_gpu: float | None
    mfu_actor: float | None
    mfu_infer: float | None
    mfu_step: float | None
    gpu_count: int | None
    verdict: str | None
    confidence: Confidence | None
    notes: Sequence[NoteDocument]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDetailDocument(StepDocument):
    """A step with its timeline and its diagnosis (`longpole.diagnosis/1`).

    Attributes:
        long_tail: What waiting for its last samples costs: the share of slots that stood empty
            and its GPU-seconds, by replica, group and activity; what stopping at 80, 90 and 95 %
            of the samples would have saved; how time and tokens spread. Null when not known.
        energy: Joules by stage and role, from the GPUs' counters, else from their power.
        long_tail_reason: Why it is not known.
        stragglers: GPUs by their clock at work and replicas by their seconds a token, each over
            the best of its kind, the slowest first, and whether others wait for it.
    """

    gaps: Sequence[Gap]
    gpus: Sequence[RunGpu]
    replicas: Sequence[str]
    lanes: Sequence[StageLane]
    sync_phases: Sequence[SyncPhase]
    diagnosis: Mapping[str, Any]
    previous: int | None
    following: int | None
    usual_s: float | None
    long_tail: StepTail | None
    long_tail_reason: str | None
    energy: Sequence[StageEnergy]
    stragglers: Stragglers


@dataclass(frozen=True, slots=True, kw_only=True)
class TrajectoryDocument(Trajectory):
    """A sample, where its time went, and its group's other samples.

    Attributes:
        gpus: Those that its replica works on; empty where nothing tells.
        replica_hosts: The nodes of its replica's processes, as far as they are known.
    """

    spans: Sequence[TrajectoryPart]
    siblings: Sequence[Trajectory]
    gpus: Sequence[RunGpu]
    replica_hosts: Sequence[str]


@dataclass(frozen=True, slots=True)
class PointDocument:
    """One value of a metric; null where it is not a number."""

    step: int
    ts_ns: int
    value: float | None


@dataclass(frozen=True, slots=True)
class RunsPage:
    """Runs, live ones first."""

    runs: Sequence[RunSummary]
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotationDocument(VerdictChange):
    """The verdict of the run became another at a step, and stayed.

    Attributes:
        kind: `verdict`.
    """

    kind: str


@dataclass(frozen=True, slots=True)
class StepsPage:
    """Steps in order.

    Attributes:
        annotations: What is worth a mark among these steps.
    """

    steps: Sequence[StepDocument]
    next: str | None
    annotations: Sequence[AnnotationDocument] = ()


@dataclass(frozen=True, slots=True)
class TrajectoriesPage:
    """Samples of a step."""

    trajectories: Sequence[Trajectory]
    next: str | None


@dataclass(frozen=True, slots=True)
class MetricPage:
    """A metric of a run."""

    name: str
    points: Sequence[PointDocument]
    next: str | None


@dataclass(frozen=True, slots=True)
class MetricColumnsDocument:
    """A metric of a run as columns: the values of one point stand at one place of each list.

    Attributes:
        values: Null where the trainer logged what is no finite number.
    """

    name: str
    steps: Sequence[int]
    ts_ns: Sequence[int]
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class MetricsPage:
    """Many metrics of a run."""

    metrics: Sequence[MetricColumnsDocument]
    next: str | None


@dataclass(frozen=True, slots=True)
class GpusPage:
    """GPUs with their newest sample."""

    gpus: Sequence[GpuNow]
    next: str | None


@dataclass(frozen=True, slots=True)
class NodeDocument:
    """A node; its samples are null where the agent does not report them.

    Attributes:
        seen_ns: Time of its newest sample, by its own clock.
        num_gpus: GPUs heard of on it.
        runs: Runs that hold any of them.
    """

    host: str
    seen_ns: int
    num_gpus: int
    runs: Sequence[str]
    cpu_utilization_ratio: float | None
    memory_used_bytes: int | None
    memory_total_bytes: int | None
    network_receive_bytes_per_s: float | None
    network_transmit_bytes_per_s: float | None
    cpu_count: int | None
    disk_read_bytes_per_s: float | None
    disk_write_bytes_per_s: float | None
    fabric_receive_bytes_per_s: float | None
    fabric_transmit_bytes_per_s: float | None
    object_store_used_bytes: int | None
    object_store_total_bytes: int | None
    object_store_spilled_bytes: int | None
    spool_used_ratio: float | None
    agent_dropped_total: int | None
    clock_offset_s: float | None


@dataclass(frozen=True, slots=True)
class NodesPage:
    """Nodes by name."""

    nodes: Sequence[NodeDocument]
    next: str | None


@dataclass(frozen=True, slots=True)
class ProcessesPage:
    """Processes with what they hold of their nodes' memory."""

    processes: Sequence[ProcessMemory]
    next: str | None


@dataclass(frozen=True, slots=True)
class ServicesDocument:
    """Where RL-Insight's client finds what it needs: the port of `/v1/traces`.

    Attributes:
        prometheus_port, grafana_port: Null: there is neither.
    """

    status: str
    otlp_port: int | None
    prometheus_port: int | None
    grafana_port: int | None


@dataclass(frozen=True, slots=True)
class RegistrationDocument:
    """That Prometheus pages were registered.

    Attributes:
        target_count: Pages of this job, those of earlier requests included.
        prometheus_reloaded: False: there is no Prometheus behind this server.
    """

    status: str
    job_name: str
    target_count: int
    prometheus_reloaded: bool


@dataclass(frozen=True, slots=True)
class ScrapeTargetDocument:
    """A Prometheus page to scrape, at `http://<target>/metrics`.

    Attributes:
        host: Node it is on where its sender said so.
        seen_ns: When it was last registered.
    """

    job_name: str
    target: str
    labels: Mapping[str, str]
    host: str | None
    seen_ns: int


@dataclass(frozen=True, slots=True)
class ScrapeTargetsPage:
    """Prometheus pages that an agent is to scrape."""

    scrape_targets: Sequence[ScrapeTargetDocument]
    next: str | None


@dataclass(frozen=True, slots=True)
class ImportDocument:
    """What an import did.

    Attributes:
        batch_id: SHA-256 of the content: the same content again changes nothing.
        num_steps: Steps the log holds.
        is_derived: Whether their ledgers and verdicts can be read already.
    """

    run_id: str
    batch_id: str
    num_steps: int
    is_derived: bool


@dataclass(frozen=True, slots=True)
class HealthDocument:
    """That the process answers, and what it is for: `all`, `ingest` or `web`."""

    status: str
    version: str
    role: str


@dataclass(frozen=True, slots=True)
class ReadyDocument:
    """Whether the process can do its work, and what each part says.

    Attributes:
        waits_for: What a server that shows waits for before it opens its store; None once it has.
    """

    ready: bool
    parts: Mapping[str, bool]
    waits_for: str | None = None


@dataclass(frozen=True, slots=True)
class ErrorBody:
    """What went wrong and what to do about it."""

    code: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class ErrorDocument:
    """The body of every error."""

    error: ErrorBody


def describe_run(run: RunDetail) -> RunDocument:
    """Return the document of a run."""
    return RunDocument(
        **_shallow(run.summary),
        model_name=run.model_name,
        model_config=run.model_config,
        staleness_bound=run.staleness_bound,
        staleness_basis=run.staleness_basis,
        config=run.config,
        attempts=run.attempts,
        sources=run.sources,
        notes=_describe_notes(run.notes),
    )


def describe_nodes(cluster: ClusterNow) -> NodesPage:
    """Return the page of all nodes."""
    runs: dict[str, set[str]] = {node.host: set() for node in cluster.nodes}
    for state in cluster.gpus:
        if state.now.run_id is not None:
            runs[state.now.host].add(state.now.run_id)
    num_gpus = Counter(state.now.host for state in cluster.gpus)
    nodes = [
        NodeDocument(num_gpus=num_gpus[node.host], runs=sorted(runs[node.host]), **_shallow(node))
        for node in cluster.nodes
    ]
    return NodesPage(nodes, None)


def describe_step(step: Step) -> StepDocument:
    """Return the document of a step."""
    return StepDocument(**_step_fields(step))


def describe_changes(
    changes: Sequence[VerdictChange], steps: Sequence[Step]
) -> list[AnnotationDocument]:
    """Return the documents of the changes that fall on some steps."""
    shown = {step.step for step in steps}
    return [
        AnnotationDocument(kind="verdict", **_shallow(change))
        for change in changes
        if change.step in shown
    ]


def describe_step_detail(detail: StepDetail) -> StepDetailDocument:
    """Return the document of a step with its timeline and diagnosis."""
    return StepDetailDocument(
        **_step_fields(detail.step),
        gaps=detail.gaps,
        gpus=detail.gpus,
        replicas=detail.replicas,
        lanes=detail.lanes,
        sync_phases=detail.sync_phases,
        diagnosis=diagnosis_document(detail.diagnosis),
        previous=detail.previous,
        following=detail.following,
        usual_s=detail.usual_s,
        long_tail=detail.long_tail,
        long_tail_reason=detail.long_tail_reason,
        energy=detail.energy,
        stragglers=detail.stragglers,
    )


def describe_trajectory(detail: TrajectoryDetail) -> TrajectoryDocument:
    """Return the document of a sample with its parts and siblings."""
    return TrajectoryDocument(
        **_shallow(detail.trajectory),
        spans=detail.spans,
        siblings=detail.siblings,
        gpus=detail.gpus,
        replica_hosts=detail.replica_hosts,
    )


def _shallow(instance: "DataclassInstance") -> dict[str, Any]:
    return {field.name: getattr(instance, field.name) for field in fields(instance)}


def _step_fields(step: Step) -> dict[str, Any]:
    values = _shallow(step)
    del values["run_id"]
    values["notes"] = _describe_notes(step.notes)
    return values


def _describe_notes(notes: Sequence[Note]) -> list[NoteDocument]:
    return [
        {
            "code": note.code,
            "severity": note.severity,
            "summary": note.summary,
            "metric": note.metric,
            "from": note.first_step,
            "to": note.last_step,
        }
        for note in notes
    ]
