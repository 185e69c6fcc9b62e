"""The trainer's own stages: how long they take, and what it says of its efficiency."""

import dataclasses
import random
from collections.abc import Sequence

from longpole.conventions.stages import (
    ADV,
    OLD_LOG_PROB,
    REF,
    UPDATE_ACTOR,
    UPDATE_CRITIC,
    UPDATE_WEIGHTS,
    VALUES,
)
from longpole_sim.models import H100_PEAK_FLOPS_PER_S
from longpole_sim.plan import PhasePlan, StagePlan
from longpole_sim.scenario import Scenario
from longpole_sim.seeding import around, random_for

# What verl reported on GH200 and H200 while it took them for an H20: peaks differ by this.
_WRONG_PEAK = 989.0 / 148.0
_TRANSFER = "transfer"
_BUILD_GROUP = "build_group"
_SYNC_FIXED_S = (
    ("abort", 0.01),
    ("release_kv", 0.03),
    (_BUILD_GROUP, 0.0),
    (_TRANSFER, 0.0),
    ("finalize", 0.05),
    ("resume_kv", 0.06),
    ("resume", 0.02),
)


def draw_mfu(scenario: Scenario, key: str) -> dict[str, float]:
    """Return a step's MFU over whole stages by worker role."""
    generator = random_for(key, "mfu")
    # All ranks wait for the fullest one, and for the one with the low clock, in every collective.
    pace = 1.0 / scenario.dp_imbalance
    if scenario.fault is not None and scenario.fault.kind == "throttled":
        pace *= scenario.fault.clock_ratio
    mfu = {
        "actor": around(generator, scenario.actor_mfu * pace),
        "actor_infer": around(generator, scenario.infer_mfu),
    }
    if scenario.critic_mfu is not None:
        mfu["critic"] = around(generator, scenario.critic_mfu)
    return mfu


def reported_mfu(scenario: Scenario, mfu: dict[str, float]) -> dict[str, float]:
    """Return what the trainer logs: its passes alone, divided by the peak that it knows."""
    if scenario.reported_mfu == "absent":
        return {}
    if scenario.reported_mfu == "zero":
        return dict.fromkeys(mfu, 0.0)
    factor = scenario.inner_of_stage
    if scenario.reported_mfu == "impossible":
        factor *= _WRONG_PEAK
    return {name: value * factor for name, value in mfu.items()}


def training_stages(
    scenario: Scenario,
    lengths: Sequence[int],
    num_gpus: int,
    mfu: dict[str, float],
    generator: random.Random,
) -> list[tuple[str, float]]:
    """Return the stages from the log probabilities to the weight sync with their seconds."""
    # Seconds of one training pass at MFU 1; reading alone is a third of the work.
    ideal_s = scenario.model.training_flops(lengths) / (num_gpus * H100_PEAK_FLOPS_PER_S)
    read_s = ideal_s / 3.0 / mfu["actor_infer"]
    durations = [(OLD_LOG_PROB, read_s), (REF, around(generator, read_s))]
    if "critic" in mfu:
        durations.append((VALUES, around(generator, read_s)))
    durations.append((ADV, around(generator, 0.05, 0.1)))
    passes_s = ideal_s * scenario.epochs
    if "critic" in mfu:
        durations.append((UPDATE_CRITIC, passes_s / mfu["critic"]))
    durations.append((UPDATE_ACTOR, passes_s / mfu["actor"]))
    durations.append((UPDATE_WEIGHTS, _sync_s(scenario, generator)))
    return durations


def _sync_s(scenario: Scenario, generator: random.Random) -> float:
    fixed_s = sum(seconds for _, seconds in _SYNC_FIXED_S) + scenario.sync.build_group_s
    return fixed_s + around(generator, scenario.sync.transfer_s, 0.03)


def stage_after(scenario: Scenario, previous: StagePlan, name: str, duration_s: float) -> StagePlan:
    """Return a stage behind another one; a weight sync with its phases."""
    start_s = previous.end_s + scenario.controller_s
    stage = StagePlan(name, start_s, start_s + duration_s)
    return sync_phases(scenario, stage) if name == UPDATE_WEIGHTS else stage


def sync_phases(scenario: Scenario, stage: StagePlan) -> StagePlan:
    """Return a weight sync with its phases, what it moves, and how."""
    fixed = dict(_SYNC_FIXED_S) | {_BUILD_GROUP: scenario.sync.build_group_s}
    fixed[_TRANSFER] = stage.duration_s - sum(fixed.values())
    phases: list[PhasePlan] = []
    now_s = stage.start_s
    for phase, seconds in fixed.items():
        phases.append(PhasePlan(phase, now_s, now_s + seconds))
        now_s += seconds
    return dataclasses.replace(
        stage,
        phases=tuple(phases),
        method=scenario.sync.method,
        num_bytes=scenario.model.weight_bytes,
    )


def log_drifts(scenario: Scenario, step: int, key: str) -> dict[str, float]:
    """Return the scalars that a scenario lets drift."""
    return {
        drift.name: around(random_for(key, drift.name), drift.at(step), drift.noise)
        for drift in scenario.drifts
    }
