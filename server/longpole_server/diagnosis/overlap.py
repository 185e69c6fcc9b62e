"""Asynchronous modes: how much of the rollout runs beside training, and who waits how long.

The trainer's exposed wait is what the loop waits for. The rollout's time is measured where samples,
engines or the trainer's own timers tell it; what of it is not exposed ran beside training.
verl's `fully_async/rollouter/idle_ratio` keeps the last pause of a window only and is not read.
"""

from dataclasses import dataclass

from longpole.conventions import stages
from longpole_server.analysis.intervals import length, union
from longpole_server.diagnosis.baseline import mean_known
from longpole_server.diagnosis.look import BACKGROUND_GEN
from longpole_server.diagnosis.view import View
from longpole_server.model.facts import StepFacts

_TRAINING = (
    stages.UPDATE_ACTOR,
    stages.UPDATE_CRITIC,
    stages.OLD_LOG_PROB,
    stages.REF,
    stages.VALUES,
    stages.MAKE_EXPERIENCE,
)
# The engines' window is the whole step in these modes, or they tell too little.
_WHOLE_STEP = 0.9
# How far a wait may exceed the task that is waited for, by timers around it.
_TIMER_SLACK = 1.05
# Capacity-weighted, over the whole version: active over most concurrent samples.
_UTILIZATION = "fully_async/dynamic_resource/rollout_resource_utilization"


@dataclass(frozen=True, slots=True)
class Overlap:
    """How two pools share a step.

    Attributes:
        train_s: Seconds a step in which the trainer computes.
        rollout_s: Seconds a step in which samples are generated.
        wait_s: The trainer's exposed wait.
        ratio: Rollout beside training over the shorter of both, 0..1.
        source: Who told about the rollout.
    """

    train_s: float
    rollout_s: float
    wait_s: float
    ratio: float
    source: str


def measure_overlap(view: View) -> Overlap | None:
    """Return how rollout and training overlap, None when the rollout's time is not known."""
    rollout_s, source = _rollout_seconds(view)
    train_s = view.seconds(*_TRAINING)
    if rollout_s is None or train_s <= 0 or rollout_s <= 0:
        return None
    wait_s = view.wait_s
    beside_s = max(0.0, rollout_s - wait_s)
    ratio = min(1.0, beside_s / min(train_s, rollout_s))
    return Overlap(train_s, rollout_s, wait_s, ratio, source)


def rollout_idle_ratio(view: View) -> tuple[float, str] | None:
    """Return the part of the step in which the rollout side is held back, and who says so."""
    paused = view.metric("rollout_paused_ratio")
    if paused is not None:
        return paused, "scalars"
    busy = view.scalar(_UTILIZATION)
    if busy is not None:
        return max(0.0, 1.0 - busy), "scalars"
    waits = view.share(stages.ROLLOUT_WAIT)
    if waits > 0:
        return waits, view.ledger_source
    if view.engines is not None and view.engines.idle_ratio is not None:
        return view.engines.idle_ratio, "engines"
    return None


def _rollout_seconds(view: View) -> tuple[float | None, str]:
    background_s = view.scalar(BACKGROUND_GEN)
    # Nobody waits longer for a task than it takes: then these timers do not mean the same batch.
    if background_s is not None and view.wait_s <= _TIMER_SLACK * background_s:
        return background_s, "scalars"
    engines = view.engines
    if (
        engines is not None
        and engines.idle_ratio is not None
        and (engines.seconds >= _WHOLE_STEP * view.step_s > 0)
    ):
        return engines.seconds * (1 - engines.idle_ratio), "engines"
    sampled = [_seconds_of_samples(facts) for facts in view.facts]
    return mean_known(sampled), "trajectories"


def _seconds_of_samples(facts: StepFacts) -> float | None:
    """Return how long at least one sample of the step ran."""
    samples = facts.trajectories
    if samples is None or not len(samples.start_ns):
        return None
    return length(union(list(zip(samples.start_ns, samples.end_ns, strict=True)))) / 1e9
