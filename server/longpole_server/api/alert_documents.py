"""The JSON documents of alerts. The model speaks the API's names; lists get their pages here."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from longpole_server.model.alert import (
    Alert,
    AlertEvent,
    AlertEvidence,
    ChannelStatus,
    EventKind,
    RuleStatus,
    Silence,
)
from longpole_server.model.diagnosis import Entity
from longpole_server.model.step import Severity
from longpole_server.service import ChannelTest


@dataclass(frozen=True, slots=True)
class AlertsPage:
    """Alerts, newest first."""

    alerts: Sequence[Alert]
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventDocument:
    """One transition of one alert, with what was known of the alert at that moment."""

    event_id: str
    alert_id: str
    kind: EventKind
    ts_ns: int
    decided_ns: int
    rule: str
    severity: Severity
    run_id: str | None
    run_name: str | None
    project: str | None
    entity: Entity
    started_ns: int
    started_step: int | None
    fired_ns: int | None
    step: int | None
    count: int
    value: float | None
    threshold: float | None
    baseline: float | None
    unit: str
    summary: str
    cause: str
    first_look: str
    evidence: Sequence[AlertEvidence]
    notify: bool
    silence_id: str | None
    author: str | None
    comment: str | None


@dataclass(frozen=True, slots=True)
class EventsPage:
    """Transitions of alerts, newest first."""

    events: Sequence[EventDocument]
    next: str | None


@dataclass(frozen=True, slots=True)
class RulesPage:
    """Rules with what they saw last."""

    rules: Sequence[RuleStatus]
    next: str | None


@dataclass(frozen=True, slots=True)
class SilencesPage:
    """Silences that are in force, newest first."""

    silences: Sequence[Silence]
    next: str | None


@dataclass(frozen=True, slots=True)
class ChannelsPage:
    """Channels and how their deliveries went."""

    channels: Sequence[ChannelStatus]
    next: str | None


@dataclass(frozen=True, slots=True)
class ChannelTestsPage:
    """What each channel answered to a sample."""

    channels: Sequence[ChannelTest]
    next: str | None


@dataclass(frozen=True, slots=True)
class AcknowledgementRequest:
    """Who looks after an alert."""

    author: str
    comment: str = ""


@dataclass(frozen=True, slots=True)
class DeletedDocument:
    """What was deleted."""

    deleted: str


_TEXTS = ("run_id", "run_name", "project", "silence_id", "author", "comment")


def describe_event(event: AlertEvent) -> EventDocument:
    """Return the document of an event; a text that nobody gave is null."""
    values: dict[str, Any] = {field.name: getattr(event, field.name) for field in fields(event)}
    entity = Entity(values.pop("entity_kind"), values.pop("entity_id"))
    values.update({name: values[name] or None for name in _TEXTS})
    return EventDocument(**values, entity=entity)
