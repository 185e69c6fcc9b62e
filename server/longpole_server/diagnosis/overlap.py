"""Asynchronous modes: how much of the rollout runs beside training, and who waits how long.

The trainer's exposed wait is what the loop waits for. Whether the rollout ran beside training is
seen, in this order, in the samples' own times, in the trainer's timers of its background task, and
in the activity of the rollout's GPUs or the engines while the trainer computes.
GPUs and engines do not see tools and scoring: GPUs at work while the trainer waits but never while
it trains make it likely that both take turns, no more. Engines tell their busy time over the whole
step, not when it was: that bounds the overlap from below, and proves nothing where it is 0.
verl's `fully_async/rollouter/idle_ratio` keeps the last pause of a window only and is not read.
"""

from dataclasses import dataclass

from longpole.conventions import stages
from longpole_server.diagnosis.gpu_activity import busy_part
from longpole_server.diagnosis.laid_samples import TRAINING
from longpole_server.diagnosis.look import BACKGROUND_GEN
from longpole_server.diagnosis.view import View
from longpole_server.model.step import Confidence

_ROLLOUT_ROLE = "rollout"
# How far a wait may exceed the task that is waited for, by timers around it.
_TIMER_SLACK = 1.05
# The engines' window is the whole step in these modes, or they tell too little.
_WHOLE_STEP = 0.9
# Part of the trainer's wait in which GPUs must be at work, for their rest otherwise to tell.
_SEEN_AT_WORK = 0.1
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
        at_most: How sure its absence is at most.
    """

    train_s: float
    rollout_s: float
    beside_s: float
    source: str
    at_most: Confidence = "high"

    @property
    def ratio(self) -> float:
        """Time side by side over the shorter of both, 0..1."""
        return min(1.0, self.beside_s / min(self.train_s, self.rollout_s))


def measure_overlap(view: View) -> Overlap | None:
    """Return how rollout and training overlap, None when nobody tells."""
    train_s = view.seconds(*TRAINING)
    if train_s <= 0:
        return None
    for measure in (_by_samples, _by_timers, _by_gpus, _by_engines):
        found = measure(view, train_s)
        if found is not None and found.rollout_s > 0:
            return found
    return None


def rollout_idle_ratio(view: View) -> tuple[float, str] | None:
    """Return the part of the step in which the rollout side is held back, and who says so.

    Engines stand idle as well while their samples are in tools or being scored.
    """
    paused = view.metric("rollout_paused_ratio")
    if paused is not None:
        return paused, "scalars"
    busy = view.scalar(_UTILIZATION)
    if busy is not None:
        return max(0.0, 1.0 - busy), "scalars"
    waits = view.share(stages.ROLLOUT_WAIT)
    if waits > 0:
        return waits, view.ledger_source
    # A weight sync stops the rollout too; that holds nobody back but the sync.
    synced = view.share(stages.UPDATE_WEIGHTS)
    seen = view.laid_samples
    if seen is not None and seen.step_s > 0:
        return max(0.0, 1.0 - seen.running_s / seen.step_s - synced), "trajectories"
    if view.engines is not None and view.engines.idle_ratio is not None:
        return max(0.0, view.engines.idle_ratio - synced), "engines"
    return None


def _by_gpus(view: View, train_s: float) -> Overlap | None:
    """The rollout's GPUs at work while the trainer computes, while it waits, and at any time."""
    of_training, of_wait, rollout_s = _Activity(), _Activity(), 0.0
    for facts in view.facts:
        for window in facts.gpu_windows:
            if window.role != _ROLLOUT_ROLE or window.sm_active_ratio is None:
                continue
            spent_s = window.seconds * busy_part(window.sm_active_ratio, view.limits)
            rollout_s += spent_s
            if window.stage in TRAINING:
                of_training.add(window.seconds, spent_s)
            elif window.stage in (stages.TRAINER_WAIT, stages.GEN):
                of_wait.add(window.seconds, spent_s)
    if of_training.seconds <= 0 or rollout_s <= 0:
        return None
    count = len(view.facts)
    beside_s = of_training.spent_s / count
    found = Overlap(train_s, rollout_s / count, beside_s, "gpus", "medium")
    limit = view.limits["async.overlap_ratio"]
    if found.ratio >= limit:
        return found
    # Their mean is low in a tail, where most stand idle: rates are compared, not seconds.
    is_seen = of_wait.rate >= _SEEN_AT_WORK and of_training.rate < limit * of_wait.rate
    return found if is_seen else None


@dataclass(slots=True)
class _Activity:
    """GPUs during some stages: seconds of the windows, and those of them at work."""

    seconds: float = 0.0
    spent_s: float = 0.0

    def add(self, seconds: float, spent_s: float) -> None:
        self.seconds += seconds
        self.spent_s += spent_s

    @property
    def rate(self) -> float:
        return self.spent_s / self.seconds if self.seconds > 0 else 0.0


def _by_samples(view: View, train_s: float) -> Overlap | None:
    seen = view.laid_samples
    if seen is None or seen.beside_s is None:
        return None
    return Overlap(train_s, seen.running_s, seen.beside_s, "trajectories")


def _by_timers(view: View, train_s: float) -> Overlap | None:
    """One step ahead: what the background task takes beyond the wait for it ran beside training."""
    background_s = view.scalar(BACKGROUND_GEN)
    # Nobody waits longer for a task than it takes: then these timers do not mean the same batch.
    if background_s is None or view.wait_s > _TIMER_SLACK * background_s:
        return None
    beside_s = max(0.0, background_s - view.wait_s)
    return Overlap(train_s, background_s, beside_s, "scalars")


def _by_engines(view: View, train_s: float) -> Overlap | None:
    """The busiest engine was busy beside training for what exceeds the trainer's wait, at least."""
    engines = view.engines
    if engines is None or engines.busy_s is None:
        return None
    if not engines.seconds >= _WHOLE_STEP * view.step_s > 0:
        return None
    beside_s = engines.busy_s - view.wait_s
    found = Overlap(train_s, engines.busy_s, max(0.0, beside_s), "engines")
    if found.rollout_s <= 0 or found.ratio < view.limits["async.overlap_ratio"]:
        return None
    return found
