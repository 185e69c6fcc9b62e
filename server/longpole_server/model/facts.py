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
    model_name: str | None = None
    staleness_bound: float | None = None
    staleness_basis: str | None = None


@dataclass(frozen=True, slots=True)
class StepInputs:
    """Everything known about one step of one attempt, as it came in.

    Attributes:
        spans: Its stage, loop and sync-phase spans, of all processes.
        scalars: Its logged scalars under the trainer's names.
        scalars_ns: When they arrived, None without scalars.
        successor_start_ns: Start of the next step of the attempt, None while there is none.
        end_ns_hint: For logs without times: where this step ends on the estimated axis.
        sequence_lengths: Prompt plus response tokens of every training sample that tells both;
            empty when unknown.
        response_lengths: Response tokens of every training sample that tells them.
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
    response_lengths: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class TrajectoryFacts:
    """Training samples of one step, in numbers a rule needs. Durations in seconds.

    Attributes:
        durations_s, output_tokens, ...: One entry per sample, same order; None unknown. Columns
            with a default are empty when nothing was asked for them.
        start_ns, end_ns: One entry per sample.
        policy_versions_start: Oldest policy version that a sample was generated with.
        tools: Name of the tool that a sample spent most time in, None without tools.
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
    paused_s: Sequence[float | None] = ()
    input_tokens: Sequence[int | None] = ()
    turns: Sequence[int | None] = ()
    group_ids: Sequence[str | None] = ()
    rewards: Sequence[float | None] = ()
    policy_versions_start: Sequence[int | None] = ()
    policy_versions_end: Sequence[int | None] = ()
    tools: Sequence[str | None] = ()


@dataclass(frozen=True, slots=True)
class EngineWindow:
    """The engine of one replica over the gen window of a step. None is not reported.

    Attributes:
        seconds: Length of the window.
        kv_usage_mean_ratio, kv_usage_max_ratio: Of the KV pool, 0..1.
        running_mean, running_max, waiting_mean, waiting_max: Requests.
        preemptions: Requests preempted or retracted in the window, by the engine's counter.
        generated_tokens, prompt_tokens: Tokens in the window, by the engine's counters.
        prefix_hit_ratio: Prompt tokens found in the prefix cache, 0..1.
        idle_s: Seconds with nothing running and nothing waiting.
        capacity: Most requests it runs at once (`max_num_seqs`).
        recomputed_tokens: Tokens computed again for preempted requests, by the engine's counter.
        prefill_ratio: Part of the requests' compute time that went into prompts, 0..1.
        kv_usage_idle_ratio: Of the KV pool, still taken while nothing ran and nothing waited.
        queued_s: Seconds with requests waiting.
    """

    replica: str
    seconds: float
    kv_usage_mean_ratio: float | None = None
    kv_usage_max_ratio: float | None = None
    running_mean: float | None = None
    running_max: float | None = None
    waiting_mean: float | None = None
    waiting_max: float | None = None
    preemptions: float | None = None
    generated_tokens: float | None = None
    prompt_tokens: float | None = None
    prefix_hit_ratio: float | None = None
    idle_s: float | None = None
    capacity: float | None = None
    recomputed_tokens: float | None = None
    prefill_ratio: float | None = None
    kv_usage_idle_ratio: float | None = None
    queued_s: float | None = None


@dataclass(frozen=True, slots=True)
class SyncPhaseFacts:
    """One phase of the weight syncs of a step, summed. None is not reported."""

    phase: str
    seconds: float
    method: str | None = None
    transferred_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """One GPU over one step. None is not reported.

    Attributes:
        busy_s, idle_s: Seconds at work, and without, while a stage of its role ran.
        busy_sm_clock_hz: Mean SM clock while at work.
        throttled_ratio: Part of the samples at work that name a slowdown reason, 0..1.
        throttle_reasons: Those reasons by name (`hw_thermal_slowdown`, ...).
        reported_to_ns: Time of its last sample in the step.
        busy_power_watts: Mean power while at work.
    """

    gpu_uuid: str
    host: str
    gpu_index: int
    role: str
    busy_s: float | None = None
    idle_s: float | None = None
    busy_sm_clock_hz: float | None = None
    throttled_ratio: float | None = None
    throttle_reasons: tuple[str, ...] = ()
    reported_to_ns: int | None = None
    busy_power_watts: float | None = None


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
    dram_active_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class ObjectStoreFacts:
    """Ray's object store of one node over a step. None is not reported.

    Attributes:
        spilled_bytes, restored_bytes: Written to disk for want of memory, and read back.
        fallback_bytes: Most that was mapped from disk for want of memory.
        used_ratio: Most that was taken of its memory, 0..1.
    """

    host: str
    spilled_bytes: float | None = None
    restored_bytes: float | None = None
    fallback_bytes: float | None = None
    used_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class StepFacts:
    """One closed step with everything a rule may use. Absent layers are None or empty."""

    step: Step
    scalars: Mapping[str, float] = field(default_factory=dict[str, float])
    trajectories: TrajectoryFacts | None = None
    gpu_windows: Sequence[GpuWindow] = ()
    engine_windows: Sequence[EngineWindow] = ()
    sync_phases: Sequence[SyncPhaseFacts] = ()
    gpus: Sequence[GpuFacts] = ()
    object_stores: Sequence[ObjectStoreFacts] = ()
