"""Plans steps of a run whose trainer and rollout hold GPUs of their own and work side by side.

Batches are launched one ahead of the trainer. Times within this module count from the start of
the attempt; every step that leaves it counts from its own start.
"""

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from longpole.conventions.stages import GEN, SAVE_CHECKPOINT
from longpole_sim.cluster import Cluster
from longpole_sim.plan import TRAINED, PartPlan, StagePlan, StepPlan, TrajectoryPlan
from longpole_sim.samples import roll_out, training_batch
from longpole_sim.scenario import Scenario
from longpole_sim.seeding import around, random_for
from longpole_sim.shared_gpus import BETWEEN_STEPS_S, is_due
from longpole_sim.training import (
    draw_mfu,
    log_drifts,
    reported_mfu,
    stage_after,
    training_stages,
)

# What taking a batch from the buffer costs, even when it is there.
_TAKE_S = 0.05


@dataclass(frozen=True, slots=True)
class _Batch:
    """The samples of one step, and when the trainer can have them."""

    launched_s: float
    samples: tuple[TrajectoryPlan, ...]
    collect_s: float

    @property
    def ended_s(self) -> float:
        return max(item.end_s for item in self.samples)

    @property
    def ready_s(self) -> float:
        return self.ended_s + self.collect_s


def plan_pools(
    scenario: Scenario, cluster: Cluster, seed: int, first: int, attempt: int
) -> Iterator[StepPlan]:
    """Return the steps of an attempt from step `first` on, without end."""
    start_s = 0.0
    batch = _launch(scenario.at(first), cluster, seed, first, attempt, start_s)
    for step in itertools.count(first):
        now, after = scenario.at(step), scenario.at(step + 1)
        key = f"{seed}/{scenario.name}/{attempt}/{step}"
        stages = _stages(now, cluster, step, batch, start_s, key)
        end_s = stages[-1].end_s + now.controller_s
        following = _launch(after, cluster, seed, step + 1, attempt, _launch_s(now, stages, end_s))
        if now.mode != "one_step_off":
            sync = stages[-1]
            following = _pause(following, sync.start_s, sync.duration_s)
        yield _make_step(now, step, attempt, key, start_s, end_s, stages, (batch, following))
        start_s, batch = end_s + BETWEEN_STEPS_S, following


def _launch(
    scenario: Scenario, cluster: Cluster, seed: int, step: int, attempt: int, at_s: float
) -> _Batch:
    key = f"{seed}/{scenario.name}/{attempt}/{step}"
    samples = roll_out(scenario, cluster, training_batch(scenario, cluster, step), key, at_s)
    # One version behind is the newest there was when it began: that of the step before the last.
    lag = round(scenario.lag + scenario.lag_per_step * (step - scenario.first_step))
    versioned = tuple(
        dataclasses.replace(item, policy_version=max(0, step - 1 - lag)) for item in samples
    )
    return _Batch(at_s, versioned, around(random_for(key, "collect"), scenario.collect_s, 0.05))


def _launch_s(scenario: Scenario, stages: Sequence[StagePlan], end_s: float) -> float:
    if scenario.pools is not None and scenario.pools.launch == "serial":
        return end_s + BETWEEN_STEPS_S
    if scenario.mode == "one_step_off":
        return stages[1].end_s
    return stages[0].end_s


def _stages(
    scenario: Scenario, cluster: Cluster, step: int, batch: _Batch, start_s: float, key: str
) -> list[StagePlan]:
    begin_s = start_s + scenario.controller_s
    stages = [StagePlan(GEN, begin_s, max(begin_s + _TAKE_S, batch.ready_s))]
    generator = random_for(key, "stages")
    trained = [item for item in batch.samples if item.status in TRAINED]
    lengths = [item.input_tokens + item.output_tokens for item in trained]
    mfu = draw_mfu(scenario, key)
    durations = training_stages(scenario, lengths, len(cluster.trainer_gpus), mfu, generator)
    if scenario.mode == "one_step_off":
        # New weights go out before the next rollout starts and the update begins.
        durations.insert(0, durations.pop())
    if is_due(step, scenario.checkpoint_every):
        save = (SAVE_CHECKPOINT, around(generator, scenario.checkpoint_s, 0.05))
        durations.insert(len(durations) - 1, save)
    pace = around(random_for(key, "pace"), 1.0, scenario.step_noise)
    for name, duration_s in durations:
        stages.append(stage_after(scenario, stages[-1], name, duration_s * pace))
    return stages


def _pause(batch: _Batch, at_s: float, seconds: float) -> _Batch:
    """Let what runs at `at_s` wait for new weights, and go on with them."""
    samples = tuple(_pause_sample(item, at_s, seconds) for item in batch.samples)
    return dataclasses.replace(batch, samples=samples)


def _pause_sample(item: TrajectoryPlan, at_s: float, seconds: float) -> TrajectoryPlan:
    if item.end_s <= at_s:
        return item
    if item.start_s >= at_s:
        return item.shifted(seconds)
    parts: list[PartPlan] = []
    for part in item.parts:
        if part.end_s <= at_s:
            parts.append(part)
        elif part.start_s >= at_s:
            parts.append(part.shifted(seconds))
        elif part.kind in {"tool", "score"}:
            # What runs elsewhere does not notice; what follows does.
            parts.append(part)
        else:
            done = (at_s - part.start_s) / (part.end_s - part.start_s)
            first = dataclasses.replace(part, end_s=at_s, tokens=part.tokens * done)
            rest = dataclasses.replace(
                part,
                start_s=at_s + seconds,
                end_s=part.end_s + seconds,
                tokens=part.tokens * (1 - done),
                kv_tokens=part.kv_tokens + part.tokens * done,
            )
            parts += [first, rest]
    last_s = parts[-1].end_s
    return dataclasses.replace(
        item,
        parts=tuple(parts),
        end_s=last_s,
        paused_s=item.paused_s + max(0.0, last_s - item.end_s),
        policy_version_end=item.policy_version + 1,
    )


def _make_step(
    scenario: Scenario,
    step: int,
    attempt: int,
    key: str,
    start_s: float,
    end_s: float,
    stages: Sequence[StagePlan],
    batches: tuple[_Batch, _Batch],
) -> StepPlan:
    batch, following = batches
    next_s = end_s + BETWEEN_STEPS_S - start_s
    seen = (item.shifted(-start_s) for item in (*batch.samples, *following.samples))
    mfu = draw_mfu(scenario, key)
    return StepPlan(
        step=step,
        attempt=attempt,
        noise_seed=key,
        start_s=0.0,
        duration_s=end_s - start_s,
        stages=tuple(_shift_stage(stage, -start_s) for stage in stages),
        between=(),
        next_s=next_s,
        trajectories=tuple(item.shifted(-start_s) for item in batch.samples),
        validation=(),
        mfu=reported_mfu(scenario, mfu),
        stage_mfu=mfu,
        rollout=tuple(item for item in seen if item.end_s > 0 and item.start_s < next_s),
        rollout_window=(batch.launched_s - start_s, batch.ready_s - start_s),
        scalars=log_drifts(scenario, step, key),
    )


def _shift_stage(stage: StagePlan, seconds: float) -> StagePlan:
    phases = tuple(
        dataclasses.replace(phase, start_s=phase.start_s + seconds, end_s=phase.end_s + seconds)
        for phase in stage.phases
    )
    return dataclasses.replace(
        stage, start_s=stage.start_s + seconds, end_s=stage.end_s + seconds, phases=phases
    )
