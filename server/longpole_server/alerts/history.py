"""What rules read: the steps of a run so far, the run as it stands, GPUs, nodes, the server itself.

A rule judges one moment: `History.moment`. Live that is now, in a replay it is a time of the past.
"""

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from longpole_server.alerts.engines import EngineStep
from longpole_server.model.diagnosis import Entity
from longpole_server.model.facts import RunFacts
from longpole_server.model.run import OpenStage, RunState
from longpole_server.model.step import Step

RUN, GPU, HOST, REPLICA, SERVER = "run", "gpu", "host", "replica", "server"
THIS_SERVER = Entity(SERVER, "this server")
# Stands among the replicas for what the trainer logs of its own memory.
TRAINER = "trainer"
_TRAINER_MEMORY = "memory_allocated"
# Steps of an attempt that are kept as its opening, and newest ones that are kept beside them.
OPENING_STEPS = 40
NEWEST_STEPS = 256
# Steps back in which a replica must have worked to be expected to work.
_REPLICA_STEPS = 20


# Decisions within the same moment are told apart by far less.
_CLOCK_SLACK_NS = 10**9


@dataclass(frozen=True, slots=True)
class Moment:
    """The moment that is judged.

    Attributes:
        ts_ns: In the time of the data.
        decided_ns: On the clock of who judges.
        step: The step that closed, None for a moment between steps.
    """

    ts_ns: int
    decided_ns: int
    step: int | None = None

    @property
    def clock_went_back(self) -> bool:
        """Whether the wall clock is behind what was decided before: later times are past."""
        return self.step is None and self.decided_ns - self.ts_ns > _CLOCK_SLACK_NS


@dataclass(frozen=True, slots=True)
class ReplicaSamples:
    """Samples that one replica finished in a step."""

    replica: str
    num_samples: int
    newest_end_ns: int


@dataclass(frozen=True, slots=True)
class SampleCounts:
    """Training samples of a step, counted.

    Attributes:
        num_scored: Samples with a reward.
        num_zero_rewards: Samples whose reward is exactly 0.
        num_dropped_stale: Samples thrown away because they were too old.
        num_preempted: Samples that were preempted at least once.
        score_max_s, score_median_s: Of the times that scoring took, None when unknown.
        num_zero_at_max: Samples with a reward of 0 whose scoring took 0.98 of the longest or more.
        version_max: Newest policy version that generated any, None when unknown.
        version_min: Oldest policy version that any sample was begun with.
        lag_mean: Mean of how many versions a sample's first one is behind `version_max`.
        flight_mean: Mean of how many versions passed while a sample was generated.
        reward_split: Part of the variance of the rewards that lies between their two best
            groups, 0..1: 0.64 for a bell, 1 for two values. None with too few.
        reward_minority: Part of the samples in the smaller one of these groups.
        num_unscored: Samples without a reward that were not thrown away before they had one.
    """

    num_samples: int
    num_scored: int
    num_zero_rewards: int
    num_dropped_stale: int
    num_preempted: int
    num_reporting_preemptions: int
    score_max_s: float | None
    score_median_s: float | None
    num_zero_at_max: int
    version_max: int | None
    replicas: tuple[ReplicaSamples, ...] = ()
    version_min: int | None = None
    lag_mean: float | None = None
    flight_mean: float | None = None
    reward_split: float | None = None
    reward_minority: float | None = None
    num_unscored: int = 0


@dataclass(frozen=True, slots=True)
class StepPoint:
    """One closed step with its logged scalars and its samples.

    Attributes:
        samples: None where no sample is known.
        engines: What each rollout replica's engine did, by replica.
        figures: What was looked up of it already, by name: each step is read by many rules and
            many times.
    """

    step: Step
    scalars: Mapping[str, float] = field(default_factory=dict[str, float])
    samples: SampleCounts | None = None
    figures: dict[str, float | None] = field(
        default_factory=dict[str, "float | None"], compare=False, repr=False
    )
    engines: Mapping[str, EngineStep] = field(default_factory=dict[str, EngineStep])


@dataclass(frozen=True, slots=True)
class RunContext:
    """The run as it stands at the moment.

    Attributes:
        first_step: First step of this attempt, None before any.
        last_progress_ns: End of the newest closed step, else the attempt's start.
        patience_s: Time without progress after which the run counts as stalled.
        end_status: What the run said when it ended, None while it has not.
        checkpoint_step: Last step at which a checkpoint was seen, None without any.
        silent_because: Why hearing nothing says nothing of its processes; None where it does.
    """

    facts: RunFacts
    project: str
    attempt: int
    state: RunState
    started_ns: int
    last_seen_ns: int
    first_step: int | None
    last_progress_ns: int
    patience_s: float
    staleness_bound: float | None = None
    staleness_basis: str | None = None
    open_stage: OpenStage | None = None
    end_status: str | None = None
    checkpoint_step: int | None = None
    silent_because: str | None = None


@dataclass(frozen=True, slots=True)
class GpuMinute:
    """One GPU over the last minute: means of what it reported. Fractions 0..1.

    Attributes:
        newest_ns: Time of its newest sample, also when that is older than a minute.
        num_samples: Samples in the minute; the means are None without any.
        throttled_ratio: Part of the samples that say the clock is held back by heat or power.
        throttle_reasons: Bits of these reasons that were seen.
        xid: Number of the newest XID error of the last minutes; 0 where the driver would tell and
            there was none, None where nothing is told.
        ecc_errors: Memory errors of the last minutes that could not be corrected, None likewise.
    """

    host: str
    gpu_uuid: str
    gpu_index: int
    role: str
    newest_ns: int
    num_samples: int
    utilization_ratio: float | None = None
    sm_active_ratio: float | None = None
    tensor_active_ratio: float | None = None
    power_watts: float | None = None
    throttled_ratio: float | None = None
    throttle_reasons: int = 0
    xid: int | None = None
    ecc_errors: int | None = None

    @property
    def busy_ratio(self) -> float | None:
        """Activity of its multiprocessors, else its utilisation; None without a sample."""
        if not self.num_samples:
            return None
        return self.utilization_ratio if self.sm_active_ratio is None else self.sm_active_ratio

    @property
    def label(self) -> str:
        """Node and index, as people call it."""
        return f"{self.host}/{self.gpu_index}"


class GpuGroup(tuple[GpuMinute, ...]):
    """The GPUs of a run, looked up by uuid, node and role: every GPU is judged by the others."""

    @cached_property
    def by_uuid(self) -> Mapping[str, GpuMinute]:
        """Each GPU by its uuid."""
        return {gpu.gpu_uuid: gpu for gpu in self}

    @cached_property
    def newest_ns_of_host(self) -> Mapping[str, int]:
        """Time of the newest sample of any GPU of a node."""
        newest: dict[str, int] = {}
        for gpu in self:
            newest[gpu.host] = max(gpu.newest_ns, newest.get(gpu.host, gpu.newest_ns))
        return newest

    @cached_property
    def busy_of_role(self) -> Mapping[str, tuple[int, float]]:
        """How many GPUs of a role report how busy they are, and their median, 0..1."""
        ratios: defaultdict[str, list[float]] = defaultdict(list)
        for gpu in self:
            if gpu.busy_ratio is not None:
                ratios[gpu.role].append(gpu.busy_ratio)
        return {role: (len(found), statistics.median(found)) for role, found in ratios.items()}


@dataclass(frozen=True, slots=True)
class HostSeen:
    """A node of a live run, and when it was last heard of.

    Attributes:
        spool_used_ratio, disk_used_ratio: Of its agent's spool and the disk under it, 0..1; None
            where no agent says so.
        num_dropped: Batches that its agent dropped in the last minutes.
        heard_ns: When something new came from it last, on the server's clock; None in a replay,
            where only its own times are known.
        clock_ahead_s: By how much its agent found its clock ahead of the server's, negative where
            it is behind; None where no agent says so.
    """

    host: str
    newest_ns: int
    spool_used_ratio: float | None = None
    disk_used_ratio: float | None = None
    num_dropped: int | None = None
    heard_ns: int | None = None
    clock_ahead_s: float | None = None


@dataclass(frozen=True, slots=True)
class HardwareMinute:
    """GPUs and nodes of a run as they stood at a moment of the past."""

    ts_ns: int
    gpus: GpuGroup
    hosts: tuple[HostSeen, ...]


@dataclass(frozen=True, slots=True)
class OwnState:
    """The server itself.

    Attributes:
        up_s: Seconds since it started.
        num_pending: Accepted requests that are not stored yet.
        num_dropped: Requests refused or lost in the last minutes.
        dropped_window_s: How long those minutes are.
        disk_used_ratio: Of the data directory's file system, None when unknown.
        disk_free_bytes: The same, free.
        lag_s: For how long what is stored next has been waiting.
    """

    up_s: float
    num_pending: int
    num_dropped: int
    dropped_window_s: float
    disk_used_ratio: float | None = None
    disk_free_bytes: int | None = None
    lag_s: float = 0.0


@dataclass(frozen=True, slots=True)
class History:
    """Everything a detector may read, for one entity at one moment.

    Attributes:
        run: None for what belongs to no run.
        steps: Newest closed steps of the run's newest attempt in order; the judged one comes last.
        opening: The first closed steps of that attempt: what was usual when it began.
        gpus: GPUs that the run holds.
        hosts: Nodes of the run.
        own: The server, None in a replay.
    """

    moment: Moment
    run: RunContext | None = None
    steps: Sequence[StepPoint] = ()
    gpus: GpuGroup = field(default_factory=GpuGroup)
    hosts: Sequence[HostSeen] = ()
    own: OwnState | None = None
    opening: Sequence[StepPoint] = ()
    entity: Entity = THIS_SERVER

    @property
    def newest(self) -> StepPoint | None:
        """The step that is judged, None before any."""
        return self.steps[-1] if self.steps else None

    @property
    def gpu(self) -> GpuMinute | None:
        """The GPU that is judged."""
        return self.gpus.by_uuid.get(self.entity.id)

    @property
    def host(self) -> HostSeen | None:
        """The node that is judged."""
        return next((host for host in self.hosts if host.host == self.entity.id), None)

    def focus(self, entity: Entity) -> "History":
        """Return the same for another entity."""
        return History(
            self.moment,
            self.run,
            self.steps,
            self.gpus,
            self.hosts,
            self.own,
            self.opening,
            entity,
        )

    def list_entities(self, kind: str) -> list[Entity]:
        """Return the entities of a kind that there are."""
        match kind:
            case "run":
                ids = [self.run.facts.run_id] if self.run is not None else []
            case "gpu":
                ids = [gpu.gpu_uuid for gpu in self.gpus]
            case "host":
                ids = [host.host for host in self.hosts]
            case "replica":
                ids = self._list_replicas()
            case _:
                return [THIS_SERVER] if self.own is not None else []
        return [Entity(kind, each) for each in ids]

    def _list_replicas(self) -> list[str]:
        recent = self.steps[-_REPLICA_STEPS:]
        of_samples = {
            replica.replica
            for point in recent
            if point.samples is not None
            for replica in point.samples.replicas
        }
        of_engines = {replica for point in recent for replica in point.engines}
        names = sorted(of_samples | of_engines)
        logs_memory = any(_TRAINER_MEMORY in point.scalars for point in recent)
        return [*names, TRAINER] if logs_memory and TRAINER not in names else names
