"""What a simulated run is made of, as data: its workload, its cluster's ways, what is wrong."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from longpole.conventions.stages import UPDATE_ACTOR
from longpole_sim.models import ModelShape

Mode = Literal["sync", "colocate_async", "one_step_off", "fully_async", "separate_async"]
# Which of verl's trainers the scalars are named after; they log different things.
Trainer = Literal["v0", "v1"]


@dataclass(frozen=True, slots=True)
class Lengths:
    """Lognormal lengths in tokens, clipped to `cap`.

    Attributes:
        group_sigma: Spread between prompts; 0 makes all prompts alike.
        sample_sigma: Spread between the samples of one prompt.
    """

    median: float
    sample_sigma: float
    group_sigma: float = 0.0
    cap: int = 1_024

    def scaled(self, factor: float) -> "Lengths":
        """Return lengths `factor` times as long."""
        return replace(self, median=self.median * factor, cap=round(self.cap * factor))


@dataclass(frozen=True, slots=True)
class Latency:
    """Lognormal seconds of a call. A call gets stuck with some probability, for `stuck_s`."""

    name: str
    median_s: float
    sigma: float = 0.3
    stuck_probability: float = 0.0
    stuck_s: float = 0.0

    def scaled(self, factor: float) -> "Latency":
        """Return calls `factor` times as long."""
        return replace(self, median_s=self.median_s * factor, stuck_s=self.stuck_s * factor)


@dataclass(frozen=True, slots=True)
class ToolUse:
    """Tool calls of an agent loop.

    Attributes:
        call: How long one call takes.
        max_calls: Each sample makes up to this many calls, one between two turns.
        last_turn_tokens: Length of the turn after the last call.
        min_calls: The fewest.
    """

    call: Latency
    max_calls: int
    last_turn_tokens: int
    min_calls: int = 0


@dataclass(frozen=True, slots=True)
class WeightSync:
    """How new weights reach the engines; `transfer_s` is the phase that moves the bytes.

    Attributes:
        build_group_s: Making the process group that the bytes travel over.
    """

    method: str = "nccl"
    transfer_s: float = 0.55
    build_group_s: float = 0.08


@dataclass(frozen=True, slots=True)
class Incident:
    """Something that ends the usual course of a run in stage `stage` of step `step`.

    A `hang` stays in the stage for ever. A `crash` kills the trainer there, and a second attempt
    goes on from the last checkpoint.
    """

    kind: Literal["hang", "crash"]
    step: int
    stage: str = UPDATE_ACTOR


@dataclass(frozen=True, slots=True)
class Pools:
    """Trainer and rollout on GPUs of their own.

    Attributes:
        trainer_gpu_ratio: Part of the GPUs that train.
        launch: When the next batch's rollout starts: once the trainer took this one (`ahead`), or
            not before the trainer has finished with it (`serial`).
        buffer_batches: Batches that the buffer between the two holds.
    """

    trainer_gpu_ratio: float = 0.5
    launch: Literal["ahead", "serial"] = "ahead"
    buffer_batches: int = 1


@dataclass(frozen=True, slots=True)
class GpuFault:
    """One GPU that is not like the others.

    Attributes:
        kind: `throttled` runs at a lower clock; `lost` sends nothing from step `step` on; `idle`
            belongs to the run and is never used.
        index: Which of the run's GPUs.
        clock_ratio: Clock of a throttled one against the others.
    """

    kind: Literal["throttled", "lost", "idle"]
    index: int = 3
    step: int = 1
    clock_ratio: float = 0.55


@dataclass(frozen=True, slots=True)
class Change:
    """From step `step` on, numeric fields of the scenario are multiplied.

    Attributes:
        factors: By field: `decode_speed`, `actor_mfu`, `response` (its median), `sync` (its
            transfer), `reward_s`, `infer_mfu`, `controller_s`, ...
        again: Whether each further step multiplies once more.
    """

    step: int
    factors: Mapping[str, float]
    again: bool = False


@dataclass(frozen=True, slots=True)
class Drift:
    """A logged scalar that starts at `first` and goes on by `per_step`, with relative `noise`.

    Attributes:
        jump_step: From this step on it is `jump_to`; 0 is never.
    """

    name: str
    first: float
    per_step: float = 0.0
    noise: float = 0.05
    jump_step: int = 0
    jump_to: float = 0.0

    def at(self, step: int) -> float:
        """Return the value of a step, without its noise."""
        if self.jump_step and step >= self.jump_step:
            return self.jump_to
        return self.first + self.per_step * (step - 1)


@dataclass(frozen=True, slots=True)
class Scenario:
    """A workload and what is wrong with it.

    Attributes:
        title: For people, one line.
        verdict: Code that a diagnosis of its steps should give.
        samples_per_gpu: Trajectories of a step divided by the GPUs of the run.
        score: Scoring inside the rollout, per sample.
        decode_speed: Factor on the engines' tokens per second.
        slow_replica_speed: The same for one replica only.
        reward_s: A separate reward stage.
        actor_mfu, infer_mfu: Of the whole update stage; of the forward-only stages.
        critic_mfu: None without a critic.
        bubble_ratio: Part of each mini-batch in which the update's kernels do little.
        checkpoint_every, validation_every: In steps; 0 is never.
        cause: Second-level code behind a verdict on separate pools.
        findings, no_findings: Codes that must and must not stand beside the verdict.
        epochs: Passes of the update over the batch.
        inner_of_stage: MFU of the training passes over that of the whole stage.
        dp_imbalance: Tokens of the fullest data-parallel rank over the mean.
        reported_mfu: `true`, or what trainers write when they cannot know: `zero`, `absent`, and
            `impossible` for one divided by the wrong peak.
        tells_model: Whether the run sends the model's configuration.
        collect_s: From the end of the last sample to the end of gen.
        controller_s: What the controller does between two stages and no timer covers.
        prepare_s: A stage of batch preparation before gen.
        sleep_wake_s: Engines put to sleep and woken, as a stage of its own.
        max_running: Most sequences that one GPU of a replica decodes at once, None without a cap.
        kv_tokens: Room of the KV cache of one GPU of a replica, in tokens; None is enough room.
        prefill_tokens_per_s: Prompt tokens that one GPU of a replica reads in a second.
        prefix_cache: Whether samples of one prompt share its KV.
        groups_apart: Whether samples of one prompt go to different replicas.
        crowded_replica: Samples routed to one replica, as a factor; the others have fewer.
        filtered_ratio: Groups that are discarded after the rollout.
        stale_drop_ratio: Samples that are thrown away because they are too old.
        stop_ratio: Part of the samples at which a partial rollout stops; the rest goes on later.
        kv_floor_per_step: KV cache that stays taken while nothing runs, growing by this a step.
        overlap_ratio: Part of the reward stage that runs beside old_log_prob.
        kv_fill: Largest use of the KV cache, where it never runs full; None for room enough.
        lag, lag_per_step: Versions by which samples on separate pools are older than the newest
            weights when they are trained on, in the first step, and more in each further one.
        step_noise: Relative scatter of all stages, together, from step to step.
        first_step: Number of the first step: a run that goes on from an earlier one.
        steps: Steps that it takes to see what is wrong.
    """

    name: str
    title: str
    verdict: str
    cause: str | None = None
    findings: tuple[str, ...] = ()
    no_findings: tuple[str, ...] = ()
    mode: Mode = "sync"
    trainer: Trainer = "v0"
    pools: Pools | None = None
    algorithm: str = "grpo"
    model: ModelShape = field(default_factory=ModelShape)
    group_size: int = 16
    samples_per_gpu: int = 32
    prompt: Lengths = Lengths(median=240, sample_sigma=0.0, group_sigma=0.3, cap=1_024)
    response: Lengths = Lengths(median=130, sample_sigma=0.55, group_sigma=0.35)
    score: Latency = Latency("math_verify", 0.006, 0.4)
    tools: ToolUse | None = None
    decode_speed: float = 1.0
    slow_replica_speed: float = 1.0
    reward_s: float = 0.03
    actor_mfu: float = 0.41
    infer_mfu: float = 0.46
    critic_mfu: float | None = None
    bubble_ratio: float = 0.08
    mini_batches: int = 4
    epochs: int = 1
    inner_of_stage: float = 1.05
    dp_imbalance: float = 1.0
    reported_mfu: Literal["true", "zero", "absent", "impossible"] = "true"
    tells_model: bool = True
    sync: WeightSync = WeightSync()
    sleep_wake_s: float = 0.0
    prepare_s: float = 0.0
    collect_s: float = 0.12
    controller_s: float = 0.02
    max_running: int | None = None
    kv_tokens: float | None = None
    prefill_tokens_per_s: float = 27_000.0
    prefix_cache: bool = True
    groups_apart: bool = False
    crowded_replica: float = 1.0
    filtered_ratio: float = 0.0
    stale_drop_ratio: float = 0.0
    stop_ratio: float = 1.0
    kv_floor_per_step: float = 0.0
    overlap_ratio: float = 0.0
    checkpoint_every: int = 5
    checkpoint_s: float = 1.1
    validation_every: int = 10
    validation_samples_per_gpu: int = 4
    staleness_bound: float | None = None
    drifts: tuple[Drift, ...] = ()
    change: Change | None = None
    fault: GpuFault | None = None
    incident: Incident | None = None
    kv_fill: float | None = None
    lag: float = 1.0
    lag_per_step: float = 0.0
    step_noise: float = 0.0
    first_step: int = 1
    steps: int = 7

    @property
    def separate_pools(self) -> bool:
        """Whether trainer and rollout hold GPUs of their own."""
        return self.pools is not None

    def at(self, step: int) -> "Scenario":
        """Return the scenario as it is in a step: after its change, or before."""
        if self.change is None or step < self.change.step:
            return self
        changed = self
        times = step - self.change.step + 1 if self.change.again else 1
        for name, factor in self.change.factors.items():
            changed = changed.times(name, factor**times)
        return changed

    def times(self, name: str, factor: float) -> "Scenario":
        """Return the scenario with one numeric field, or what counts of it, multiplied."""
        value = getattr(self, name)
        if isinstance(value, WeightSync):
            return replace(self, sync=replace(value, transfer_s=value.transfer_s * factor))
        if isinstance(value, Lengths):
            return replace(self, **{name: replace(value, median=value.median * factor)})
        if isinstance(value, Latency):
            return replace(self, **{name: value.scaled(factor)})
        return replace(self, **{name: value * factor})
