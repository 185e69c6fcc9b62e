"""Separate pools: samples laid beside the steps that they ran in, by times of day.

A sample belongs to the step that trains on it and ran before: beside the step before, or several
steps before where samples wait in a queue. What ran beside a step is known when all steps with
samples of that time have come in.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from longpole.conventions import stages
from longpole_server.analysis.intervals import Interval, clip, length, union
from longpole_server.model.facts import StepFacts

# Stages in which the trainer computes.
TRAINING = (
    stages.UPDATE_ACTOR,
    stages.UPDATE_CRITIC,
    stages.OLD_LOG_PROB,
    stages.REF,
    stages.VALUES,
    stages.MAKE_EXPERIENCE,
)
# Steps whose samples are laid beside the stages: more tell no more.
_MAX_STEPS = 6
# Part of a step's samples that may begin earlier than the others: resumed or late by their clock.
_ODD_SAMPLES = 0.05


@dataclass(frozen=True, slots=True)
class LaidSamples:
    """What ran beside some steps, in seconds a step.

    Attributes:
        step_s: From step to step.
        running_s: Any sample ran.
        beside_s: The trainer computed meanwhile; None without its windows.
    """

    step_s: float
    running_s: float
    beside_s: float | None


def lay_samples(steps: Sequence[StepFacts]) -> LaidSamples | None:
    """Lay samples beside the newest steps of which all that ran have come in, None without any.

    With one step alone, samples from before it leave open what they ran beside.
    """
    sampled = [facts for facts in steps if _count(facts)][-_MAX_STEPS:]
    told = _followed(sampled) if len(sampled) > 1 else sampled
    if not told:
        return None
    running = _when_any_ran(sampled)
    start_ns, end_ns = told[0].step.start_ns, told[-1].step.end_ns
    if end_ns is None or not running or (len(sampled) == 1 and running[0][0] < start_ns):
        return None
    inside = [part for each in running if (part := clip(each, (start_ns, end_ns))) is not None]
    training = union(window for facts in told for window in _training_windows(facts))
    # Into seconds a step.
    scale = 1e9 * len(told)
    return LaidSamples(
        (end_ns - start_ns) / scale,
        length(inside) / scale,
        _common_ns(inside, training) / scale if training else None,
    )


def _count(facts: StepFacts) -> int:
    return 0 if facts.trajectories is None else len(facts.trajectories.start_ns)


def _when_any_ran(sampled: Sequence[StepFacts]) -> list[Interval]:
    """Return the union of all samples' times; there may be tens of thousands."""
    told = [facts.trajectories for facts in sampled if facts.trajectories is not None]
    starts = np.concatenate([np.array(each.start_ns, dtype=np.int64) for each in told])
    ends = np.concatenate([np.array(each.end_ns, dtype=np.int64) for each in told])
    order = np.argsort(starts, kind="stable")
    starts, reached = starts[order], np.maximum.accumulate(ends[order])
    begins = np.flatnonzero(np.r_[True, starts[1:] > reached[:-1]])
    stops = np.r_[begins[1:] - 1, len(starts) - 1]
    merged = zip(starts[begins].tolist(), reached[stops].tolist(), strict=True)
    return [(start, end) for start, end in merged if end > start]


def _followed(sampled: Sequence[StepFacts]) -> Sequence[StepFacts]:
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
    return row[: -max(1, *(_reach(facts, row) for facts in row))]


def _reach(facts: StepFacts, row: Sequence[StepFacts]) -> int:
    """Return how many steps before their own its samples begin, a few odd ones left out."""
    if facts.trajectories is None:
        return 0
    starts_ns = np.sort(np.array(facts.trajectories.start_ns, dtype=np.int64))
    first_ns = int(starts_ns[int(_ODD_SAMPLES * len(starts_ns))])
    oldest = row[0].step
    if first_ns < oldest.start_ns:
        usual_ns = (row[-1].step.start_ns - oldest.start_ns) / (len(row) - 1)
        before = math.ceil((oldest.start_ns - first_ns) / max(1.0, usual_ns))
        return facts.step.step - oldest.step + before
    return sum(first_ns < other.step.start_ns <= facts.step.start_ns for other in row)


def _training_windows(facts: StepFacts) -> list[Interval]:
    return [
        window for stage in facts.step.stages if stage.stage in TRAINING for window in stage.windows
    ]


def _common_ns(first: list[Interval], second: list[Interval]) -> int:
    """Return the length of the common part of two lists of disjoint intervals."""
    return length(first) + length(second) - length(union([*first, *second]))
