"""Facts: what analysis reads and diagnosis judges. Built from spans, scalars, or both."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from longpole_server.model.records import StageSpan
from longpole_server.model.step import Step


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What the run says about itself. None is not reported."""

    run_id: str
    name: str
    system: str | None = None
    system_version: str | None = None
    algorithm: str | None = None
    mode: str | None = None
    gpu_count: int | None = None
    gpu_model: str | None = None
    model_config: Mapping[str, object] | None = None
    response_length_cap: int | None = None
    config: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class StepInputs:
    """Everything known about one step of one attempt, as it came in.

    Attributes:
        spans: Its stage, loop and sync-phase spans, of all processes.
        scalars: Its logged scalars under the trainer's names.
        scalars_ns: When they arrived, None without scalars.
        successor_start_ns: Start of the next step of the attempt, None while there is none.
        end_ns_hint: For logs without times: where this step ends on the estimated axis.
        trajectory_tokens: (sequence length of every training sample), empty when unknown.
    """

    run: RunFacts
    attempt: int
    step: int
    spans: Sequence[StageSpan] = ()
    scalars: Mapping[str, float] = field(default_factory=dict[str, float])
    scalars_ns: int | None = None
    successor_start_ns: int | None = None
    end_ns_hint: int | None = None
    sequence_lengths: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class TrajectoryFacts:
    """Training samples of one step, in numbers a rule needs. Durations in seconds.

    Attributes:
        durations_s, output_tokens, ...: One entry per sample, same order; None unknown.
        start_ns, end_ns: One entry per sample.
    """

    start_ns: Sequence[int]
    end_ns: Sequence[int]
    durations_s: Sequence[float]
    generate_s: Sequence[float | None]
    tool_s: Sequence[float | None]
    score_s: Sequence[float | None]
    queue_s: Sequence[float | None]
    output_tokens: Sequence[int | None]
    preemptions: Sequence[int | None]
    statuses: Sequence[str | None]
    replicas: Sequence[str | None]


@dataclass(frozen=True, slots=True)
class GpuWindow:
    """GPUs of one role over one stage window of a step: means of what was reported, 0..1."""

    stage: str
    role: str
    gpu_count: int
    seconds: float
    utilization_ratio: float | None = None
    sm_active_ratio: float | None = None
    tensor_active_ratio: float | None = None
    power_watts: float | None = None


@dataclass(frozen=True, slots=True)
class StepFacts:
    """One closed step with everything a rule may use. Absent layers are None or empty."""

    step: Step
    scalars: Mapping[str, float] = field(default_factory=dict[str, float])
    trajectories: TrajectoryFacts | None = None
    gpu_windows: Sequence[GpuWindow] = ()
