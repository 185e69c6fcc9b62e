"""The facade that the API and the dashboards call.

Every method is synchronous, thread-safe and may take milliseconds to a second: asynchronous
callers run it in a thread. Unknown runs, steps and trajectories raise `NotFoundError`.
Step ranges are inclusive; None means open. Steps are those of the latest attempt of each step.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from longpole_server.model.annotations import VerdictChange
from longpole_server.model.cluster import ClusterNow, ProcessMemory
from longpole_server.model.comparison import Comparison
from longpole_server.model.diagnosis import Diagnosis
from longpole_server.model.discovery import Registration, ScrapeTarget, ScrapingAgent
from longpole_server.model.energy import RunEnergy
from longpole_server.model.engines import EngineLanes
from longpole_server.model.gpu import GpuHeatmap, GpuNow, RunGpu
from longpole_server.model.long_tail import StepTail
from longpole_server.model.metric import MetricColumnsPage
from longpole_server.model.run import Pace, RunDetail, RunSummary
from longpole_server.model.step import Gap, StageEnergy, StageLane, Step, SyncPhase
from longpole_server.model.storage import StorageReport
from longpole_server.model.stragglers import RunStragglers, Stragglers
from longpole_server.model.trajectory import Trajectory, TrajectoryDetail, TrajectoryPart
from longpole_server.service.alerts_interface import Alerts
from longpole_server.service.changes import ChangeFeed

# Points of metrics that one answer holds: some 40 MB as JSON.
MAX_METRIC_POINTS = 1_000_000
TrajectorySort = Literal["-duration", "duration", "-output_tokens", "output_tokens", "start"]


@dataclass(frozen=True, slots=True)
class StepDetail:
    """One step with everything its page shows.

    Attributes:
        gpus: GPUs the run held during the step.
        lanes: Stage windows of other processes.
        previous, following: Numbers of the neighbouring steps that exist, None at an end.
        usual_s: Median seconds of the run's closed steps.
        long_tail: What waiting for its last samples costs; None with the reason why not known.
        energy: By stage and role, where GPUs tell it.
        stragglers: GPUs and replicas against the best of their kind.
    """

    step: Step
    gaps: tuple[Gap, ...]
    gpus: tuple[RunGpu, ...]
    replicas: tuple[str, ...]
    lanes: tuple[StageLane, ...]
    sync_phases: tuple[SyncPhase, ...]
    diagnosis: Diagnosis
    previous: int | None
    following: int | None
    usual_s: float | None
    long_tail: StepTail | None = None
    long_tail_reason: str | None = None
    energy: tuple[StageEnergy, ...] = ()
    stragglers: Stragglers = field(default_factory=Stragglers)


@dataclass(frozen=True, slots=True)
class MetricSeries:
    """A logged metric of a run: `points` are (step, ts_ns, value) in step order."""

    name: str
    points: tuple[tuple[int, int, float], ...]


@dataclass(frozen=True, slots=True)
class TrajectoryDistribution:
    """All training samples of a step as columns: for histograms and the tail.

    Attributes:
        durations_s, output_tokens, tool_s, score_s: One value a sample, NaN where unknown.
        stop_at: (share of samples, seconds gen would have ended earlier) for partial rollout.
        running: (second of gen, samples that run from then on), the last at the end of gen.
    """

    count: int
    durations_s: tuple[float, ...]
    output_tokens: tuple[float, ...]
    tool_s: tuple[float, ...]
    score_s: tuple[float, ...]
    stop_at: tuple[tuple[float, float], ...]
    running: tuple[tuple[float, int], ...] = ()


@dataclass(frozen=True, slots=True)
class StepRange:
    """Steps of one side of a comparison, inclusive; without any bound the last 20 judged ones."""

    first: int | None = None
    last: int | None = None


LAST_STEPS = StepRange()


class Service(Protocol):
    """Queries, diagnoses and the change feed. The one thing API and dashboards hold."""

    @property
    def changes(self) -> ChangeFeed:
        """The feed that says when to read again."""
        ...

    @property
    def alerts(self) -> Alerts:
        """Alerts, their rules, silences and channels."""
        ...

    def list_runs(self) -> Sequence[RunSummary]:
        """Return all runs, live ones first, newest first."""
        ...

    def get_run(self, run_id: str) -> RunDetail:
        """Return a run with its configuration, attempts and sources."""
        ...

    def get_revision(self, run_id: str) -> int:
        """Return a number that grows when a run's steps, description or GPUs change. Cheap."""
        ...

    def list_paces(self, run_id: str) -> Sequence[Pace]:
        """Return how fast a run's last 40 closed steps went, in order. Cheap."""
        ...

    def list_steps(
        self, run_id: str, first: int | None = None, last: int | None = None
    ) -> Sequence[Step]:
        """Return the steps of a range in order; the open step, if any, comes last."""
        ...

    def get_step(self, run_id: str, step: int) -> StepDetail:
        """Return one step with its timeline and its diagnosis."""
        ...

    def list_trajectories(
        self,
        run_id: str,
        step: int,
        sort: TrajectorySort = "-duration",
        limit: int = 100,
        offset: int = 0,
    ) -> Sequence[Trajectory]:
        """Return samples of a step after the first `offset`.

        `limit` is at most 10,001: 10,000, and one that tells of more.
        """
        ...

    def get_distribution(self, run_id: str, step: int) -> TrajectoryDistribution:
        """Return all training samples of a step as columns."""
        ...

    def get_trajectory(self, run_id: str, trajectory_id: str) -> TrajectoryDetail:
        """Return one sample with its parts and its group's siblings."""
        ...

    def get_sibling_parts(
        self, run_id: str, trajectory_id: str
    ) -> Mapping[str, Sequence[TrajectoryPart]]:
        """Return where the time of the other samples of a sample's group went, by their ids.

        Of large groups the first 64 by id.
        """
        ...

    def diagnose(self, run_id: str, first: int | None = None, last: int | None = None) -> Diagnosis:
        """Diagnose a range; without one, the last 20 judged steps."""
        ...

    def compare(
        self,
        run_id: str,
        other_run_id: str,
        steps: StepRange = LAST_STEPS,
        other_steps: StepRange = LAST_STEPS,
    ) -> Comparison:
        """Say what changed from the other run's window to this run's; both may be of one run."""
        ...

    def list_verdict_changes(self, run_id: str) -> Sequence[VerdictChange]:
        """Return where the verdict of a run changed and stayed, in order."""
        ...

    def get_metric(self, run_id: str, name: str) -> MetricSeries:
        """Return a logged metric, or a canonical one through its aliases."""
        ...

    def get_metrics(self, run_id: str, names: Sequence[str]) -> Mapping[str, MetricSeries]:
        """Return several metrics by name, as `get_metric` does one; none reported is empty."""
        ...

    def list_metrics(
        self,
        run_id: str,
        names: Sequence[str] | None = None,
        first: int | None = None,
        last: int | None = None,
        start: int = 0,
        max_points: int = MAX_METRIC_POINTS,
    ) -> MetricColumnsPage:
        """Return many metrics as columns, as many as have about `max_points`, at least one.

        Args:
            run_id: The run.
            names: As `get_metrics` takes them, in this order; None for all that the run has, by
                the names that its trainer uses.
            first: First step.
            last: Last step.
            start: Number of the first metric: `following` of the page before.
            max_points: Bound of the points of a page.
        """
        ...

    def get_gpu_heatmap(
        self, run_id: str, field: str, start_ns: int, end_ns: int, max_bins: int
    ) -> GpuHeatmap:
        """Return one GPU field of the run's GPUs, binned by mean to at most `max_bins`."""
        ...

    def get_engine_lanes(
        self, run_id: str, start_ns: int, end_ns: int, max_bins: int, attempt: int | None = None
    ) -> EngineLanes:
        """Return what the run's engines reported over a time; of its newest attempt by default."""
        ...

    def list_replica_gpus(
        self, run_id: str, replica: str, start_ns: int, end_ns: int, attempt: int | None = None
    ) -> Sequence[RunGpu]:
        """Return the GPUs that a replica works on in a time; none where nothing tells.

        Of the run's newest attempt by default.
        """
        ...

    def list_replica_hosts(
        self, run_id: str, replicas: Sequence[str], attempt: int | None = None
    ) -> Mapping[str, tuple[str, ...]]:
        """Return the nodes of replicas, of the newest attempt by default.

        Those of which nothing tells are left out.
        """
        ...

    def get_stragglers(
        self, run_id: str, first: int | None = None, last: int | None = None
    ) -> RunStragglers:
        """Return the pace of every GPU and replica over a range, at most its last 20 steps."""
        ...

    def get_energy(
        self, run_id: str, first: int | None = None, last: int | None = None
    ) -> RunEnergy:
        """Return what GPUs took in each step of a range, at most its last 200, and altogether."""
        ...

    def get_gpu_series(
        self, host: str, gpu_uuid: str, start_ns: int, end_ns: int, max_bins: int
    ) -> Mapping[str, GpuHeatmap]:
        """Return the fields of one GPU that lines can show, by name, as `get_gpu_heatmap` does."""
        ...

    def list_host_processes(
        self, host: str | None, start_ns: int, end_ns: int, max_bins: int, limit: int = 100
    ) -> Sequence[ProcessMemory]:
        """Return the processes of a node, or of all, whose memory grew most."""
        ...

    def list_gpus(self) -> Sequence[GpuNow]:
        """Return the newest sample of every GPU seen in the last day."""
        ...

    def get_cluster(self) -> ClusterNow:
        """Return all nodes and GPUs seen in the last day, and what they did in the last minute."""
        ...

    def get_cluster_heatmap(
        self, field: str, start_ns: int, end_ns: int, max_bins: int
    ) -> GpuHeatmap:
        """Return one GPU field of every GPU, held by a run or not, as `get_gpu_heatmap` does."""
        ...

    def get_storage(self) -> StorageReport:
        """Return the sizes of the store's tables."""
        ...

    def register_scrape_targets(self, registration: Registration) -> int:
        """Keep Prometheus pages for agents to scrape; return how many their job has now.

        A page is forgotten when it was not registered again for two weeks.
        """
        ...

    def list_scrape_targets(self, agent: ScrapingAgent) -> Sequence[ScrapeTarget]:
        """Return the registered pages that an agent is to scrape."""
        ...
