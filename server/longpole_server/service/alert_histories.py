"""Reads what alert rules judge: steps of runs as they close, and the hardware of the minute."""

import statistics
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from longpole.conventions.attributes import STEP_STAGE
from longpole.conventions.stages import SAVE_CHECKPOINT
from longpole_server.alerts.engines import EngineStep
from longpole_server.alerts.history import (
    NEWEST_STEPS,
    OPENING_STEPS,
    GpuGroup,
    GpuMinute,
    HostSeen,
    ReplicaSamples,
    RunContext,
    SampleCounts,
    StepPoint,
)
from longpole_server.alerts.two_peaks import split_values
from longpole_server.model.gpu import GpuNow
from longpole_server.model.run import RunState, RunSummary
from longpole_server.model.step import Step
from longpole_server.read import AttemptRow, Reader
from longpole_server.read.alerts import (
    AgentRow,
    AlertReader,
    GpuFaultRow,
    GpuMinuteRow,
    ReplicaRow,
)
from longpole_server.service.alert_hardware import PastHardware
from longpole_server.service.conversions import make_run_facts
from longpole_server.service.engine_steps import EngineStepsReader, RunPlace
from longpole_server.service.memory import Memory
from longpole_server.service.run_states import (
    FINISHED_STATUSES,
    FIRST_STEP_PATIENCE_S,
    STALLED_AFTER_S,
    STALLED_STEPS,
    SUPERSEDED,
)
from longpole_server.service.runs import RunsReader
from longpole_server.service.silence import read_silence

# Newest steps that are read again whenever one closes: scalars and samples come in late.
_REFRESHED_STEPS = 5
# Of these, series of engines are read again too: an agent sends them a little later than that.
_FRESH_ENGINE_STEPS = 2
_MAX_RUNS_KEPT = 64
_MAX_REPLAYED_STEPS = 10_000
_REPLAY_CHUNK = 250
_DAY_NS = 86_400 * 10**9
_MINUTE_NS = 60 * 10**9
# Errors that a driver or an agent reports count for so long.
_FAULTS_NS = 600 * 10**9
# Where a run lies is looked up anew after so many seconds.
_PLACE_S = 10.0
_AT_MAX = 0.98


@dataclass(slots=True)
class RunSteps:
    """Closed steps of a run's newest attempt, in order: the newest, and the first."""

    attempt: int
    points: list[StepPoint] = field(default_factory=list[StepPoint])
    opening: list[StepPoint] = field(default_factory=list[StepPoint])


@dataclass(frozen=True, slots=True)
class Hardware:
    """GPUs and nodes of all runs at one moment."""

    gpus: Mapping[str, GpuNow]
    minute: Mapping[str, GpuMinuteRow]
    hosts: Mapping[str, int]
    faults: Mapping[str, GpuFaultRow]
    agents: Mapping[str, AgentRow]


class HistoryReader:
    """Reads histories. Not thread-safe, apart from `read_attempts` and `hardware`.

    Every method raises `StoreError` when the database fails.

    Args:
        reader: Reads steps, scalars and who holds which GPU.
        alert_reader: Counts samples and averages GPUs.
        runs: Answers for runs.
        now_s: Monotonic clock, seconds.
    """

    def __init__(
        self,
        reader: Reader,
        alert_reader: AlertReader,
        runs: RunsReader,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._now_s = now_s
        self._reader = reader
        self._alert_reader = alert_reader
        self._runs = runs
        self._kept: OrderedDict[str, RunSteps] = OrderedDict()
        self._engines = EngineStepsReader(alert_reader)
        self.hardware = PastHardware(reader, alert_reader)
        self._places = Memory()

    def list_steps(self, run_id: str, attempt: int) -> RunSteps:
        """Return the closed steps of an attempt as they were read last."""
        kept = self._kept.get(run_id)
        if kept is None or kept.attempt != attempt:
            return self.update_steps(run_id, attempt)
        return kept

    def update_steps(self, run_id: str, attempt: int) -> RunSteps:
        """Return the closed steps of an attempt, read anew as far as they may change."""
        kept = self._kept.get(run_id)
        if kept is None or kept.attempt != attempt:
            kept = self._kept[run_id] = RunSteps(attempt)
            if len(self._kept) > _MAX_RUNS_KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(run_id)
        known = {point.step.step: point.engines for point in kept.points}
        fresh = self._read_newest(run_id, attempt, _REFRESHED_STEPS if kept.points else None, known)
        if kept.points and fresh and fresh[0].step.step > kept.points[-1].step.step + 1:
            fresh = self._read_newest(run_id, attempt, None, known)
        if fresh:
            first = fresh[0].step.step
            older = [point for point in kept.points if point.step.step < first]
            kept.points = [*older, *fresh][-NEWEST_STEPS:]
        if len(kept.opening) < OPENING_STEPS and kept.points:
            kept.opening = self._read_opening(run_id, kept)
        return kept

    def describe_attempt(self, row: AttemptRow, kept: RunSteps) -> RunContext:
        """Return what step rules need of an attempt: no query but for where it runs."""
        start = row.start
        return RunContext(
            facts=make_run_facts(start, self._find_place(start.run_id, start.attempt).gpus),
            project=start.project or "",
            attempt=start.attempt,
            state="live",
            started_ns=start.started_ns,
            last_seen_ns=row.last_seen_ns,
            first_step=kept.opening[0].step.step if kept.opening else None,
            last_progress_ns=start.started_ns,
            patience_s=FIRST_STEP_PATIENCE_S,
            staleness_bound=start.staleness_bound,
            staleness_basis=start.staleness_basis,
            end_status=row.end.status if row.end is not None else None,
            checkpoint_step=find_checkpoint(kept.points),
        )

    def describe_run(self, summary: RunSummary, points: Sequence[StepPoint]) -> RunContext:
        """Return a live run as it stands."""
        row = self._runs.list_attempts(summary.run_id)[-1]
        digest = self._runs.get_digest(summary.run_id)
        stages = (STEP_STAGE, summary.open_stage.stage if summary.open_stage else STEP_STAGE)
        usual_s = max(
            (digest.usual[stage].median_s for stage in stages if stage in digest.usual),
            default=None,
        )
        extent = digest.extents.get(row.start.attempt)
        progress_ns = max(row.start.started_ns, digest.last_closed_ns or 0)
        place = self._find_place(summary.run_id, row.start.attempt)
        return RunContext(
            facts=make_run_facts(row.start, place.gpus),
            project=row.start.project or "",
            attempt=row.start.attempt,
            state=summary.state,
            started_ns=row.start.started_ns,
            last_seen_ns=summary.last_seen_ns,
            first_step=extent.first if extent is not None else None,
            last_progress_ns=progress_ns,
            patience_s=_patience_s(usual_s),
            staleness_bound=row.start.staleness_bound,
            staleness_basis=row.start.staleness_basis,
            open_stage=summary.open_stage,
            end_status=row.end.status if row.end is not None else None,
            checkpoint_step=find_checkpoint(points),
            silent_because=read_silence(
                self._reader, summary, digest.last_closed_ns, place.processes
            ),
        )

    def read_hardware(self, now_ns: int) -> Hardware:
        """Return GPUs and nodes of all runs."""
        gpus = self._reader.list_gpus(now_ns - _DAY_NS)
        hosts = self._alert_reader.list_hosts(now_ns - _DAY_NS)
        return Hardware(
            {gpu.gpu_uuid: gpu for gpu in gpus},
            self._alert_reader.read_gpu_minute(now_ns - _MINUTE_NS),
            hosts,
            self._alert_reader.read_gpu_faults(now_ns - _FAULTS_NS),
            self._read_agents(hosts, now_ns - _FAULTS_NS),
        )

    def _read_agents(self, hosts: Mapping[str, int], since_ns: int) -> Mapping[str, AgentRow]:
        """Return what agents said lately; of nodes whose clock is far behind, by their own time."""
        agents = self._alert_reader.read_agents(since_ns)
        behind = {name: newest_ns for name, newest_ns in hosts.items() if newest_ns < since_ns}
        if not behind:
            return agents
        first_ns = min(behind.values()) - _FAULTS_NS
        return {**self._alert_reader.read_agents(first_ns, sorted(behind)), **agents}

    def list_gpus(self, run_id: str, attempt: int, hardware: Hardware) -> GpuGroup:
        """Return the GPUs that an attempt holds, as they were in the last minute."""
        held = {
            gpu.gpu_uuid: gpu
            for gpu in self._find_place(run_id, attempt).gpus
            if gpu.attempt == attempt and gpu.until_ns is None
        }
        return GpuGroup(
            _describe_gpu(
                hardware.gpus[uuid],
                gpu.role,
                hardware.minute.get(uuid),
                hardware.faults.get(uuid),
            )
            for uuid, gpu in held.items()
            if uuid in hardware.gpus
        )

    def list_hosts(
        self, run_id: str, attempt: int, gpus: Sequence[GpuMinute], hardware: Hardware
    ) -> list[HostSeen]:
        """Return the nodes of an attempt that sent samples of their own in the last day."""
        names = {gpu.host for gpu in gpus} | self._find_place(run_id, attempt).hosts
        return [
            _describe_host(name, hardware.hosts[name], hardware.agents.get(name))
            for name in sorted(names)
            if name in hardware.hosts
        ]

    def read_attempts(self, run_id: str) -> Iterator[tuple[RunContext, list[StepPoint]]]:
        """Return each attempt of a stored run as it stood at its end, with its closed steps.

        Of a very long run, the newest 10,000 steps.

        Raises:
            NotFoundError: There is no such run.
        """
        rows = self._runs.list_attempts(run_id)
        state = self._runs.get_summary(run_id).state
        steps = [step for step in self._reader.list_steps(run_id) if step.closed_by is not None]
        steps = steps[-_MAX_REPLAYED_STEPS:]
        run_gpus = self._reader.list_run_gpus(run_id)
        for index, row in enumerate(rows):
            own = [step for step in steps if step.attempt == row.start.attempt]
            points = [
                point
                for first in range(0, len(own), _REPLAY_CHUNK)
                for point in self._read_points(
                    run_id, row.start.attempt, own[first : first + _REPLAY_CHUNK], {}
                )
            ]
            following = rows[index + 1] if index + 1 < len(rows) else None
            ended: RunState = state if following is None else _state_of_past(row, following)
            yield (
                RunContext(
                    facts=make_run_facts(row.start, run_gpus),
                    project=row.start.project or "",
                    attempt=row.start.attempt,
                    state="finished" if ended == "imported" else ended,
                    started_ns=min([row.start.started_ns, *(step.start_ns for step in own[:1])]),
                    last_seen_ns=row.last_seen_ns,
                    first_step=own[0].step if own else None,
                    last_progress_ns=row.start.started_ns,
                    patience_s=FIRST_STEP_PATIENCE_S,
                    staleness_bound=row.start.staleness_bound,
                    staleness_basis=row.start.staleness_basis,
                    end_status=row.end.status if row.end is not None else None,
                    checkpoint_step=find_checkpoint(points),
                ),
                points,
            )

    def _find_place(self, run_id: str, attempt: int) -> RunPlace:
        """Return where an attempt runs, as it was known not long ago."""
        return self._places.ask(
            (run_id, attempt),
            int(self._now_s() / _PLACE_S),
            lambda: RunPlace(
                tuple(self._reader.list_run_gpus(run_id)),
                tuple(
                    process
                    for process in self._reader.list_processes(run_id)
                    if process.attempt == attempt
                ),
            ),
        )

    def _read_opening(self, run_id: str, kept: RunSteps) -> list[StepPoint]:
        if len(kept.points) < NEWEST_STEPS:
            # All of the attempt is at hand.
            return kept.points[:OPENING_STEPS]
        extent = self._runs.get_digest(run_id).extents.get(kept.attempt)
        if extent is None or kept.points[0].step.step <= extent.first:
            return kept.points[:OPENING_STEPS]
        # Of a run that was long before this server saw it.
        steps = self._reader.list_steps(run_id, extent.first, extent.first + 2 * OPENING_STEPS)
        own = [
            step for step in steps if step.attempt == kept.attempt and step.closed_by is not None
        ]
        # What engines did then is no baseline of anything.
        own = own[:OPENING_STEPS]
        return self._read_points(run_id, kept.attempt, own, {step.step: {} for step in own})

    def _read_newest(
        self,
        run_id: str,
        attempt: int,
        count: int | None,
        known: Mapping[int, Mapping[str, EngineStep]],
    ) -> list[StepPoint]:
        steps = self._reader.list_last_steps(run_id, count or NEWEST_STEPS)
        own = [step for step in steps if step.attempt == attempt]
        settled = {step.step for step in own[:-_FRESH_ENGINE_STEPS]}
        kept = {step: engines for step, engines in known.items() if step in settled}
        return self._read_points(run_id, attempt, own, kept)

    def _read_points(
        self,
        run_id: str,
        attempt: int,
        steps: Sequence[Step],
        known: Mapping[int, Mapping[str, EngineStep]],
    ) -> list[StepPoint]:
        """Return steps with what belongs to them; what engines did is read where not known."""
        if not steps:
            return []
        unknown = [step for step in steps if step.step not in known]
        place = self._find_place(run_id, attempt)
        engines = {**known, **self._engines.read(run_id, attempt, unknown, place)}
        scalars = self._reader.list_scalars(run_id, [(attempt, step.step) for step in steps])
        samples = self._alert_reader.count_samples(run_id, attempt, steps)
        return [
            StepPoint(
                step,
                scalars.get((attempt, step.step), {}),
                count_rows(samples.get(step.step, ())),
                engines=engines.get(step.step, {}),
            )
            for step in steps
        ]


def count_rows(rows: Sequence[ReplicaRow]) -> SampleCounts | None:
    """Return the samples of a step, counted; None without any."""
    if not rows:
        return None
    score_s = [seconds for row in rows for seconds in row.score_s]
    longest_s = max(score_s, default=None)
    zero_s = [seconds for row in rows for seconds in row.zero_score_s]
    versions = [row.version_max for row in rows if row.version_max is not None]
    begun = [row.version_min for row in rows if row.version_min is not None]
    split = split_values([reward for row in rows for reward in row.rewards])
    return SampleCounts(
        num_samples=sum(row.num_samples for row in rows),
        num_scored=sum(row.num_scored for row in rows),
        num_zero_rewards=sum(row.num_zero_rewards for row in rows),
        num_dropped_stale=sum(row.num_dropped_stale for row in rows),
        num_preempted=sum(row.num_preempted for row in rows),
        num_reporting_preemptions=sum(row.num_reporting_preemptions for row in rows),
        score_max_s=longest_s,
        score_median_s=statistics.median(score_s) if score_s else None,
        num_zero_at_max=sum(
            longest_s is not None and seconds >= _AT_MAX * longest_s for seconds in zero_s
        ),
        version_max=max(versions, default=None),
        version_min=min(begun, default=None),
        lag_mean=_mean_lag(rows, max(versions, default=None)),
        flight_mean=_mean_flight(rows),
        reward_split=split[0] if split is not None else None,
        reward_minority=split[1] if split is not None else None,
        num_unscored=sum(row.num_unscored for row in rows),
        replicas=tuple(
            ReplicaSamples(row.replica, row.num_samples, row.newest_end_ns)
            for row in rows
            if row.replica
        ),
    )


def _mean_lag(rows: Sequence[ReplicaRow], newest: int | None) -> float | None:
    """Return how many versions the samples were begun behind the newest one, on average."""
    count = sum(row.num_versions for row in rows)
    if not count or newest is None:
        return None
    return newest - sum(row.version_sum for row in rows) / count


def _mean_flight(rows: Sequence[ReplicaRow]) -> float | None:
    count = sum(row.num_versions for row in rows)
    return sum(row.flight_sum for row in rows) / count if count else None


def find_checkpoint(points: Sequence[StepPoint]) -> int | None:
    """Return the last step that saved a checkpoint, None when none is seen."""
    return next(
        (
            point.step.step
            for point in reversed(points)
            if any(
                stage.stage == SAVE_CHECKPOINT
                for stage in (*point.step.stages, *point.step.outside)
            )
        ),
        None,
    )


def _patience_s(usual_s: float | None) -> float:
    if usual_s is None:
        return FIRST_STEP_PATIENCE_S
    return max(STALLED_STEPS * usual_s, STALLED_AFTER_S)


def _state_of_past(row: AttemptRow, following: AttemptRow) -> RunState:
    """Return how an attempt ended that another one followed."""
    if row.end is not None and row.end.status.lower() in FINISHED_STATUSES:
        return "finished"
    if row.end is not None and row.end.status != SUPERSEDED:
        return "crashed"
    silent_s = (following.start.started_ns - row.last_seen_ns) / 1e9
    return "lost" if silent_s > STALLED_AFTER_S else "finished"


def _describe_host(name: str, newest_ns: int, agent: AgentRow | None) -> HostSeen:
    if agent is None:
        return HostSeen(name, newest_ns)
    return HostSeen(
        name,
        newest_ns,
        agent.spool_used_ratio,
        agent.disk_used_ratio,
        agent.num_dropped,
        clock_ahead_s=agent.clock_ahead_s,
    )


def _describe_gpu(
    now: GpuNow, role: str, minute: GpuMinuteRow | None, fault: GpuFaultRow | None
) -> GpuMinute:
    xid = fault.xid if fault is not None else None
    ecc_errors = fault.ecc_errors if fault is not None else None
    if minute is None:
        return GpuMinute(
            now.host,
            now.gpu_uuid,
            now.gpu_index,
            role,
            now.ts_ns,
            0,
            xid=xid,
            ecc_errors=ecc_errors,
        )
    return GpuMinute(
        host=now.host,
        gpu_uuid=now.gpu_uuid,
        gpu_index=now.gpu_index,
        role=role,
        newest_ns=now.ts_ns,
        num_samples=minute.num_samples,
        utilization_ratio=minute.utilization_ratio,
        sm_active_ratio=minute.sm_active_ratio,
        tensor_active_ratio=minute.tensor_active_ratio,
        power_watts=minute.power_watts,
        throttled_ratio=(
            minute.num_throttled / minute.num_with_reasons if minute.num_with_reasons else None
        ),
        throttle_reasons=minute.throttle_reasons,
        xid=xid,
        ecc_errors=ecc_errors,
    )
