"""What happened in a run that every chart of it marks: verdicts, alerts, attempts, checkpoints."""

from collections.abc import Sequence
from itertools import pairwise

from longpole.conventions import stages
from longpole_dashboards.components.alert_card import SEVERITY_SIGNS
from longpole_dashboards.figures.moments import Moment
from longpole_dashboards.formats import NS_PER_S, format_duration
from longpole_dashboards.pages.run_reading import RunReading
from longpole_dashboards.theme import ROLES, stage_colour, stage_label, verdict_colour
from longpole_dashboards.verdicts import verdict_badge
from longpole_server.model.step import Step

# More than this many of a kind are no longer moments.
_MAX_EVENTS = 24


def list_moments(reading: RunReading, axis: str, *, with_checkpoints: bool = True) -> list[Moment]:
    """Return them on an axis of `step` or `time`; a checkpoint changes nothing about training."""
    shown = {step.step: step for step in reading.drawn}
    return [
        *_verdicts(reading, shown, axis),
        *_attempts(reading, axis),
        *(_checkpoints(reading, axis) if with_checkpoints else ()),
        *_alerts(reading, shown, axis),
    ]


def _place(reading: RunReading, step: Step, axis: str) -> object:
    return reading.view.zone.local(step.start_ns) if axis == "time" else step.step - 0.5


def _verdicts(reading: RunReading, shown: dict[int, Step], axis: str) -> list[Moment]:
    found = list[Moment]()
    for change in reading.verdict_changes:
        step = shown.get(change.step)
        if step is None or change.previous is None:
            continue
        words = (
            f"from step {change.step}: {verdict_badge(change.verdict)}, "
            f"before: {verdict_badge(change.previous)}"
        )
        colour = verdict_colour(change.verdict)
        found.append(Moment(_place(reading, step, axis), "◇", words, colour))
    return found[-_MAX_EVENTS:]


def _attempts(reading: RunReading, axis: str) -> list[Moment]:
    colour = ROLES[reading.view.theme].text
    return [
        Moment(_place(reading, step, axis), "↻", f"attempt {step.attempt} begins", colour)
        for before, step in pairwise(reading.drawn)
        if before.attempt != step.attempt
    ][-_MAX_EVENTS:]


def _checkpoints(reading: RunReading, axis: str) -> list[Moment]:
    """Return checkpoints, where they are rare enough to be events."""
    name = stages.SAVE_CHECKPOINT
    saved = [
        step for step in reading.drawn if step.step in reading.saved and step.duration_s is not None
    ]
    if len(saved) > _MAX_EVENTS or len(saved) * 2 > len(reading.drawn):
        return []
    words = f"{stage_label(name)} in step"
    return [
        Moment(
            reading.view.zone.local(step.end_ns or step.start_ns) if axis == "time" else step.step,
            "▪",
            f"{words} {step.step}",
            ROLES[reading.view.theme].faint,
        )
        for step in saved
    ]


def list_syncs(reading: RunReading, steps: Sequence[Step]) -> list[Moment]:
    """Return when the engines got new weights, as marks on a time axis."""
    name = stages.UPDATE_WEIGHTS
    words = f"{stage_label(name)} in step"
    found = [
        (step.step, start_ns, end_ns)
        for step in steps
        for stage in step.stages
        if stage.stage == name
        for start_ns, end_ns in stage.windows
    ]
    return [
        Moment(
            reading.view.zone.local(start_ns),
            "▴",
            f"{words} {step}, {format_duration((end_ns - start_ns) / NS_PER_S)}",
            stage_colour(name),
        )
        for step, start_ns, end_ns in found
    ]


def _alerts(reading: RunReading, shown: dict[int, Step], axis: str) -> list[Moment]:
    roles = ROLES[reading.view.theme]
    found = list[Moment]()
    for alert in reading.alerts:
        step = shown.get(alert.first_step) if alert.first_step is not None else None
        if step is None:
            continue
        tone = {"critical": roles.bad, "warning": roles.warn}.get(alert.severity, roles.muted)
        colour = roles.faint if alert.state == "resolved" else tone
        title = reading.rule_titles.get(alert.rule, alert.rule)
        sign = SEVERITY_SIGNS.get(alert.severity, "●")
        found.append(Moment(_place(reading, step, axis), sign, f"{title}, {alert.state}", colour))
    return found[-_MAX_EVENTS:]
