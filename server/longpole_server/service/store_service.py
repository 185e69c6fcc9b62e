"""The service on the store: the facade that API and dashboards call."""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from longpole.conventions.attributes import STEP_STAGE
from longpole.conventions.gpus import GPU_METRICS
from longpole_server.analysis.gaps import find_gaps
from longpole_server.analysis.longtail import measure_long_tail
from longpole_server.analysis.longtail_report import describe_tail, find_gen, trace_running
from longpole_server.analysis.modes import infer_mode
from longpole_server.analysis.step_table import StepTable
from longpole_server.diagnosis import diagnose, diagnose_step, diagnose_window, find_changes
from longpole_server.errors import BadRequestError, NotFoundError
from longpole_server.model.annotations import VerdictChange
from longpole_server.model.cluster import ClusterNow, ProcessMemory
from longpole_server.model.comparison import Comparison
from longpole_server.model.diagnosis import Diagnosis
from longpole_server.model.discovery import Registration, ScrapeTarget, ScrapingAgent
from longpole_server.model.energy import RunEnergy
from longpole_server.model.engines import EngineLanes
from longpole_server.model.facts import RunFacts, StepFacts, TrajectoryFacts
from longpole_server.model.gpu import GpuHeatmap, GpuNow, RunGpu
from longpole_server.model.long_tail import StepTail
from longpole_server.model.metric import MetricColumnsPage
from longpole_server.model.run import Pace, RunDetail, RunSummary
from longpole_server.model.step import Gap, Step
from longpole_server.model.storage import StorageReport
from longpole_server.model.stragglers import RunStragglers
from longpole_server.model.trajectory import Trajectory, TrajectoryDetail, TrajectoryPart
from longpole_server.read import Reader
from longpole_server.service.alerts_interface import Alerts
from longpole_server.service.changes import ChangeFeed
from longpole_server.service.cluster import (
    read_cluster,
    read_cluster_heatmap,
    read_gpu_series,
)
from longpole_server.service.comparing import Comparer
from longpole_server.service.conversions import (
    gpus_between,
    gpus_during,
    make_run_facts,
    sample_window_ns,
)
from longpole_server.service.digests import RECENT_STEPS
from longpole_server.service.discovery import Discovery
from longpole_server.service.energy import MAX_ENERGY_STEPS, EnergyReader
from longpole_server.service.engine_lanes import read_engine_lanes
from longpole_server.service.facts import FactsReader
from longpole_server.service.interface import (
    LAST_STEPS,
    MAX_METRIC_POINTS,
    MetricSeries,
    StepDetail,
    StepRange,
    TrajectoryDistribution,
    TrajectorySort,
)
from longpole_server.service.metric_columns import list_metrics, spell_names
from longpole_server.service.paces import MAX_PACED_STEPS, PaceReader
from longpole_server.service.ranges import check_range
from longpole_server.service.replicas import (
    find_replica,
    list_replica_gpus,
    list_replica_hosts,
)
from longpole_server.service.runs import RunsReader
from longpole_server.service.step_gpus import MAX_STEP_BINS
from longpole_server.service.step_tables import StepTables, select
from longpole_server.service.timeline import list_lanes, list_sync_phases

# A full page of the API, and one more that tells whether another page follows.
MAX_TRAJECTORIES = 10_001
GPU_FIELDS = frozenset(metric.column for metric in GPU_METRICS)
# Ranges up to this length are read as they are asked for.
_SHORT_RANGE = 200
_MAX_SIBLINGS = 64
_DAY_NS = 86_400 * 10**9


class StoreService:
    """Implements `Service` on the store. Thread-safe.

    Every method raises `StoreError` when the database fails.

    Args:
        reader: Reads the store.
        runs: Answers for runs.
        facts: Builds and keeps facts of steps.
        changes: The feed that step closing publishes to.
        discovery: Keeps registered Prometheus pages.
        alerts: Answers for alerts.
        now_ns: Wall clock, UTC nanoseconds.
        report_storage: Measures the store; None where nobody asks for it.
    """

    def __init__(
        self,
        reader: Reader,
        runs: RunsReader,
        facts: FactsReader,
        changes: ChangeFeed,
        discovery: Discovery,
        alerts: Alerts,
        now_ns: Callable[[], int] = time.time_ns,
        report_storage: Callable[[], StorageReport] | None = None,
    ) -> None:
        self._reader = reader
        self._report_storage = report_storage
        self._runs = runs
        self._facts = facts
        self._changes = changes
        self._discovery = discovery
        self._alerts = alerts
        self._now_ns = now_ns
        self._comparer = Comparer(reader, runs)
        self._tables = StepTables(reader)
        self._paces = PaceReader(reader, runs, facts)
        self._energy = EnergyReader(reader, runs, facts, now_ns)

    @property
    def changes(self) -> ChangeFeed:
        """The feed that says when to read again."""
        return self._changes

    @property
    def alerts(self) -> Alerts:
        """Alerts, their rules, silences and channels."""
        return self._alerts

    def list_runs(self) -> Sequence[RunSummary]:
        """Return all runs, live ones first, newest first."""
        return self._runs.list_summaries()

    def get_run(self, run_id: str) -> RunDetail:
        """Return a run with its configuration, attempts and sources."""
        return self._runs.get_detail(run_id)

    def get_revision(self, run_id: str) -> int:
        """Return a number that grows when a run's steps, description or GPUs change. Cheap."""
        return self._runs.get_revision(run_id)

    def list_paces(self, run_id: str) -> Sequence[Pace]:
        """Return how fast a run's last 40 closed steps went, in order. Cheap."""
        return self._runs.list_paces(run_id)

    def list_steps(
        self, run_id: str, first: int | None = None, last: int | None = None
    ) -> Sequence[Step]:
        """Return the steps of a range in order; the open step, if any, comes last.

        It starts when it was announced, whatever of it has ended already.
        """
        run = self._runs.get_summary(run_id)
        steps = list(self._reader.list_steps(run_id, first, last))
        announced = _announced_step(run)
        if (
            announced is None
            or (first is not None and announced.step < first)
            or (last is not None and announced.step > last)
        ):
            return steps
        known = next((step for step in steps if step.step == announced.step), None)
        if known is None or known.attempt != announced.attempt:
            return [*(step for step in steps if step is not known), announced]
        if known.closed_by is not None:
            return steps
        # Until its loop span comes, the step as derived begins with its first finished stage.
        opened = replace(known, start_ns=announced.start_ns)
        return [opened if step is known else step for step in steps]

    def get_step(self, run_id: str, step: int) -> StepDetail:
        """Return one step with its timeline and its diagnosis."""
        found = self._find_step(run_id, step)
        run_gpus = self._runs.list_run_gpus(run_id)
        gpus = gpus_during(run_gpus, found)
        with self._facts.gpus.holding(found, gpus):
            digest = self._runs.get_digest(run_id)
            previous, following = self._reader.find_neighbours(run_id, step)
            spans = self._reader.list_stage_spans(run_id, found.attempt, step)
            samples = self._facts.read_samples(found, run_gpus, spans)
        usual = digest.usual.get(STEP_STAGE)
        long_tail, long_tail_reason = self._describe_tail(found)
        return StepDetail(
            step=found,
            gaps=self._find_gaps(found, gpus),
            gpus=tuple(gpus),
            replicas=_list_replicas(samples),
            lanes=list_lanes(spans),
            sync_phases=list_sync_phases(spans),
            diagnosis=self._diagnose_one(found),
            previous=previous,
            following=following,
            usual_s=usual.median_s if usual else None,
            stragglers=self._paces.score(found, run_gpus),
            long_tail=long_tail,
            long_tail_reason=long_tail_reason,
            energy=self._energy.read_stages(found, run_gpus),
        )

    def list_trajectories(
        self,
        run_id: str,
        step: int,
        sort: TrajectorySort = "-duration",
        limit: int = 100,
        offset: int = 0,
    ) -> Sequence[Trajectory]:
        """Return samples of a step after the first `offset`. `limit` at most 10,001."""
        if not 1 <= limit <= MAX_TRAJECTORIES:
            raise BadRequestError(f"limit must be 1 to {MAX_TRAJECTORIES:,}, not {limit:,}")
        found = self._find_step(run_id, step)
        return self._reader.list_trajectories(
            run_id,
            found.attempt,
            step,
            sample_window_ns(found),
            order=sort,
            limit=limit,
            offset=offset,
        )

    def get_distribution(self, run_id: str, step: int) -> TrajectoryDistribution:
        """Return all training samples of a step as columns."""
        found = self._find_step(run_id, step)
        samples = self._facts.read_samples(found)
        if samples is None:
            return TrajectoryDistribution(0, (), (), (), (), ())
        gen = find_gen(found, self._find_mode(self._describe_run(found), found))
        tail = measure_long_tail(samples, None if gen is None else gen.windows)
        return TrajectoryDistribution(
            count=len(samples.durations_s),
            durations_s=tuple(samples.durations_s),
            output_tokens=_as_floats(samples.output_tokens),
            tool_s=_as_floats(samples.tool_s),
            score_s=_as_floats(samples.score_s),
            stop_at=tail.stop_at if tail else (),
            running=trace_running(samples, gen),
        )

    def get_trajectory(self, run_id: str, trajectory_id: str) -> TrajectoryDetail:
        """Return one sample with its parts and its group's siblings."""
        self._runs.list_attempts(run_id)
        sample = self._reader.find_trajectory(run_id, trajectory_id)
        if sample is None:
            raise NotFoundError(f"no sample {trajectory_id!r} in run {run_id!r}")
        hosts, gpus = find_replica(self._reader, sample)
        return TrajectoryDetail(
            trajectory=sample,
            spans=tuple(self._reader.list_trajectory_parts(run_id, trajectory_id)),
            siblings=tuple(self._list_siblings(sample)),
            gpus=gpus,
            replica_hosts=hosts,
        )

    def get_sibling_parts(
        self, run_id: str, trajectory_id: str
    ) -> Mapping[str, Sequence[TrajectoryPart]]:
        """Return where the time of the other samples of a sample's group went, by their ids."""
        sample = self._reader.find_trajectory(run_id, trajectory_id)
        if sample is None:
            raise NotFoundError(f"no sample {trajectory_id!r} in run {run_id!r}")
        names = sorted(other.trajectory_id for other in self._list_siblings(sample))
        return self._reader.list_parts_of(run_id, sample.attempt, names[:_MAX_SIBLINGS])

    def _list_siblings(self, sample: Trajectory) -> Sequence[Trajectory]:
        if sample.group_id is None:
            return ()
        group = self._reader.list_group(sample.run_id, sample.attempt, sample.step, sample.group_id)
        return [other for other in group if other.trajectory_id != sample.trajectory_id]

    def diagnose(self, run_id: str, first: int | None = None, last: int | None = None) -> Diagnosis:
        """Diagnose a range; without one, the last 20 judged steps.

        Raises:
            NotFoundError: There is no such run.
            BadRequestError: The range ends before it begins.
        """
        check_range(first, last)
        rows = self._runs.list_attempts(run_id)
        digest = self._runs.get_digest(run_id)
        steps = self._read_range(run_id, first, last)
        attempt_starts = digest.first_steps
        attempt = int(steps.attempts[-1]) if steps else None
        start = self._runs.get_start(run_id, attempt)
        run = make_run_facts(start, self._runs.list_run_gpus(run_id))
        baseline = None
        if start.attempt in attempt_starts:
            first_step = attempt_starts[start.attempt]
            baseline = self._facts.read_baseline(run, start.attempt, first_step, steps)
        diagnosis = diagnose_window(
            run,
            steps,
            self._facts.read_steps,
            baseline,
            asked=(first, last),
            attempt_starts=attempt_starts,
        )
        return replace(
            diagnosis, data_quality=(*diagnosis.data_quality, *self._runs.list_notes(rows))
        )

    def _read_range(self, run_id: str, first: int | None, last: int | None) -> StepTable:
        if first is None and last is None:
            return StepTable.of(self._reader.list_last_steps(run_id, RECENT_STEPS))
        if first is not None and last is not None and last - first < _SHORT_RANGE:
            return StepTable.of(self._reader.list_steps(run_id, first, last))
        return select(self._tables.read(run_id, self._runs.get_token(run_id)), first, last)

    def list_verdict_changes(self, run_id: str) -> Sequence[VerdictChange]:
        """Return where the verdict of a run changed and stayed, in order."""
        self._runs.list_attempts(run_id)
        return find_changes(self._reader.list_step_verdicts(run_id))

    def compare(
        self,
        run_id: str,
        other_run_id: str,
        steps: StepRange = LAST_STEPS,
        other_steps: StepRange = LAST_STEPS,
    ) -> Comparison:
        """Say what changed from the other run's window to this run's; both may be of one run."""
        return self._comparer.compare(run_id, other_run_id, steps, other_steps)

    def register_scrape_targets(self, registration: Registration) -> int:
        """Keep Prometheus pages for agents to scrape; return how many their job has now."""
        return self._discovery.register(registration)

    def list_scrape_targets(self, agent: ScrapingAgent) -> Sequence[ScrapeTarget]:
        """Return the registered pages that an agent is to scrape."""
        return self._discovery.list_targets(agent)

    def get_metric(self, run_id: str, name: str) -> MetricSeries:
        """Return a logged metric, or a canonical one through its aliases."""
        return self.get_metrics(run_id, (name,))[name]

    def get_metrics(self, run_id: str, names: Sequence[str]) -> Mapping[str, MetricSeries]:
        """Return several metrics by name, as `get_metric` does one."""
        self._runs.list_attempts(run_id)
        spellings = spell_names(names)
        found = self._reader.get_metrics(run_id, list(chain.from_iterable(spellings.values())))
        return {
            name: MetricSeries(
                name, tuple(next((found[alias] for alias in aliases if alias in found), ()))
            )
            for name, aliases in spellings.items()
        }

    def list_metrics(
        self,
        run_id: str,
        names: Sequence[str] | None = None,
        first: int | None = None,
        last: int | None = None,
        start: int = 0,
        max_points: int = MAX_METRIC_POINTS,
    ) -> MetricColumnsPage:
        """Return many metrics of a run as columns, a page of them."""
        self._runs.list_attempts(run_id)
        return list_metrics(self._reader, run_id, names, first, last, start, max_points)

    def get_gpu_heatmap(
        self, run_id: str, field: str, start_ns: int, end_ns: int, max_bins: int
    ) -> GpuHeatmap:
        """Return one GPU field of the run's GPUs, binned by mean to at most `max_bins`."""
        _check_heatmap(field, start_ns, end_ns, max_bins)
        self._runs.list_attempts(run_id)
        lanes = gpus_between(self._runs.list_run_gpus(run_id), start_ns, end_ns)
        found = self._facts.gpus.get_heatmaps(lanes, (field,), start_ns, end_ns, max_bins)
        return found[field]

    def get_engine_lanes(
        self, run_id: str, start_ns: int, end_ns: int, max_bins: int, attempt: int | None = None
    ) -> EngineLanes:
        """Return what the run's engines reported over a time; of its newest attempt by default."""
        _check_bins(start_ns, end_ns, max_bins)
        chosen = self._choose_attempt(run_id, attempt)
        return read_engine_lanes(self._reader, run_id, chosen, start_ns, end_ns, max_bins)

    def list_replica_gpus(
        self, run_id: str, replica: str, start_ns: int, end_ns: int, attempt: int | None = None
    ) -> Sequence[RunGpu]:
        """Return the GPUs that a replica works on in a time; none where nothing tells."""
        chosen = self._choose_attempt(run_id, attempt)
        return list_replica_gpus(self._reader, run_id, replica, chosen, (start_ns, end_ns))

    def list_replica_hosts(
        self, run_id: str, replicas: Sequence[str], attempt: int | None = None
    ) -> Mapping[str, tuple[str, ...]]:
        """Return the nodes of replicas; those of which nothing tells are left out."""
        chosen = self._choose_attempt(run_id, attempt)
        return list_replica_hosts(self._reader, run_id, replicas, chosen)

    def _choose_attempt(self, run_id: str, attempt: int | None) -> int:
        newest = self._runs.get_summary(run_id).attempt
        return newest if attempt is None else attempt

    def get_stragglers(
        self, run_id: str, first: int | None = None, last: int | None = None
    ) -> RunStragglers:
        """Return the pace of every GPU and replica over a range, at most its last 20 steps."""
        check_range(first, last)
        self._runs.list_attempts(run_id)
        return self._paces.stand(run_id, self._list_closed(run_id, first, last, MAX_PACED_STEPS))

    def get_energy(
        self, run_id: str, first: int | None = None, last: int | None = None
    ) -> RunEnergy:
        """Return what GPUs took in each step of a range, at most its last 200, and altogether."""
        check_range(first, last)
        self._runs.list_attempts(run_id)
        closed = self._list_closed(run_id, first, last, MAX_ENERGY_STEPS)
        return self._energy.read_run(run_id, closed)

    def _list_closed(
        self, run_id: str, first: int | None, last: int | None, count: int
    ) -> Sequence[Step]:
        """Return the last closed steps of a range."""
        if first is None and last is None:
            return self._reader.list_last_steps(run_id, count)
        steps = self._reader.list_steps(run_id, first, last)
        return [step for step in steps if step.closed_by is not None][-count:]

    def get_gpu_series(
        self, host: str, gpu_uuid: str, start_ns: int, end_ns: int, max_bins: int
    ) -> Mapping[str, GpuHeatmap]:
        """Return the fields of one GPU that lines can show, by name."""
        _check_bins(start_ns, end_ns, max_bins)
        return read_gpu_series(self._reader, host, gpu_uuid, start_ns, end_ns, max_bins)

    def list_host_processes(
        self, host: str | None, start_ns: int, end_ns: int, max_bins: int, limit: int = 100
    ) -> Sequence[ProcessMemory]:
        """Return the processes of a node, or of all, whose memory grew most."""
        _check_bins(start_ns, end_ns, max_bins)
        return self._reader.list_host_processes(host, start_ns, end_ns, max_bins, limit)

    def list_gpus(self) -> Sequence[GpuNow]:
        """Return the newest sample of every GPU seen in the last day."""
        return self._reader.list_gpus(self._now_ns() - _DAY_NS)

    def get_cluster(self) -> ClusterNow:
        """Return all nodes and GPUs seen in the last day, and what they did in the last minute."""
        return read_cluster(self._reader, self._now_ns())

    def get_cluster_heatmap(
        self, field: str, start_ns: int, end_ns: int, max_bins: int
    ) -> GpuHeatmap:
        """Return one GPU field of every GPU, held by a run or not, as `get_gpu_heatmap` does."""
        _check_heatmap(field, start_ns, end_ns, max_bins)
        return read_cluster_heatmap(self._reader, field, start_ns, end_ns, max_bins)

    def get_storage(self) -> StorageReport:
        """Return the sizes of the store's tables."""
        if self._report_storage is None:
            raise NotFoundError("Nobody measures the store here.")
        return self._report_storage()

    def _find_step(self, run_id: str, number: int) -> Step:
        # Most steps asked for are closed; only of the open one the announcement knows more.
        found = self._reader.list_steps(run_id, number, number)
        if not found or found[-1].closed_by is None:
            found = self.list_steps(run_id, number, number)
        if not found:
            raise NotFoundError(f"no step {number} in run {run_id!r}")
        return found[-1]

    def _find_gaps(self, step: Step, gpus: Sequence[RunGpu]) -> tuple[Gap, ...]:
        if step.end_ns is None or not gpus:
            return ()
        field = "utilization_ratio"
        heatmaps = self._facts.gpus.get_heatmaps(
            gpus, (field,), step.start_ns, step.end_ns, MAX_STEP_BINS
        )
        return find_gaps(step, heatmaps[field])

    def _describe_run(self, step: Step) -> RunFacts:
        start = self._runs.get_start(step.run_id, step.attempt)
        return make_run_facts(start, self._runs.list_run_gpus(step.run_id))

    def _find_mode(self, run: RunFacts, step: Step) -> str | None:
        if run.mode is not None or step.closed_by is None:
            return run.mode
        return infer_mode(self._facts.read_step(step).scalars)

    def _describe_tail(self, step: Step) -> tuple[StepTail | None, str | None]:
        run = self._describe_run(step)
        if step.closed_by is None:
            if find_gen(step, run.mode) is None:
                return None, "the step has not ended"
            facts = StepFacts(step, trajectories=self._facts.read_samples(step))
        else:
            facts = self._facts.read_step(step)
        return describe_tail(run, facts, self._find_mode(run, step))

    def _diagnose_one(self, step: Step) -> Diagnosis:
        run_id = step.run_id
        run = self._describe_run(step)
        digest = self._runs.get_digest(run_id)
        if step.closed_by is None:
            return diagnose(run, ())
        first_step = digest.first_steps.get(step.attempt, step.step)
        return diagnose_step(
            run,
            self._facts.read_step(step),
            self._facts.read_baseline(run, step.attempt, first_step, [step]),
        )


def _check_heatmap(field: str, start_ns: int, end_ns: int, max_bins: int) -> None:
    if field not in GPU_FIELDS:
        raise BadRequestError(
            f"no GPU field {field!r}", hint=f"one of: {', '.join(sorted(GPU_FIELDS))}"
        )
    _check_bins(start_ns, end_ns, max_bins)


def _check_bins(start_ns: int, end_ns: int, max_bins: int) -> None:
    if end_ns <= start_ns or max_bins < 1:
        raise BadRequestError("the range must have an end after its start, and a bin at least")


def _announced_step(run: RunSummary) -> Step | None:
    """Return the step that was entered and of which nothing has ended yet."""
    opened = run.open_stage
    if opened is None or opened.step is None or opened.step_since_ns is None:
        return None
    return Step(
        run_id=run.run_id,
        step=opened.step,
        attempt=run.attempt,
        start_ns=opened.step_since_ns,
        end_ns=None,
        duration_s=None,
        closed_by=None,
        stages=(),
        unattributed_s=None,
        outside=(),
    )


def _list_replicas(samples: TrajectoryFacts | None) -> tuple[str, ...]:
    replicas = () if samples is None else samples.replicas
    return tuple(sorted({replica for replica in replicas if replica is not None}))


def _as_floats(values: Iterable[float | None]) -> tuple[float, ...]:
    return tuple(math.nan if value is None else float(value) for value in values)
