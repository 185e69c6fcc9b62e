"""A step's stages from logged timers alone, by the nesting that each framework is known for."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from longpole.conventions import stages
from longpole.conventions.metrics import STEP_SECONDS
from longpole_server.analysis.timers import (
    Placement,
    Scheme,
    Timer,
    canonical_timer_name,
    find_scheme,
)
from longpole_server.model.step import Note

# Sums of timers miss the step by rounding and by time between them; more than this is nesting.
SUM_TOLERANCE_RATIO = 0.01
# Of what a timer of changing place took, its container must have left so much to hold it.
_LEAST_PART = 0.5
# Three years: a longer time is a unit mistaken, or no time at all.
MAX_SECONDS = 1e8


@dataclass(frozen=True, slots=True)
class TimedStage:
    """Seconds of one stage. `exclusive_s` leaves out what other reported timers cover."""

    stage: str
    exclusive_s: float
    inclusive_s: float
    includes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ScalarLedger:
    """What the timers of a step say.

    Attributes:
        step_s: Seconds of the step: as given, as logged, or the sum of its stages.
        step_is_logged: Whether a timer of the whole step exists.
    """

    step_s: float | None
    step_is_logged: bool
    inside: tuple[TimedStage, ...]
    outside: tuple[TimedStage, ...]
    notes: tuple[Note, ...]


@dataclass(frozen=True, slots=True)
class _Reading:
    """One timer.

    Attributes:
        own_s: Its seconds without the timers nested in it.
        inclusive_s: Its seconds as logged; 0 inside a container of the same stage.
    """

    timer: Timer
    own_s: float
    inclusive_s: float


def read_step_seconds(scalars: Mapping[str, float]) -> float | None:
    """Return the logged seconds of the whole step, None when no scalar holds them."""
    scheme = find_scheme(scalars)
    if scheme is None:
        return None
    for key in (STEP_SECONDS, *scheme.step_keys):
        value = scalars.get(key)
        if value is not None and 0 < value <= MAX_SECONDS:
            return value
    return None


def read_scalar_ledger(
    scalars: Mapping[str, float], step: int, step_s: float | None = None
) -> ScalarLedger:
    """Read the timers of one step.

    Args:
        scalars: All logged scalars of the step under the trainer's names.
        step: Its number, for notes.
        step_s: Seconds of the step where something better than the log knows them.
    """
    scheme = find_scheme(scalars)
    if scheme is None:
        return ScalarLedger(step_s, False, (), (), ())
    logged_s = read_step_seconds(scalars)
    readings, notes = _read_timers(scheme, scalars, step)
    limit_s = step_s if step_s is not None else logged_s
    inside, outside = _place(readings, limit_s)
    stages_inside = _sum_by_stage(inside)
    total_s = math.fsum(stage.exclusive_s for stage in stages_inside)
    if limit_s is None:
        limit_s = total_s or None
    elif total_s > limit_s:
        if total_s > limit_s * (1 + SUM_TOLERANCE_RATIO):
            notes.append(_exceeds_note(step, total_s, limit_s))
        stages_inside = _scale(stages_inside, limit_s / total_s)
    return ScalarLedger(
        limit_s, logged_s is not None, stages_inside, _sum_by_stage(outside), tuple(notes)
    )


def _read_timers(
    scheme: Scheme, scalars: Mapping[str, float], step: int
) -> tuple[list[_Reading], list[Note]]:
    notes: list[Note] = []
    values: dict[str, float] = {}
    unknown: dict[str, float] = {}
    for name, value in scalars.items():
        key = canonical_timer_name(name)
        known = key in scheme.timers
        if not known and (not key.startswith(scheme.prefix) or scheme.ignores(key)):
            continue
        if not math.isfinite(value):
            continue
        if not 0 <= value <= MAX_SECONDS:
            summary = f"`{name}` is {value:g} s, which is no time that a stage takes: not used."
            notes.append(Note("time.impossible", "warning", summary, name, step, step))
            continue
        target = values if known else unknown
        target[key] = target.get(key, 0.0) + value
    readings = _separate(scheme, values)
    _add_aliased(readings, unknown, scheme.prefix)
    # A name with further slashes is a part of something, as a rule of a stage that is there.
    unnamed = [key for key in unknown if "/" not in key.removeprefix(scheme.prefix)]
    if unnamed:
        notes.append(_unknown_note(step, unnamed))
    return readings, notes


def _separate(scheme: Scheme, values: Mapping[str, float]) -> list[_Reading]:
    """Take nested timers out of their containers; a container smaller than its parts stands.

    A part that is longer than its container by itself counts as none.
    """
    children: dict[str, list[str]] = {}
    for key in values:
        container = scheme.timers[key].within
        if container is not None and container in values:
            children.setdefault(container, []).append(key)
    dropped: set[str] = set()
    own_s = dict(values)
    for container, keys in children.items():
        limit_s = values[container] * (1 + SUM_TOLERANCE_RATIO)
        # What is longer than its container runs beside it; the others may lie in it all the same.
        fixed = [key for key in keys if scheme.timers[key].placement != "by_sum"]
        fitting = [key for key in fixed if values[key] <= limit_s]
        nested_s = math.fsum(values[key] for key in fitting)
        if nested_s > limit_s:
            fitting = []
        else:
            own_s[container] = max(0.0, values[container] - nested_s)
        dropped.update(_descendants([key for key in fixed if key not in fitting], children))
        for key in keys:
            # It may hold some of the others in part: it gets what they leave.
            left_s = min(values[key], own_s[container])
            if key not in fixed and left_s >= _LEAST_PART * values[key]:
                own_s[key] = left_s
                own_s[container] -= left_s
    return [
        _Reading(
            scheme.timers[key], own_s[key], 0.0 if _repeats(scheme, key, values) else values[key]
        )
        for key in values
        if key not in dropped
    ]


def _repeats(scheme: Scheme, key: str, values: Mapping[str, float]) -> bool:
    """Return whether a timer's container was logged too and is the same stage."""
    timer = scheme.timers[key]
    container = timer.within
    if container is None or container not in values:
        return False
    return scheme.timers[container].stage == timer.stage


def _descendants(keys: list[str], children: Mapping[str, list[str]]) -> list[str]:
    found = list(keys)
    for key in keys:
        found += _descendants(children.get(key, []), children)
    return found


def _add_aliased(readings: list[_Reading], unknown: dict[str, float], prefix: str) -> None:
    """Accept a timer that the table lacks when its name alone says a stage nobody reported."""
    reported = {reading.timer.stage for reading in readings}
    for key in list(unknown):
        stage = stages.stage_of(key.removeprefix(prefix))
        if stage is None or stage in reported or "/" in key.removeprefix(prefix):
            continue
        placement: Placement = (
            "by_sum" if stage in (stages.TESTING, stages.SAVE_CHECKPOINT) else "if_room"
        )
        timer = Timer(stage, stages.STAGES[stage].includes, placement=placement)
        seconds = unknown.pop(key)
        readings.append(_Reading(timer, seconds, seconds))


def _place(
    readings: list[_Reading], limit_s: float | None
) -> tuple[list[_Reading], list[_Reading]]:
    """Split timers into inside and outside the step; drop what overlaps and does not fit."""
    inside = [reading for reading in readings if reading.timer.placement == "inside"]
    outside = [reading for reading in readings if reading.timer.placement == "outside"]
    total_s = math.fsum(reading.own_s for reading in inside)
    # Larger ones last: a small one that fits must not be pushed out by a large one that does not.
    undecided = [
        reading for reading in readings if reading.timer.placement in ("by_sum", "if_room")
    ]
    for reading in sorted(undecided, key=lambda reading: reading.own_s):
        if limit_s is None:
            fits = reading.timer.placement == "if_room"
        else:
            fits = total_s + reading.own_s <= limit_s * (1 + SUM_TOLERANCE_RATIO)
        if fits:
            inside.append(reading)
            total_s += reading.own_s
        elif reading.timer.placement == "by_sum":
            outside.append(reading)
    return inside, outside


def _sum_by_stage(readings: list[_Reading]) -> tuple[TimedStage, ...]:
    """Add up timers of one stage. Containers whose rest nobody can name stay unattributed."""
    summed: dict[str, TimedStage] = {}
    for reading in readings:
        stage = reading.timer.stage
        if stage is None:
            continue
        before = summed.get(stage, TimedStage(stage, 0.0, 0.0))
        summed[stage] = TimedStage(
            stage,
            before.exclusive_s + reading.own_s,
            before.inclusive_s + reading.inclusive_s,
            before.includes or reading.timer.includes,
        )
    return tuple(summed.values())


def _scale(timed: tuple[TimedStage, ...], factor: float) -> tuple[TimedStage, ...]:
    return tuple(
        TimedStage(stage.stage, stage.exclusive_s * factor, stage.inclusive_s, stage.includes)
        for stage in timed
    )


def _exceeds_note(step: int, total_s: float, step_s: float) -> Note:
    summary = (
        f"Timers of step {step} add up to {total_s:.3g} s, more than its {step_s:.3g} s: "
        "they overlap, and were scaled to the step."
    )
    return Note("stage.sum_exceeds_step", "warning", summary, None, step, step)


def _unknown_note(step: int, unknown: list[str]) -> Note:
    names = sorted(unknown)
    shown = ", ".join(f"`{name}`" for name in names[:5]) + (", ..." if len(names) > 5 else "")
    summary = f"Timers of unknown meaning count as unattributed: {shown}."
    return Note("stage.unknown", "info", summary, names[0], step, step)
