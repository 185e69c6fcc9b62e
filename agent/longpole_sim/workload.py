"""Plans a run of synchronous PPO or GRPO step by step. Pure: same arguments, same plan."""

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from longpole.conventions.stages import (
    ADV,
    GEN,
    OLD_LOG_PROB,
    REF,
    REWARD,
    SAVE_CHECKPOINT,
    TESTING,
    UPDATE_ACTOR,
    UPDATE_CRITIC,
    UPDATE_WEIGHTS,
    VALUES,
)
from longpole_sim.cluster import Cluster
from longpole_sim.models import H100_PEAK_FLOPS_PER_S, ModelShape
from longpole_sim.plan import PhasePlan, StagePlan, StepPlan, TrajectoryPlan
from longpole_sim.samples import roll_out, training_batch, validation_batch
from longpole_sim.scenarios import DEFAULT_SCENARIO, SCENARIOS, Incident, Scenario
from longpole_sim.seeding import around, random_for

# What the controller does between two stages and no timer covers (balancing, unions).
_GAP_S = 0.02
# From the end of the last sample to the end of gen: concatenation, engines put to sleep.
_GEN_END_S = 0.12
_BETWEEN_STEPS_S = 0.06
# From a crash to the start of the next attempt.
RESTART_S = 12.0
# The trainer's own MFU leaves out dispatch and offload, which the stage's seconds contain.
_INNER_TO_STAGE_MFU = 1.05
_SYNC_FIXED_S = (
    ("abort", 0.01),
    ("release_kv", 0.03),
    ("build_group", 0.08),
    ("transfer", 0.0),
    ("finalize", 0.05),
    ("resume_kv", 0.06),
    ("resume", 0.02),
)


@dataclass(frozen=True, slots=True)
class Run:
    """What all steps of a simulated run share."""

    scenario: Scenario
    cluster: Cluster
    model: ModelShape
    seed: int
    speed: float = 1.0

    @property
    def reported_model(self) -> ModelShape:
        """The model the run claims to train: at another speed, one of another size."""
        return self.model.scaled(1.0 / self.speed)


def make_run(
    scenario: str | Scenario = DEFAULT_SCENARIO,
    seed: int = 0,
    *,
    cluster: Cluster | None = None,
    speed: float = 1.0,
) -> Run:
    """Return a run of a named or own scenario.

    Raises:
        KeyError: No scenario has that name.
    """
    chosen = SCENARIOS[scenario] if isinstance(scenario, str) else scenario
    return Run(chosen, cluster or Cluster(), ModelShape(), seed, speed)


def plan_steps(
    scenario: str | Scenario = DEFAULT_SCENARIO,
    seed: int = 0,
    steps: int | None = None,
    *,
    cluster: Cluster | None = None,
    speed: float = 1.0,
) -> Iterator[StepPlan]:
    """Return the steps of a run in the order they happen, over all its attempts.

    Args:
        scenario: A name from `SCENARIOS`, or a scenario.
        seed: Same seed, same run.
        steps: Number of the last step; None for ever.
        cluster: Two nodes of eight GPUs when None.
        speed: Divides every duration.

    Raises:
        KeyError: No scenario has that name.
    """
    return plan_run(make_run(scenario, seed, cluster=cluster, speed=speed), steps)


def plan_run(run: Run, steps: int | None = None, first_attempt: int = 1) -> Iterator[StepPlan]:
    """Return the steps of all attempts from `first_attempt` on, the last one being `steps`."""
    start_s = 0.0
    for attempt in itertools.count(first_attempt):
        incident = run.scenario.incident
        for step in itertools.count(first_step_of_attempt(run.scenario, attempt)):
            if steps is not None and step > steps:
                return
            plan = plan_step(run, step, attempt)
            yield dataclasses.replace(plan, start_s=start_s)
            start_s += plan.next_s
            if plan.incident is not None:
                break
        if incident is None or incident.kind == "hang":
            return
        start_s += RESTART_S / run.speed


def first_step_of_attempt(scenario: Scenario, attempt: int) -> int:
    """Return the step an attempt starts with: the one after the last checkpoint."""
    incident = scenario.incident
    if attempt == 1 or incident is None or not scenario.checkpoint_every:
        return 1
    return (incident.step - 1) // scenario.checkpoint_every * scenario.checkpoint_every + 1


def plan_step(run: Run, step: int, attempt: int = 1) -> StepPlan:
    """Return one step of one attempt, starting at 0."""
    scenario = run.scenario
    seed = f"{run.seed}/{scenario.name}/{attempt}/{step}"
    gen_start_s = _GAP_S
    batch = training_batch(scenario, run.cluster, step)
    trajectories = roll_out(scenario, run.cluster, batch, seed, gen_start_s)
    mfu = _mfu(scenario, seed)
    durations = _stage_durations(run, step, trajectories, mfu, seed)
    gen_end_s = max(item.end_s for item in trajectories) + _GEN_END_S
    stages = [StagePlan(GEN, gen_start_s, gen_end_s)]
    for name, duration_s in durations:
        stages.append(_stage_after(run, stages[-1], name, duration_s))
    duration_s = stages[-1].end_s + _GAP_S
    between, validation = _validate(run, step, duration_s, seed)
    incident = _incident(scenario, step, attempt)
    if incident is not None:
        stages = list(_until(stages, incident.stage))
    plan = StepPlan(
        step=step,
        attempt=attempt,
        noise_seed=seed,
        start_s=0.0,
        duration_s=stages[-1].end_s if incident else duration_s,
        stages=tuple(stages),
        between=() if incident else between,
        next_s=(between[-1].end_s if between else duration_s) + _BETWEEN_STEPS_S,
        trajectories=trajectories,
        validation=() if incident else validation,
        mfu={name: value * _INNER_TO_STAGE_MFU for name, value in mfu.items()},
        incident=incident,
    )
    return plan.stretched(1.0 / run.speed)


def _mfu(scenario: Scenario, seed: str) -> dict[str, float]:
    generator = random_for(seed, "mfu")
    mfu = {
        "actor": around(generator, scenario.actor_mfu),
        "actor_infer": around(generator, scenario.infer_mfu),
    }
    if scenario.critic_mfu is not None:
        mfu["critic"] = around(generator, scenario.critic_mfu)
    return mfu


def _stage_durations(
    run: Run,
    step: int,
    trajectories: Sequence[TrajectoryPlan],
    mfu: dict[str, float],
    seed: str,
) -> list[tuple[str, float]]:
    """Return the stages after gen with their seconds, in the order a step runs them."""
    scenario, generator = run.scenario, random_for(seed, "stages")
    lengths = [item.input_tokens + item.output_tokens for item in trajectories]
    # Seconds of one training pass at MFU 1; reading alone is a third of the work.
    ideal_s = run.model.training_flops(lengths) / (run.cluster.gpu_count * H100_PEAK_FLOPS_PER_S)
    read_s = ideal_s / 3.0 / mfu["actor_infer"]
    durations = [
        (REWARD, around(generator, scenario.reward_s, 0.05)),
        (OLD_LOG_PROB, read_s),
        (REF, around(generator, read_s)),
    ]
    if "critic" in mfu:
        durations.append((VALUES, around(generator, read_s)))
    durations.append((ADV, around(generator, 0.05, 0.1)))
    if "critic" in mfu:
        durations.append((UPDATE_CRITIC, ideal_s / mfu["critic"]))
    durations.append((UPDATE_ACTOR, ideal_s / mfu["actor"]))
    if _is_due(step, scenario.checkpoint_every):
        durations.append((SAVE_CHECKPOINT, around(generator, scenario.checkpoint_s, 0.05)))
    fixed_s = sum(seconds for _, seconds in _SYNC_FIXED_S)
    durations.append((UPDATE_WEIGHTS, fixed_s + around(generator, scenario.sync.transfer_s, 0.03)))
    return durations


def _stage_after(run: Run, previous: StagePlan, name: str, duration_s: float) -> StagePlan:
    start_s = previous.end_s + _GAP_S
    stage = StagePlan(name, start_s, start_s + duration_s)
    if name != UPDATE_WEIGHTS:
        return stage
    transfer_s = duration_s - sum(seconds for _, seconds in _SYNC_FIXED_S)
    phases: list[PhasePlan] = []
    now_s = start_s
    for phase, fixed_s in _SYNC_FIXED_S:
        end_s = now_s + (transfer_s if phase == "transfer" else fixed_s)
        phases.append(PhasePlan(phase, now_s, end_s))
        now_s = end_s
    return dataclasses.replace(
        stage,
        phases=tuple(phases),
        method=run.scenario.sync.method,
        num_bytes=run.reported_model.weight_bytes,
    )


def _validate(
    run: Run, step: int, start_s: float, seed: str
) -> tuple[tuple[StagePlan, ...], tuple[TrajectoryPlan, ...]]:
    if not _is_due(step, run.scenario.validation_every):
        return (), ()
    start_s += _GAP_S
    batch = validation_batch(run.cluster, step)
    samples = roll_out(run.scenario, run.cluster, batch, seed, start_s)
    end_s = max(item.end_s for item in samples) + _GEN_END_S
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


def _is_due(step: int, every: int) -> bool:
    return every > 0 and step % every == 0
