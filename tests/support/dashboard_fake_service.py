"""An in-memory `Service` with believable runs, driven by a clock that tests move."""

import threading
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from statistics import median

import numpy as np

from longpole.conventions import stages
from longpole_server.analysis.compared_runs import compare_config, find_usual_verdict
from longpole_server.analysis.decomposition import decompose
from longpole_server.analysis.longtail import measure_long_tail
from longpole_server.analysis.longtail_report import describe_tail, trace_running
from longpole_server.analysis.window import summarise_window
from longpole_server.errors import NotFoundError
from longpole_server.model.annotations import VerdictChange
from longpole_server.model.cluster import ClusterNow, GpuState, ProcessMemory
from longpole_server.model.comparison import (
    ComparedWindow,
    Comparison,
    Quantiles,
    SampleDistribution,
)
from longpole_server.model.diagnosis import (
    Diagnosis,
)
from longpole_server.model.discovery import Registration, ScrapeTarget, ScrapingAgent
from longpole_server.model.energy import RunEnergy
from longpole_server.model.engines import EngineLanes
from longpole_server.model.facts import RunFacts, StepFacts
from longpole_server.model.gpu import GpuHeatmap, GpuNow, RunGpu
from longpole_server.model.metric import MetricColumnsPage
from longpole_server.model.run import Attempt, OpenStage, Pace, RunDetail, RunSummary, Source
from longpole_server.model.step import (
    Gap,
    OutsideStage,
    StageTime,
    Step,
    SyncPhase,
)
from longpole_server.model.storage import StorageReport
from longpole_server.model.stragglers import RunStragglers, Stragglers
from longpole_server.model.trajectory import Trajectory, TrajectoryDetail, TrajectoryPart
from longpole_server.service import (
    ChangeFeed,
    MetricSeries,
    StepDetail,
    StepRange,
    TrajectoryDistribution,
    TrajectorySort,
)
from longpole_server.service.interface import LAST_STEPS
from support.dashboard_fake_alarms import fill_alerts
from support.dashboard_fake_alerts import FakeAlerts
from support.dashboard_fake_cluster import (
    add_spare_nodes,
    make_lanes,
    make_node_gpus,
    make_nodes,
    make_storage,
)
from support.dashboard_fake_diagnosis import make_diagnosis, make_verdict
from support.dashboard_fake_engines import make_engine_lanes
from support.dashboard_fake_hardware import (
    make_gpu_series,
    make_processes,
    make_run_energy,
    make_run_stragglers,
    make_stage_energy,
    make_stragglers,
)
from support.dashboard_fake_runs import (
    ASYNC_RUN,
    BARE_RUN,
    BASELINE_RUN,
    HANGING_RUN,
    LIVE_RUN,
    make_specs,
)
from support.dashboard_fake_samples import (
    list_replica_gpus,
    make_metric,
    make_parts,
    make_replica_gpus,
)
from support.dashboard_workload import (
    PlannedStep,
    RunSpec,
    S,
    make_gpus,
    make_heatmap,
    make_trajectories,
    plan_steps,
)
from support.sample_facts import make_trajectory_facts

__all__ = ["ASYNC_RUN", "BARE_RUN", "BASELINE_RUN", "HANGING_RUN", "LIVE_RUN", "FakeService"]

_PLAN_LIMIT = 400


class FakeService:
    """Implements `longpole_server.service.Service`. What is true follows from the clock alone."""

    def __init__(
        self,
        now_ns: int,
        specs: Sequence[RunSpec] | None = None,
        spare_nodes: int = 2,
        plan_limit: int = _PLAN_LIMIT,
    ) -> None:
        self._lock = threading.Lock()
        self._now_ns = now_ns
        self._changes = ChangeFeed()
        self._spare_nodes = 0 if specs == () else spare_nodes
        chosen = make_specs(now_ns) if specs is None else specs
        self._specs = {spec.run_id: spec for spec in chosen}
        self._plans = {spec.run_id: tuple(islice(plan_steps(spec), plan_limit)) for spec in chosen}
        self._delay_s = 0.0
        self._hurry = threading.Event()
        self.alerts = FakeAlerts(now_ns=now_ns)
        if specs is None:
            fill_alerts(self.alerts, now_ns)
        self._changes.publish(now_ns)

    @property
    def changes(self) -> ChangeFeed:
        return self._changes

    def now_ns(self) -> int:
        return self._now_ns

    def slow_down(self, seconds: float) -> None:
        """Let every look at steps take so much longer; 0 ends those that are under way."""
        self._delay_s = seconds
        if seconds:
            self._hurry.clear()
        else:
            self._hurry.set()

    def advance(self, seconds: float) -> None:
        """Move the clock and tell everybody."""
        with self._lock:
            self._now_ns += int(seconds * S)
            self.alerts.now_ns = self._now_ns
        self._changes.publish(self._now_ns)

    def advance_past_step(self, run_id: str) -> int:
        """Move the clock just past the end of the run's open step and return its number."""
        planned = self._open_step(run_id)
        assert planned is not None, f"{run_id} has no open step"
        self.advance((planned.end_ns - self._now_ns) / S + 0.5)
        return planned.step

    def list_runs(self) -> Sequence[RunSummary]:
        summaries = [self._summary(spec) for spec in self._specs.values()]
        return sorted(
            summaries, key=lambda run: (run.state not in ("live", "stalled"), -run.started_ns)
        )

    def get_run(self, run_id: str) -> RunDetail:
        spec = self._spec(run_id)
        steps = self._known(run_id)
        numbers = [1] if spec.resume_at is None else [1, 2]
        attempts = tuple(
            self._attempt(spec, number, [step for step in steps if step.attempt == number])
            for number in numbers
        )
        source = Source("sdk", spec.hosts[0], 4711, "controller", self._now_ns)
        return RunDetail(
            summary=self._summary(spec),
            model_name="Qwen/Qwen3-8B",
            model_config=None,
            staleness_bound=spec.staleness,
            staleness_basis="versions" if spec.staleness else None,
            config=spec.config,
            attempts=attempts,
            sources=(source,),
        )

    def list_paces(self, run_id: str) -> Sequence[Pace]:
        closed = [step for step in self.list_steps(run_id) if step.duration_s is not None]
        return [Pace(step.throughput_tokens_per_s_per_gpu, step.end_ns) for step in closed[-40:]]

    def list_steps(
        self, run_id: str, first: int | None = None, last: int | None = None
    ) -> Sequence[Step]:
        spec = self._spec(run_id)
        self._hurry.wait(self._delay_s)
        return [
            self._step(spec, planned)
            for planned in self._known(run_id)
            if (first is None or planned.step >= first) and (last is None or planned.step <= last)
        ]

    def get_step(self, run_id: str, step: int) -> StepDetail:
        spec = self._spec(run_id)
        known = self._known(run_id)
        planned = next((found for found in known if found.step == step), None)
        if planned is None:
            raise NotFoundError(f"Run {run_id} has no step {step}.")
        made = self._step(spec, planned)
        numbers = [found.step for found in known]
        usual = [s.duration_s for s in self.list_steps(run_id) if s.duration_s is not None]
        facts = StepFacts(made, {}, make_trajectory_facts(self._trajectories(run_id, step)))
        known_run = RunFacts(run_id, spec.name, gpu_count=spec.gpu_count)
        tail, why = describe_tail(known_run, facts, spec.mode)
        return StepDetail(
            step=made,
            gaps=self._gaps(spec, planned),
            gpus=make_gpus(spec),
            replicas=tuple(f"replica-{i}" for i in range(4)) if spec.has_trajectories else (),
            lanes=(),
            sync_phases=self._sync_phases(spec, planned),
            diagnosis=make_diagnosis(spec, [made]),
            previous=step - 1 if step - 1 in numbers else None,
            following=step + 1 if step + 1 in numbers else None,
            usual_s=median(usual) if usual else None,
            long_tail=tail,
            long_tail_reason=why,
            energy=make_stage_energy(spec, made),
            stragglers=make_stragglers(spec) if made.closed_by else Stragglers(),
        )

    def list_trajectories(
        self,
        run_id: str,
        step: int,
        sort: TrajectorySort = "-duration",
        limit: int = 100,
        offset: int = 0,
    ) -> Sequence[Trajectory]:
        found = list(self._trajectories(run_id, step))
        keys: dict[str, Callable[[Trajectory], float]] = {
            "duration": lambda t: t.duration_s,
            "output_tokens": lambda t: t.output_tokens or 0,
            "start": lambda t: t.start_ns,
        }
        found.sort(key=keys[sort.removeprefix("-")], reverse=sort.startswith("-"))
        return found[offset : offset + limit]

    def get_distribution(self, run_id: str, step: int) -> TrajectoryDistribution:
        found = self._trajectories(run_id, step)
        facts = make_trajectory_facts(found)
        if facts is None:
            return TrajectoryDistribution(0, (), (), (), (), ())
        tail = measure_long_tail(facts)
        return TrajectoryDistribution(
            count=len(found),
            durations_s=tuple(t.duration_s for t in found),
            output_tokens=tuple(float(t.output_tokens or 0) for t in found),
            tool_s=tuple(t.tool_s or 0.0 for t in found),
            score_s=tuple(t.score_s or 0.0 for t in found),
            stop_at=tail.stop_at if tail else (),
            running=trace_running(facts, None),
        )

    def get_trajectory(self, run_id: str, trajectory_id: str) -> TrajectoryDetail:
        self._spec(run_id)
        step = int(trajectory_id.split("-")[0])
        found = self._trajectories(run_id, step)
        chosen = next((t for t in found if t.trajectory_id == trajectory_id), None)
        if chosen is None:
            raise NotFoundError(f"Run {run_id} has no sample {trajectory_id}.")
        siblings = tuple(t for t in found if t.group_id == chosen.group_id and t is not chosen)
        gpus = make_replica_gpus(chosen, make_gpus(self._spec(run_id)))
        hosts = tuple(sorted({gpu.host for gpu in gpus}))
        return TrajectoryDetail(chosen, make_parts(chosen), siblings, gpus, hosts)

    def get_sibling_parts(
        self, run_id: str, trajectory_id: str
    ) -> Mapping[str, Sequence[TrajectoryPart]]:
        siblings = self.get_trajectory(run_id, trajectory_id).siblings
        return {sibling.trajectory_id: make_parts(sibling) for sibling in siblings}

    def diagnose(self, run_id: str, first: int | None = None, last: int | None = None) -> Diagnosis:
        closed = [s for s in self.list_steps(run_id, first, last) if s.end_ns is not None]
        return make_diagnosis(self._spec(run_id), closed[-20:])

    def compare(
        self,
        run_id: str,
        other_run_id: str,
        steps: StepRange = LAST_STEPS,
        other_steps: StepRange = LAST_STEPS,
    ) -> Comparison:
        after, after_steps = self._compared(run_id, steps)
        before, before_steps = self._compared(other_run_id, other_steps)
        return Comparison(
            before=before,
            after=after,
            decomposition=decompose(before_steps, after_steps),
            distributions=(
                SampleDistribution(
                    "duration_s",
                    "s",
                    self._quantiles(before_steps, lambda t: t.duration_s),
                    self._quantiles(after_steps, lambda t: t.duration_s),
                ),
                SampleDistribution(
                    "output_tokens",
                    "tokens",
                    self._quantiles(before_steps, lambda t: t.output_tokens or 0),
                    self._quantiles(after_steps, lambda t: t.output_tokens or 0),
                ),
            ),
            config=compare_config(self._spec(other_run_id).config, self._spec(run_id).config),
        )

    def list_verdict_changes(self, run_id: str) -> Sequence[VerdictChange]:
        steps = [step for step in self.list_steps(run_id) if step.verdict is not None]
        if not steps:
            return ()
        first, now = steps[0].step, str(steps[-1].verdict)
        turned = steps[len(steps) // 2].step
        if turned == first:
            return (VerdictChange(first, now, None),)
        return (
            VerdictChange(first, "update.inefficient", None),
            VerdictChange(turned, now, "update.inefficient"),
        )

    def get_metric(self, run_id: str, name: str) -> MetricSeries:
        spec = self._spec(run_id)
        if spec.state == "imported" and name in ("kl_ref", "entropy"):
            return MetricSeries(name, ())
        closed = [planned for planned in self._known(run_id) if planned.end_ns <= self._now_ns]
        points = tuple(
            (planned.step, planned.end_ns, make_metric(spec, planned, name)) for planned in closed
        )
        return MetricSeries(name, tuple(p for p in points if not np.isnan(p[2])))

    def get_metrics(self, run_id: str, names: Sequence[str]) -> Mapping[str, MetricSeries]:
        return {name: self.get_metric(run_id, name) for name in names}

    def list_metrics(
        self,
        run_id: str,
        names: Sequence[str] | None = None,
        first: int | None = None,
        last: int | None = None,
        start: int = 0,
        max_points: int = 1_000_000,
    ) -> MetricColumnsPage:
        raise NotImplementedError

    def get_revision(self, run_id: str) -> int:
        plan = self._plans.get(run_id, ())
        return sum((p.start_ns <= self._now_ns) + (p.end_ns <= self._now_ns) for p in plan)

    def get_gpu_heatmap(
        self, run_id: str, field: str, start_ns: int, end_ns: int, max_bins: int
    ) -> GpuHeatmap:
        spec = self._spec(run_id)
        bin_ns = max(S, -(-(end_ns - start_ns) // max_bins))
        bins = max(1, -(-(end_ns - start_ns) // bin_ns))
        lanes = make_gpus(spec)
        if not lanes:
            return GpuHeatmap(field, (), start_ns, bin_ns, np.empty((0, bins), dtype=np.float32))
        centres = start_ns + (np.arange(bins, dtype=np.int64) * bin_ns) + bin_ns // 2
        values = make_heatmap(spec, list(self._known(run_id)), field, centres, self._now_ns)
        return GpuHeatmap(field, lanes, start_ns, bin_ns, values)

    def get_engine_lanes(
        self, run_id: str, start_ns: int, end_ns: int, max_bins: int, attempt: int | None = None
    ) -> EngineLanes:
        spec = self._spec(run_id)
        return make_engine_lanes(spec, self._known(run_id), start_ns, end_ns, max_bins)

    def list_replica_gpus(
        self, run_id: str, replica: str, start_ns: int, end_ns: int, attempt: int | None = None
    ) -> Sequence[RunGpu]:
        return list_replica_gpus(replica, make_gpus(self._spec(run_id)))

    def list_replica_hosts(
        self, run_id: str, replicas: Sequence[str], attempt: int | None = None
    ) -> Mapping[str, tuple[str, ...]]:
        lanes = make_gpus(self._spec(run_id))
        found = {name: {gpu.host for gpu in list_replica_gpus(name, lanes)} for name in replicas}
        return {name: tuple(sorted(hosts)) for name, hosts in found.items() if hosts}

    def get_stragglers(
        self, run_id: str, first: int | None = None, last: int | None = None
    ) -> RunStragglers:
        return make_run_stragglers(self._spec(run_id), self.list_steps(run_id, first, last))

    def get_energy(
        self, run_id: str, first: int | None = None, last: int | None = None
    ) -> RunEnergy:
        return make_run_energy(self._spec(run_id), self.list_steps(run_id, first, last))

    def get_gpu_series(
        self, host: str, gpu_uuid: str, start_ns: int, end_ns: int, max_bins: int
    ) -> Mapping[str, GpuHeatmap]:
        return make_gpu_series(host, gpu_uuid, start_ns, end_ns, max_bins)

    def list_host_processes(
        self, host: str | None, start_ns: int, end_ns: int, max_bins: int, limit: int = 100
    ) -> Sequence[ProcessMemory]:
        held = {gpu.host for gpu in self.list_gpus() if gpu.run_id is not None}
        hosts = sorted(held if host is None else held & {host})
        return make_processes(hosts, start_ns, end_ns, limit)

    def list_gpus(self) -> Sequence[GpuNow]:
        return [state.now for state in self.get_cluster().gpus]

    def get_cluster(self) -> ClusterNow:
        held = [spec for spec in self._specs.values() if spec.state in ("live", "stalled")]
        states = list[GpuState]()
        for spec in held:
            states += make_node_gpus(spec, list(self._known(spec.run_id)), self._now_ns)
        states = add_spare_nodes(states, self._spare_nodes, self._now_ns)
        states.sort(key=lambda state: (state.now.host, state.now.gpu_index))
        return ClusterNow(self._now_ns, make_nodes(states, self._now_ns), tuple(states))

    def get_cluster_heatmap(
        self, field: str, start_ns: int, end_ns: int, max_bins: int
    ) -> GpuHeatmap:
        bin_ns = max(S, -(-(end_ns - start_ns) // max_bins))
        bins = max(1, -(-(end_ns - start_ns) // bin_ns))
        lanes = make_lanes(self.get_cluster().gpus)
        centres = start_ns + (np.arange(bins, dtype=np.int64) * bin_ns) + bin_ns // 2
        values = np.full((len(lanes), bins), 0.01, dtype=np.float32)
        for spec in self._specs.values():
            rows = [index for index, lane in enumerate(lanes) if lane.run_id == spec.run_id]
            if rows:
                known = list(self._known(spec.run_id))
                values[rows] = make_heatmap(spec, known, field, centres, self._now_ns)[: len(rows)]
        return GpuHeatmap(field, lanes, start_ns, bin_ns, values)

    def get_storage(self) -> StorageReport:
        return make_storage(self._now_ns) if self._specs else StorageReport("here", None, ())

    def register_scrape_targets(self, registration: Registration) -> int:
        return len(registration.targets)

    def list_scrape_targets(self, agent: ScrapingAgent) -> Sequence[ScrapeTarget]:
        return ()

    def _compared(self, run_id: str, asked: StepRange) -> tuple[ComparedWindow, Sequence[Step]]:
        steps = self.list_steps(run_id, asked.first, asked.last)
        closed = [step for step in steps if step.end_ns is not None]
        spec = self._spec(run_id)
        first_steps = {1: 1} | ({2: spec.resume_at} if spec.resume_at is not None else {})
        window = summarise_window(closed if asked != LAST_STEPS else closed[-20:], first_steps)
        numbers = [step.step for step in window.judged]
        verdict, num_verdict = find_usual_verdict(window.judged)
        described = ComparedWindow(
            run_id=run_id,
            run_name=self._spec(run_id).name,
            first_step=min(numbers, default=asked.first),
            last_step=max(numbers, default=asked.last),
            num_judged=len(numbers),
            excluded=window.excluded,
            attempts=tuple(sorted({step.attempt for step in window.judged})),
            verdict=verdict,
            num_verdict=num_verdict,
        )
        return described, window.judged

    def _quantiles(self, steps: Sequence[Step], figure: Callable[[Trajectory], float]) -> Quantiles:
        values = [figure(t) for step in steps for t in self._trajectories(step.run_id, step.step)]
        if not values:
            return Quantiles(0, None, None, None, None)
        p50, p90, p99 = (float(value) for value in np.quantile(values, (0.5, 0.9, 0.99)))
        return Quantiles(len(values), p50, p90, p99, max(values))

    def _spec(self, run_id: str) -> RunSpec:
        if run_id not in self._specs:
            raise NotFoundError(f"There is no run {run_id}.", "See the list of runs.")
        return self._specs[run_id]

    def _known(self, run_id: str) -> tuple[PlannedStep, ...]:
        return tuple(p for p in self._plans[run_id] if p.start_ns <= self._now_ns)

    def _open_step(self, run_id: str) -> PlannedStep | None:
        return next((p for p in self._known(run_id) if p.end_ns > self._now_ns), None)

    def _trajectories(self, run_id: str, step: int) -> tuple[Trajectory, ...]:
        planned = next((p for p in self._known(run_id) if p.step == step), None)
        if planned is None:
            return ()
        made = make_trajectories(self._spec(run_id), planned)
        return tuple(t for t in made if t.end_ns <= self._now_ns)

    def _step(self, spec: RunSpec, planned: PlannedStep) -> Step:
        closed = planned.end_ns <= self._now_ns
        duration_s = (planned.end_ns - planned.start_ns) / S if closed else None
        done = [w for w in planned.windows if w[2] <= self._now_ns]
        times = tuple(
            StageTime(
                stage=stage,
                exclusive_s=(end - start) / S,
                inclusive_s=(end - start) / S,
                share_ratio=(end - start) / S / duration_s if duration_s else None,
                start_ns=start,
                end_ns=end,
                includes=(),
                source="scalar" if spec.state == "imported" else "span",
                windows=() if spec.state == "imported" else ((start, end),),
            )
            for stage, start, end in done
        )
        rate = planned.tokens / duration_s / spec.gpu_count if duration_s else None
        mfu = 0.36 + 0.01 * np.sin(planned.step) if closed and spec.has_mfu else None
        verdict, confidence = make_verdict(spec)
        return Step(
            run_id=spec.run_id,
            step=planned.step,
            attempt=planned.attempt,
            start_ns=planned.start_ns,
            end_ns=planned.end_ns if closed else None,
            duration_s=duration_s,
            closed_by="loop" if closed else None,
            stages=times,
            unattributed_s=duration_s - sum(t.exclusive_s for t in times) if duration_s else None,
            outside=tuple(
                OutsideStage(stage, (end - start) / S, start, end)
                for stage, start, end in planned.outside
                if end <= self._now_ns
            ),
            tokens_total=planned.tokens if closed else None,
            throughput_tokens_per_s_per_gpu=rate,
            mfu_actor=mfu,
            mfu_infer=mfu * 0.9 if mfu else None,
            mfu_step=mfu * 0.29 if mfu else None,
            gpu_count=spec.gpu_count,
            verdict=verdict if closed else None,
            confidence=confidence if closed else None,
        )

    def _summary(self, spec: RunSpec) -> RunSummary:
        known = self._known(spec.run_id)
        closed = [self._step(spec, p) for p in known if p.end_ns <= self._now_ns]
        newest = closed[-1] if closed else None
        over = spec.num_steps is not None and len(closed) == spec.num_steps
        last_ns = (closed[-1].end_ns or 0) if over else self._now_ns
        return RunSummary(
            run_id=spec.run_id,
            name=spec.name,
            project=spec.run_id.partition("/")[0],
            system="verl",
            system_version="0.9.1",
            algorithm=spec.algorithm,
            mode=spec.mode,
            mode_source="declared",
            state=spec.state,
            attempt=known[-1].attempt if known else 1,
            started_ns=spec.start_ns,
            last_seen_ns=last_ns,
            first_step=closed[0].step if closed else None,
            last_step=closed[-1].step if closed else None,
            num_steps=len(closed),
            gpu_count=spec.gpu_count,
            step_duration_s=newest.duration_s if newest else None,
            throughput_tokens_per_s_per_gpu=(
                newest.throughput_tokens_per_s_per_gpu if newest else None
            ),
            mfu_step=newest.mfu_step if newest else None,
            staleness_max=spec.staleness,
            verdict=newest.verdict if newest else None,
            confidence=newest.confidence if newest else None,
            open_alerts=sum(
                alert.run_id == spec.run_id for alert in self.alerts.list_alerts("firing")
            ),
            open_stage=None if over else self._open_stage(spec),
            time_estimated=spec.time_estimated,
        )

    def _open_stage(self, spec: RunSpec) -> OpenStage | None:
        planned = self._open_step(spec.run_id)
        if planned is None:
            return None
        running = [w for w in planned.windows if w[1] <= self._now_ns < w[2]]
        stage, since_ns = running[-1][:2] if running else ("step", planned.start_ns)
        earlier = [
            (end - start) / S
            for p in self._known(spec.run_id)
            if p.step != planned.step
            for start, end in [p.window(stage) or (p.start_ns, p.end_ns)]
        ]
        return OpenStage(
            step=planned.step,
            stage=stage,
            since_ns=since_ns,
            seen_ns=self._now_ns,
            usual_s=median(earlier) if earlier else None,
            usual_max_s=max(earlier) if earlier else None,
            step_since_ns=planned.start_ns,
        )

    def _attempt(self, spec: RunSpec, number: int, steps: Sequence[PlannedStep]) -> Attempt:
        latest = number == (1 if spec.resume_at is None else 2)
        return Attempt(
            attempt=number,
            started_ns=steps[0].start_ns if steps else spec.start_ns,
            ended_ns=None if latest or not steps else steps[-1].end_ns,
            status=spec.state if latest else "crashed",
            first_step=steps[0].step if steps else None,
            last_step=steps[-1].step if steps else None,
            num_steps=len(steps),
        )

    def _gaps(self, spec: RunSpec, planned: PlannedStep) -> tuple[Gap, ...]:
        reward = planned.window(stages.REWARD)
        if reward is None or not spec.has_gpus or reward[1] > self._now_ns:
            return ()
        seconds = (reward[1] - reward[0]) / S
        adv = planned.window(stages.ADV) or reward
        return (
            Gap(*reward, stages.REWARD, "hybrid", spec.gpu_count, seconds * spec.gpu_count),
            Gap(*adv, stages.ADV, "hybrid", spec.gpu_count, (adv[1] - adv[0]) / S * spec.gpu_count),
        )

    def _sync_phases(self, spec: RunSpec, planned: PlannedStep) -> tuple[SyncPhase, ...]:
        window = planned.window(stages.UPDATE_WEIGHTS)
        if window is None or spec.state == "imported" or window[1] > self._now_ns:
            return ()
        names = (("release_kv", 0.12), ("transfer", 0.66), ("finalize", 0.10), ("resume_kv", 0.12))
        start, phases = window[0], list[SyncPhase]()
        for name, share in names:
            end = start + int((window[1] - window[0]) * share)
            phases.append(SyncPhase(name, start, end))
            start = end
        return tuple(phases)
