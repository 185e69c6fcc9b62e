"""Plans steps of a run whose trainer and rollout take turns on the same GPUs."""

import dataclasses
from collections.abc import Iterator, Sequence

from longpole.conventions.stages import (
    GEN,
    OLD_LOG_PROB,
    PREPARE,
    REWARD,
    SAVE_CHECKPOINT,
    SLEEP_WAKE,
    TESTING,
)
from longpole_sim.cluster import Cluster
from longpole_sim.plan import PartPlan, StagePlan, StepPlan, TrajectoryPlan
from longpole_sim.samples import roll_out, training_batch, validation_batch
from longpole_sim.scenario import Incident, Scenario
from longpole_sim.seeding import around, random_for
from longpole_sim.training import (
    draw_mfu,
    log_drifts,
    reported_mfu,
    stage_after,
    training_stages,
)

BETWEEN_STEPS_S = 0.06


def plan_step(
    scenario: Scenario, cluster: Cluster, seed: int, step: int, attempt: int = 1
) -> StepPlan:
    """Return one step of one attempt, starting at 0."""
    scenario = scenario.at(step)
    key = f"{seed}/{scenario.name}/{attempt}/{step}"
    stages = _before_gen(scenario, key)
    gen_start_s = stages[-1].end_s + scenario.controller_s if stages else scenario.controller_s
    trajectories = _roll_out(scenario, cluster, step, key, gen_start_s)
    trained = [item for item in trajectories if item.status in {"success", "truncated"}]
    mfu = draw_mfu(scenario, key)
    collect_s = around(random_for(key, "collect"), scenario.collect_s, 0.05)
    gen_end_s = max(item.end_s for item in trajectories) + collect_s
    stages.append(StagePlan(GEN, gen_start_s, gen_end_s))
    for name, duration_s in _after_gen(scenario, cluster, step, trained, mfu, key):
        stages.append(stage_after(scenario, stages[-1], name, duration_s))
    _overlap(scenario, stages)
    duration_s = stages[-1].end_s + scenario.controller_s
    between, validation = _validate(scenario, cluster, step, duration_s, key)
    incident = _incident(scenario, step, attempt)
    if incident is not None:
        stages = list(_until(stages, incident.stage))
    return StepPlan(
        step=step,
        attempt=attempt,
        noise_seed=key,
        start_s=0.0,
        duration_s=stages[-1].end_s if incident else duration_s,
        stages=tuple(stages),
        between=() if incident else between,
        next_s=(between[-1].end_s if between else duration_s) + BETWEEN_STEPS_S,
        trajectories=trajectories,
        validation=() if incident else validation,
        mfu=reported_mfu(scenario, mfu),
        stage_mfu=mfu,
        incident=incident,
        rollout_window=(gen_start_s, gen_end_s),
        scalars=log_drifts(scenario, step, key),
    )


def _before_gen(scenario: Scenario, key: str) -> list[StagePlan]:
    if not scenario.prepare_s:
        return []
    prepare_s = around(random_for(key, "prepare"), scenario.prepare_s, 0.05)
    return [StagePlan(PREPARE, scenario.controller_s, scenario.controller_s + prepare_s)]


def _roll_out(
    scenario: Scenario, cluster: Cluster, step: int, key: str, start_s: float
) -> tuple[TrajectoryPlan, ...]:
    batch = training_batch(scenario, cluster, step)
    samples = roll_out(scenario, cluster, batch, key, start_s)
    if scenario.stop_ratio >= 1.0:
        return samples
    ends = sorted(item.end_s for item in samples)
    return stop_at(samples, ends[max(0, round(scenario.stop_ratio * len(ends)) - 1)])


def stop_at(samples: Sequence[TrajectoryPlan], stop_s: float) -> tuple[TrajectoryPlan, ...]:
    """Return the samples as a partial rollout leaves them that stops at `stop_s`."""
    return tuple(item if item.end_s <= stop_s else _cut(item, stop_s) for item in samples)


def _cut(item: TrajectoryPlan, stop_s: float) -> TrajectoryPlan:
    parts: list[PartPlan] = []
    for part in item.parts:
        if part.start_s >= stop_s:
            break
        done = min(1.0, (stop_s - part.start_s) / (part.end_s - part.start_s))
        parts.append(
            dataclasses.replace(part, end_s=min(part.end_s, stop_s), tokens=part.tokens * done)
        )
    return dataclasses.replace(
        item,
        end_s=stop_s,
        parts=tuple(parts),
        output_tokens=round(sum(part.tokens for part in parts)),
        status="aborted",
        reward=0.0,
    )


def _after_gen(
    scenario: Scenario,
    cluster: Cluster,
    step: int,
    trained: Sequence[TrajectoryPlan],
    mfu: dict[str, float],
    key: str,
) -> list[tuple[str, float]]:
    """Return the stages after gen with their seconds, in the order a step runs them."""
    generator = random_for(key, "stages")
    pace = around(random_for(key, "pace"), 1.0, scenario.step_noise)
    durations = [(REWARD, around(generator, scenario.reward_s, 0.05))]
    if scenario.sleep_wake_s:
        durations.append((SLEEP_WAKE, around(generator, scenario.sleep_wake_s, 0.05)))
    lengths = [item.input_tokens + item.output_tokens for item in trained]
    num_gpus = len(cluster.trainer_gpus)
    durations += training_stages(scenario, lengths, num_gpus, mfu, generator)
    if is_due(step, scenario.checkpoint_every):
        # verl saves before the weights go out.
        save = (SAVE_CHECKPOINT, around(generator, scenario.checkpoint_s, 0.05))
        durations.insert(len(durations) - 1, save)
    return [(name, seconds * pace) for name, seconds in durations]


def _overlap(scenario: Scenario, stages: list[StagePlan]) -> None:
    """Let old_log_prob begin while rewards are still being computed."""
    if not scenario.overlap_ratio:
        return
    for index in range(1, len(stages)):
        before, stage = stages[index - 1], stages[index]
        if before.stage == REWARD and stage.stage == OLD_LOG_PROB:
            earlier_s = scenario.overlap_ratio * before.duration_s
            stages[index] = dataclasses.replace(stage, start_s=stage.start_s - earlier_s)


def _validate(
    scenario: Scenario, cluster: Cluster, step: int, start_s: float, key: str
) -> tuple[tuple[StagePlan, ...], tuple[TrajectoryPlan, ...]]:
    if not is_due(step, scenario.validation_every):
        return (), ()
    start_s += scenario.controller_s
    batch = validation_batch(scenario, cluster, step)
    samples = roll_out(scenario, cluster, batch, key, start_s)
    end_s = max(item.end_s for item in samples) + scenario.collect_s
    return (StagePlan(TESTING, start_s, end_s),), samples


def _incident(scenario: Scenario, step: int, attempt: int) -> Incident | None:
    incident = scenario.incident
    if incident is None or attempt != 1 or step != incident.step:
        return None
    return incident


def _until(stages: Sequence[StagePlan], last: str) -> Iterator[StagePlan]:
    for stage in stages:
        yield stage
        if stage.stage == last:
            return


def is_due(step: int, every: int) -> bool:
    """Return whether something that comes every few steps comes in this one."""
    return every > 0 and step % every == 0
