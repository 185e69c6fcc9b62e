"""Asynchronous modes: how much of the rollout runs beside training, and who waits how long.

The trainer's exposed wait is what the loop waits for. Whether the rollout ran beside training is
seen, in this order, in the samples' own times, in the trainer's timers of its background task, and
in the activity of the rollout's GPUs or the engines while the trainer computes. The last two do
not see tools and scoring: they prove that there is overlap, and that there is none only where they
were at work while the trainer waited.
verl's `fully_async/rollouter/idle_ratio` keeps the last pause of a window only and is not read.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from longpole.conventions import stages
from longpole_server.analysis.intervals import Interval, clip, length, union
from longpole_server.diagnosis.gpu_activity import busy_part
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
_ROLLOUT_ROLE = "rollout"
# How far a wait may exceed the task that is waited for, by timers around it.
_TIMER_SLACK = 1.05
# The engines' window is the whole step in these modes, or they tell too little.
_WHOLE_STEP = 0.9
# Part of the trainer's wait in which the rollout was at work, for its absence otherwise to tell.
_OF_WAIT = 0.5
# Steps whose samples are laid beside the stages: more tell no more.
_MAX_STEPS = 6
# Capacity-weighted, over the whole version: active over most concurrent samples.
_UTILIZATION = "fully_async/dynamic_resource/rollout_resource_utilization"


@dataclass(frozen=True, slots=True)
class Overlap:
    """How two pools share a step.

    Attributes:
        train_s: Seconds a step in which the trainer computes.
        rollout_s: Seconds a step in which samples are generated.
        beside_s: Seconds a step in which both happen.
        source: Who told about the rollout.
    """

    train_s: float
    rollout_s: float
    beside_s: float
    source: str

    @property
    def ratio(self) -> float:
        """Time side by side over the shorter of both, 0..1."""
        return min(1.0, self.beside_s / min(self.train_s, self.rollout_s))


def measure_overlap(view: View) -> Overlap | None:
    """Return how rollout and training overlap, None when nobody tells."""
    train_s = view.seconds(*_TRAINING)
    if train_s <= 0:
        return None
    for measure in (_by_samples, _by_timers, _by_gpus, _by_engines):
        found = measure(view, train_s)
        if found is not None and found.rollout_s > 0:
            return found
    return None


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


def _by_gpus(view: View, train_s: float) -> Overlap | None:
    """The rollout's GPUs at work while the trainer computes, while it waits, and at any time."""
    beside_s, waited_s, rollout_s = 0.0, 0.0, 0.0
    is_seen = False
    for facts in view.facts:
        for window in facts.gpu_windows:
            if window.role != _ROLLOUT_ROLE or window.sm_active_ratio is None:
                continue
            spent_s = window.seconds * busy_part(window.sm_active_ratio, view.limits)
            rollout_s += spent_s
            if window.stage in _TRAINING:
                is_seen = True
                beside_s += spent_s
            elif window.stage in (stages.TRAINER_WAIT, stages.GEN):
                waited_s += spent_s
    if not is_seen:
        return None
    count = len(view.facts)
    found = Overlap(train_s, rollout_s / count, beside_s / count, "gpus")
    return _if_telling(view, found, waited_s / count)


def _if_telling(view: View, found: Overlap, waited_s: float) -> Overlap | None:
    """Return an overlap, or its absence where the rollout was at work during the trainer's wait."""
    if found.rollout_s <= 0:
        return None
    if found.ratio >= view.limits["async.overlap_ratio"]:
        return found
    return found if waited_s >= _OF_WAIT * view.wait_s > 0 else None


def _by_samples(view: View, train_s: float) -> Overlap | None:
    """Samples laid beside the stage windows of the steps that they ran in.

    Samples of a step ran before it; those that ran beside the last step's training belong to a
    step to come. With one step alone, samples from before it leave open what they ran beside.
    """
    sampled = [facts for facts in view.facts if facts.trajectories is not None][-_MAX_STEPS:]
    if not sampled:
        return None
    running = union(
        interval
        for facts in sampled
        if facts.trajectories is not None
        for interval in zip(facts.trajectories.start_ns, facts.trajectories.end_ns, strict=True)
    )
    told = _followed(sampled) or sampled[-1:]
    start_ns, end_ns = told[0].step.start_ns, told[-1].step.end_ns
    training = union(window for facts in told for window in _training_windows(facts))
    if end_ns is None or not training or not running:
        return None
    if told[-1] is sampled[-1] and (len(sampled) > 1 or running[0][0] < start_ns):
        return None
    inside = [part for each in running if (part := clip(each, (start_ns, end_ns))) is not None]
    beside_s = _common_ns(inside, training) / 1e9 / len(told)
    return Overlap(train_s, length(inside) / 1e9 / len(told), beside_s, "trajectories")


def _followed(sampled: Sequence[StepFacts]) -> list[StepFacts]:
    """Return the newest steps in a row whose next step is there too: it has their late samples."""
    told: list[StepFacts] = []
    for earlier, later in zip(reversed(sampled[:-1]), reversed(sampled[1:]), strict=True):
        if later.step.step != earlier.step.step + 1 or later.step.attempt != earlier.step.attempt:
            break
        told.append(earlier)
    return told[::-1]


def _training_windows(facts: StepFacts) -> list[Interval]:
    return [
        window
        for stage in facts.step.stages
        if stage.stage in _TRAINING
        for window in stage.windows
    ]


def _common_ns(first: list[Interval], second: list[Interval]) -> int:
    """Return the length of the common part of two lists of disjoint intervals."""
    return length(first) + length(second) - length(union([*first, *second]))


def _by_timers(view: View, train_s: float) -> Overlap | None:
    """One step ahead: what the background task takes beyond the wait for it ran beside training."""
    background_s = view.scalar(BACKGROUND_GEN)
    # Nobody waits longer for a task than it takes: then these timers do not mean the same batch.
    if background_s is None or view.wait_s > _TIMER_SLACK * background_s:
        return None
    beside_s = max(0.0, background_s - view.wait_s)
    return Overlap(train_s, background_s, beside_s, "scalars")


def _by_engines(view: View, train_s: float) -> Overlap | None:
    """The busiest engine at least: what it was busy beyond the trainer's wait."""
    engines = view.engines
    if engines is None or engines.busy_s is None:
        return None
    if not engines.seconds >= _WHOLE_STEP * view.step_s > 0:
        return None
    beside_s = max(0.0, engines.busy_s - view.wait_s)
    found = Overlap(train_s, engines.busy_s, beside_s, "engines")
    return _if_telling(view, found, min(engines.busy_s, view.wait_s))
