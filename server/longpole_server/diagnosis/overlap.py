"""Asynchronous modes: how much of the rollout runs beside training, and who waits how long.

The trainer's exposed wait is what the loop waits for. Whether the rollout ran beside training is
seen, in this order, in the samples' own times, in the trainer's timers of its background task, and
in the activity of the rollout's GPUs or the engines while the trainer computes.
GPUs and engines do not see tools and scoring: GPUs at work while the trainer waits but never while
it trains make it likely that both take turns, no more. Engines tell their busy time over the whole
step, not when it was: that bounds the overlap from below, and proves nothing where it is 0.
verl's `fully_async/rollouter/idle_ratio` keeps the last pause of a window only and is not read.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from longpole.conventions import stages
from longpole_server.analysis.intervals import Interval, clip, length, union
from longpole_server.diagnosis.gpu_activity import busy_part
from longpole_server.diagnosis.look import BACKGROUND_GEN
from longpole_server.diagnosis.view import View
from longpole_server.model.facts import StepFacts
from longpole_server.model.step import Confidence

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
# Part of the trainer's wait in which GPUs must be at work, for their rest otherwise to tell.
_SEEN_AT_WORK = 0.1
# Steps whose samples are laid beside the stages: more tell no more.
_MAX_STEPS = 6
# Part of a step's samples that may begin earlier than the others: resumed or late by their clock.
_ODD_SAMPLES = 0.05
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
    train_s = view.seconds(*_TRAINING)
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
    seen = _lay_samples(view)
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
            if window.stage in _TRAINING:
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


@dataclass(frozen=True, slots=True)
class _Laid:
    """Samples laid beside the steps that they ran in, in seconds a step.

    Attributes:
        running_s: Any sample ran.
        beside_s: The trainer computed meanwhile; None without its windows.
    """

    step_s: float
    running_s: float
    beside_s: float | None


def _by_samples(view: View, train_s: float) -> Overlap | None:
    seen = _lay_samples(view)
    if seen is None or seen.beside_s is None:
        return None
    return Overlap(train_s, seen.running_s, seen.beside_s, "trajectories")


def _lay_samples(view: View) -> _Laid | None:
    """Lay samples beside the steps that they ran in, of which all that ran have come in.

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
    told = _followed(sampled) if len(sampled) > 1 else sampled
    if not told or not running:
        return None
    start_ns, end_ns = told[0].step.start_ns, told[-1].step.end_ns
    if end_ns is None or (len(sampled) == 1 and running[0][0] < start_ns):
        return None
    inside = [part for each in running if (part := clip(each, (start_ns, end_ns))) is not None]
    training = union(window for facts in told for window in _training_windows(facts))
    per_step = 1 / 1e9 / len(told)
    return _Laid(
        (end_ns - start_ns) * per_step,
        length(inside) * per_step,
        _common_ns(inside, training) * per_step if training else None,
    )


def _followed(sampled: Sequence[StepFacts]) -> list[StepFacts]:
    """Return the newest steps in a row that are followed by all steps with samples of theirs."""
    row = [sampled[-1]]
    for earlier in reversed(sampled[:-1]):
        later = row[-1].step
        if later.step != earlier.step.step + 1 or later.attempt != earlier.step.attempt:
            break
        row.append(earlier)
    row.reverse()
    if len(row) < 2:
        return []
    reach = max(1, *(_reach(facts, row) for facts in row))
    return row[:-reach]


def _reach(facts: StepFacts, row: Sequence[StepFacts]) -> int:
    """Return how many steps before their own its samples begin, a few odd ones left out."""
    if facts.trajectories is None:
        return 0
    starts_ns = sorted(facts.trajectories.start_ns)
    first_ns = starts_ns[int(_ODD_SAMPLES * len(starts_ns))]
    oldest = row[0].step
    steps_since = facts.step.step - oldest.step
    if first_ns < oldest.start_ns:
        usual_ns = (row[-1].step.start_ns - oldest.start_ns) / (len(row) - 1)
        return steps_since + math.ceil((oldest.start_ns - first_ns) / max(1.0, usual_ns))
    return sum(first_ns < other.step.start_ns <= facts.step.start_ns for other in row)


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
