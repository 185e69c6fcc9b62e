"""What a simulated step consists of. Seconds count from the start of the step."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from longpole_sim.scenario import Incident

# Statuses of samples that a step trains on.
TRAINED = frozenset({"success", "truncated"})


@dataclass(frozen=True, slots=True)
class PartPlan:
    """A window inside a trajectory. `kind` is `queue`, `generate`, `tool` or `score`.

    Attributes:
        tokens: Generated in it.
        kv_tokens: What the sample held of the KV cache when it began.
    """

    kind: str
    name: str
    start_s: float
    end_s: float
    tokens: float = 0.0
    kv_tokens: float = 0.0

    def shifted(self, seconds: float) -> "PartPlan":
        """Return the same window, later by that many seconds."""
        start_s, end_s = self.start_s + seconds, self.end_s + seconds
        return PartPlan(self.kind, self.name, start_s, end_s, self.tokens, self.kv_tokens)


@dataclass(frozen=True, slots=True)
class TrajectoryPlan:
    """One sample. Names and meanings are those of the SDK's `trajectory`.

    Attributes:
        step: The step that trains on it.
        cached_tokens: Prompt tokens that the engine's prefix cache held.
    """

    trajectory_id: str
    group_id: str
    replica: str
    node: int
    start_s: float
    end_s: float
    parts: tuple[PartPlan, ...]
    input_tokens: int
    output_tokens: int
    turns: int
    status: str
    reward: float
    policy_version: int
    preemptions: int = 0
    phase: str = "train"
    step: int = 0
    policy_version_end: int | None = None
    paused_s: float = 0.0
    cached_tokens: int = 0

    @property
    def duration_s(self) -> float:
        """Seconds from start to end."""
        return self.end_s - self.start_s

    def seconds(self, kind: str) -> float:
        """Return the summed seconds of the parts of one kind."""
        return sum([part.end_s - part.start_s for part in self.parts if part.kind == kind])

    def shifted(self, seconds: float) -> "TrajectoryPlan":
        """Return the same sample, later by that many seconds."""
        parts = tuple([part.shifted(seconds) for part in self.parts])
        return replace(
            self, start_s=self.start_s + seconds, end_s=self.end_s + seconds, parts=parts
        )


@dataclass(frozen=True, slots=True)
class PhasePlan:
    """A phase of the weight sync."""

    phase: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class StagePlan:
    """A stage. `phases`, `method` and `num_bytes` belong to a weight sync only."""

    stage: str
    start_s: float
    end_s: float
    phases: tuple[PhasePlan, ...] = ()
    method: str | None = None
    num_bytes: int | None = None

    @property
    def duration_s(self) -> float:
        """Seconds from start to end."""
        return self.end_s - self.start_s


@dataclass(frozen=True, slots=True)
class StepPlan:
    """One step, planned to the end.

    Attributes:
        noise_seed: Numbers of this step that nothing else depends on are drawn from it.
        start_s: When the step starts, counted from the start of the run's first attempt.
        duration_s: Seconds of the step itself.
        stages: Inside the step, in order, with small gaps that no stage covers.
        between: After the step and before the next one (`testing`).
        next_s: When the next step starts, counted from the start of this one.
        trajectories: Samples that the step trains on, and those it discarded. On shared GPUs all
            lie inside the window of `gen`; on separate pools they may begin before the step.
        rollout: Everything that the rollout's GPUs work on during the step; empty on shared GPUs,
            where these are `trajectories` and `validation`.
        rollout_window: From the launch of the step's samples to when all of them are there.
        validation: Samples inside the window of `testing`.
        sequence_lengths: Prompt plus response tokens of each training sample.
        mfu: As the trainer reports it, per worker role: `actor`, `actor_infer`, `critic`.
        stage_mfu: The same over the whole stages.
        scalars: Logged beside what the plan itself implies.
        incident: What ends this step early, if anything; its stage is the last of `stages`,
            with the end it would have had.
    """

    step: int
    attempt: int
    noise_seed: str
    start_s: float
    duration_s: float
    stages: tuple[StagePlan, ...]
    between: tuple[StagePlan, ...]
    next_s: float
    trajectories: tuple[TrajectoryPlan, ...]
    validation: tuple[TrajectoryPlan, ...]
    mfu: Mapping[str, float]
    incident: Incident | None = None
    stage_mfu: Mapping[str, float] = field(default_factory=dict[str, float])
    rollout: tuple[TrajectoryPlan, ...] = ()
    rollout_window: tuple[float, float] | None = None
    scalars: Mapping[str, float] = field(default_factory=dict[str, float])

    @property
    def trained(self) -> list[TrajectoryPlan]:
        """The samples that the step trains on."""
        return [item for item in self.trajectories if item.status in TRAINED]

    @property
    def sequence_lengths(self) -> list[int]:
        """Tokens of each training sample, prompt and response."""
        return [item.input_tokens + item.output_tokens for item in self.trained]

    @property
    def prompt_tokens(self) -> int:
        """Prompt tokens of the training samples."""
        return sum(item.input_tokens for item in self.trained)

    @property
    def response_tokens(self) -> int:
        """Response tokens of the training samples."""
        return sum(item.output_tokens for item in self.trained)

    def stage(self, name: str) -> StagePlan | None:
        """Return the named stage of this step, inside or after it, or None."""
        return next((item for item in self.stages + self.between if item.stage == name), None)

    def stretched(self, factor: float) -> "StepPlan":
        """Return the same step with every time multiplied by `factor`."""
        if factor == 1.0:
            return self
        return replace(
            self,
            start_s=self.start_s * factor,
            duration_s=self.duration_s * factor,
            next_s=self.next_s * factor,
            stages=tuple(_stretch_stage(item, factor) for item in self.stages),
            between=tuple(_stretch_stage(item, factor) for item in self.between),
            trajectories=tuple(_stretch_trajectory(item, factor) for item in self.trajectories),
            validation=tuple(_stretch_trajectory(item, factor) for item in self.validation),
            rollout=tuple(_stretch_trajectory(item, factor) for item in self.rollout),
            rollout_window=self.rollout_window
            and (self.rollout_window[0] * factor, self.rollout_window[1] * factor),
        )


def _stretch_stage(stage: StagePlan, factor: float) -> StagePlan:
    phases = tuple(
        PhasePlan(item.phase, item.start_s * factor, item.end_s * factor) for item in stage.phases
    )
    return replace(
        stage,
        start_s=stage.start_s * factor,
        end_s=stage.end_s * factor,
        phases=phases,
        # What takes longer by a factor is a model larger by it.
        num_bytes=None if stage.num_bytes is None else round(stage.num_bytes * factor),
    )


def _stretch_trajectory(trajectory: TrajectoryPlan, factor: float) -> TrajectoryPlan:
    parts = tuple(
        replace(item, start_s=item.start_s * factor, end_s=item.end_s * factor)
        for item in trajectory.parts
    )
    return replace(
        trajectory,
        start_s=trajectory.start_s * factor,
        end_s=trajectory.end_s * factor,
        paused_s=trajectory.paused_s * factor,
        parts=parts,
    )
