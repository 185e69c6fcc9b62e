"""The service as the asker may see it: runs of other projects do not exist for them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from longpole_server.errors import ForbiddenError, NotFoundError
from longpole_server.model.annotations import VerdictChange
from longpole_server.model.cluster import ClusterNow, ProcessMemory
from longpole_server.model.comparison import Comparison
from longpole_server.model.diagnosis import Diagnosis
from longpole_server.model.discovery import Registration, ScrapeTarget, ScrapingAgent
from longpole_server.model.energy import RunEnergy
from longpole_server.model.engines import EngineLanes
from longpole_server.model.gpu import GpuHeatmap, GpuNow, RunGpu
from longpole_server.model.metric import MetricColumnsPage
from longpole_server.model.run import Pace, RunDetail, RunSummary
from longpole_server.model.step import Step
from longpole_server.model.storage import StorageReport
from longpole_server.model.stragglers import RunStragglers
from longpole_server.model.trajectory import Trajectory, TrajectoryDetail, TrajectoryPart
from longpole_server.service.alerts_interface import Alerts
from longpole_server.service.asking import find_reader, who_asks
from longpole_server.service.changes import ChangeFeed
from longpole_server.service.guarded_alerts import GuardedAlerts, RecordAct
from longpole_server.service.interface import (
    LAST_STEPS,
    MAX_METRIC_POINTS,
    MetricSeries,
    Service,
    StepDetail,
    StepRange,
    TrajectoryDistribution,
    TrajectorySort,
)


class GuardedService:
    """A service behind a look at who asks. What they may not see answers as if it were not there.

    Args:
        service: The whole of it.
        record: Writes down what was changed.
        get_project: Returns the project of a run, None of one that has none; raises `NotFoundError`
            when there is no such run. By default the service is asked for all of the run.
    """

    def __init__(
        self,
        service: Service,
        record: RecordAct,
        get_project: Callable[[str], str | None] | None = None,
    ) -> None:
        self._service = service
        self._get_project = get_project or self._read_project
        self._alerts = GuardedAlerts(service.alerts, self._sees_run, record)

    @property
    def changes(self) -> ChangeFeed:
        """The feed; it says that something changed, and not what."""
        return self._service.changes

    @property
    def alerts(self) -> Alerts:
        """Alerts of what is seen."""
        return self._alerts

    def list_runs(self) -> Sequence[RunSummary]:
        """Return the runs of seen projects."""
        principal = find_reader()
        runs = self._service.list_runs()
        if principal.projects is None:
            return runs
        return [run for run in runs if principal.sees(run.project)]

    def get_run(self, run_id: str) -> RunDetail:
        """Return a run."""
        run = self._service.get_run(run_id)
        if not find_reader().sees(run.summary.project):
            raise _missing(run_id)
        return run

    def get_revision(self, run_id: str) -> int:
        """Return a number that grows when a run changes."""
        self._check(run_id)
        return self._service.get_revision(run_id)

    def list_paces(self, run_id: str) -> Sequence[Pace]:
        """Return how fast a run's last steps went."""
        self._check(run_id)
        return self._service.list_paces(run_id)

    def list_steps(
        self, run_id: str, first: int | None = None, last: int | None = None
    ) -> Sequence[Step]:
        """Return the steps of a range."""
        self._check(run_id)
        return self._service.list_steps(run_id, first, last)

    def get_step(self, run_id: str, step: int) -> StepDetail:
        """Return one step."""
        self._check(run_id)
        return self._service.get_step(run_id, step)

    def list_trajectories(
        self,
        run_id: str,
        step: int,
        sort: TrajectorySort = "-duration",
        limit: int = 100,
        offset: int = 0,
    ) -> Sequence[Trajectory]:
        """Return samples of a step."""
        self._check(run_id)
        return self._service.list_trajectories(run_id, step, sort, limit, offset)

    def get_distribution(self, run_id: str, step: int) -> TrajectoryDistribution:
        """Return all training samples of a step as columns."""
        self._check(run_id)
        return self._service.get_distribution(run_id, step)

    def get_trajectory(self, run_id: str, trajectory_id: str) -> TrajectoryDetail:
        """Return one sample."""
        self._check(run_id)
        return self._service.get_trajectory(run_id, trajectory_id)

    def get_sibling_parts(
        self, run_id: str, trajectory_id: str
    ) -> Mapping[str, Sequence[TrajectoryPart]]:
        """Return where the time of the other samples of a sample's group went."""
        self._check(run_id)
        return self._service.get_sibling_parts(run_id, trajectory_id)

    def diagnose(self, run_id: str, first: int | None = None, last: int | None = None) -> Diagnosis:
        """Diagnose a range."""
        self._check(run_id)
        return self._service.diagnose(run_id, first, last)

    def compare(
        self,
        run_id: str,
        other_run_id: str,
        steps: StepRange = LAST_STEPS,
        other_steps: StepRange = LAST_STEPS,
    ) -> Comparison:
        """Say what changed from the other run's window to this run's."""
        self._check(run_id)
        self._check(other_run_id)
        return self._service.compare(run_id, other_run_id, steps, other_steps)

    def list_verdict_changes(self, run_id: str) -> Sequence[VerdictChange]:
        """Return where the verdict of a run changed."""
        self._check(run_id)
        return self._service.list_verdict_changes(run_id)

    def get_metric(self, run_id: str, name: str) -> MetricSeries:
        """Return a logged metric."""
        self._check(run_id)
        return self._service.get_metric(run_id, name)

    def get_metrics(self, run_id: str, names: Sequence[str]) -> Mapping[str, MetricSeries]:
        """Return several metrics by name."""
        self._check(run_id)
        return self._service.get_metrics(run_id, names)

    def list_metrics(
        self,
        run_id: str,
        names: Sequence[str] | None = None,
        first: int | None = None,
        last: int | None = None,
        start: int = 0,
        max_points: int = MAX_METRIC_POINTS,
    ) -> MetricColumnsPage:
        """Return many metrics as columns."""
        self._check(run_id)
        return self._service.list_metrics(run_id, names, first, last, start, max_points)

    def get_gpu_heatmap(
        self, run_id: str, field: str, start_ns: int, end_ns: int, max_bins: int
    ) -> GpuHeatmap:
        """Return one GPU field of the run's GPUs."""
        self._check(run_id)
        return self._service.get_gpu_heatmap(run_id, field, start_ns, end_ns, max_bins)

    def get_engine_lanes(
        self, run_id: str, start_ns: int, end_ns: int, max_bins: int, attempt: int | None = None
    ) -> EngineLanes:
        """Return what the run's engines reported over a time."""
        self._check(run_id)
        return self._service.get_engine_lanes(run_id, start_ns, end_ns, max_bins, attempt)

    def list_replica_gpus(
        self, run_id: str, replica: str, start_ns: int, end_ns: int, attempt: int | None = None
    ) -> Sequence[RunGpu]:
        """Return the GPUs that a replica works on."""
        self._check(run_id)
        return self._service.list_replica_gpus(run_id, replica, start_ns, end_ns, attempt)

    def list_replica_hosts(
        self, run_id: str, replicas: Sequence[str], attempt: int | None = None
    ) -> Mapping[str, tuple[str, ...]]:
        """Return the nodes of replicas."""
        self._check(run_id)
        return self._service.list_replica_hosts(run_id, replicas, attempt)

    def get_stragglers(
        self, run_id: str, first: int | None = None, last: int | None = None
    ) -> RunStragglers:
        """Return the pace of every GPU and replica over a range."""
        self._check(run_id)
        return self._service.get_stragglers(run_id, first, last)

    def get_energy(
        self, run_id: str, first: int | None = None, last: int | None = None
    ) -> RunEnergy:
        """Return what GPUs took."""
        self._check(run_id)
        return self._service.get_energy(run_id, first, last)

    def get_gpu_series(
        self, host: str, gpu_uuid: str, start_ns: int, end_ns: int, max_bins: int
    ) -> Mapping[str, GpuHeatmap]:
        """Return the fields of one GPU."""
        find_reader()
        return self._service.get_gpu_series(host, gpu_uuid, start_ns, end_ns, max_bins)

    def list_host_processes(
        self, host: str | None, start_ns: int, end_ns: int, max_bins: int, limit: int = 100
    ) -> Sequence[ProcessMemory]:
        """Return processes; what they call themselves is told to those who see every project."""
        is_told = find_reader().projects is None
        found = self._service.list_host_processes(host, start_ns, end_ns, max_bins, limit)
        return found if is_told else [replace(each, title="", ray_job_id=None) for each in found]

    def list_gpus(self) -> Sequence[GpuNow]:
        """Return every GPU; who holds it is told of seen runs only."""
        find_reader()
        return [self._hide_holder(gpu) for gpu in self._service.list_gpus()]

    def get_cluster(self) -> ClusterNow:
        """Return all nodes and GPUs; who holds one is told of seen runs only."""
        find_reader()
        cluster = self._service.get_cluster()
        gpus = tuple(replace(each, now=self._hide_holder(each.now)) for each in cluster.gpus)
        return replace(cluster, gpus=gpus)

    def get_cluster_heatmap(
        self, field: str, start_ns: int, end_ns: int, max_bins: int
    ) -> GpuHeatmap:
        """Return one GPU field of every GPU; who holds one is told of seen runs only."""
        find_reader()
        found = self._service.get_cluster_heatmap(field, start_ns, end_ns, max_bins)
        lanes = tuple(
            lane if not lane.run_id or self._sees_run(lane.run_id) else replace(lane, run_id="")
            for lane in found.lanes
        )
        return replace(found, lanes=lanes)

    def get_storage(self) -> StorageReport:
        """Return the sizes of the store's tables."""
        find_reader()
        return self._service.get_storage()

    def register_scrape_targets(self, registration: Registration) -> int:
        """Keep Prometheus pages for agents to scrape."""
        _check_sends_for_all("register pages")
        return self._service.register_scrape_targets(registration)

    def list_scrape_targets(self, agent: ScrapingAgent) -> Sequence[ScrapeTarget]:
        """Return the registered pages that an agent is to scrape; from now theirs."""
        _check_sends_for_all("ask for pages")
        return self._service.list_scrape_targets(agent)

    def _read_project(self, run_id: str) -> str | None:
        return self._service.get_run(run_id).summary.project

    def _check(self, run_id: str) -> None:
        reader = find_reader()
        if reader.projects is not None and not reader.sees(self._get_project(run_id)):
            raise _missing(run_id)

    def _sees_run(self, run_id: str) -> bool:
        principal = who_asks().principal
        if principal.projects is None:
            return True
        try:
            return principal.sees(self._get_project(run_id))
        except NotFoundError:
            return False

    def _hide_holder(self, gpu: GpuNow) -> GpuNow:
        if gpu.run_id is None or self._sees_run(gpu.run_id):
            return gpu
        return replace(gpu, run_id=None, role=None, how=None)


def _check_sends_for_all(what: str) -> None:
    principal = who_asks().principal
    if not principal.may_send or principal.projects is not None:
        raise ForbiddenError(f"only who sends telemetry of all projects may {what}")


def _missing(run_id: str) -> NotFoundError:
    return NotFoundError(f"no run {run_id!r}", hint="GET /api/v1/runs lists all runs")
