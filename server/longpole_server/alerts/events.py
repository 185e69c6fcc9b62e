"""Makes the events of alerts: their ids, numbers and texts."""

import hashlib
from dataclasses import dataclass, replace
from typing import NamedTuple
from urllib.parse import quote, urlencode

from longpole_server.alerts.catalogue import BUILT_IN_RULES
from longpole_server.alerts.history import Moment, RunContext
from longpole_server.alerts.panels import find_panel
from longpole_server.alerts.rule import (
    ENGINES_PANEL,
    GPU_PANEL,
    NODE_PANEL,
    Judgement,
    Rule,
)
from longpole_server.alerts.wording import fill_text
from longpole_server.model.alert import Alert, AlertEvent, AlertEvidence, EventKind
from longpole_server.model.diagnosis import Entity

# Steps, and minutes, that a link shows before those in which it began.
_LINK_STEPS = 20
_LINK_MINUTES = 15
# Element of the cluster page that has each node's spool, drops and clock.
_NODES = "cluster-nodes-table"
_NS_PER_MINUTE = 60 * 10**9
_NS_PER_MS = 10**6
_PANELS = {rule.rule_id: rule.panel for rule in BUILT_IN_RULES}


class Fingerprint(NamedTuple):
    """What makes two alerts the same: rule, run and entity. `run_id` is empty without a run."""

    rule: str
    run_id: str
    entity_kind: str
    entity_id: str


@dataclass(frozen=True, slots=True)
class Subject:
    """What a rule is judged on."""

    entity: Entity
    run: RunContext | None

    def fingerprint(self, rule: Rule) -> Fingerprint:
        """Return the fingerprint of a rule on it."""
        run_id = self.run.facts.run_id if self.run is not None else ""
        return Fingerprint(rule.rule_id, run_id, self.entity.kind, self.entity.id)


@dataclass(frozen=True, slots=True)
class EventMaker:
    """Makes the events of one judgement."""

    rule: Rule
    subject: Subject
    judgement: Judgement
    moment: Moment
    silence_id: str

    def open(self, kind: EventKind) -> AlertEvent:
        """Return the first event of a new alert."""
        moment = self.moment
        fingerprint = self.subject.fingerprint(self.rule)
        run = self.subject.run
        return self._fill(
            AlertEvent(
                event_id="",
                alert_id=_make_alert_id(fingerprint, moment.ts_ns),
                kind=kind,
                ts_ns=moment.ts_ns,
                decided_ns=moment.decided_ns,
                rule=self.rule.rule_id,
                severity=self.rule.severity,
                run_id=fingerprint.run_id,
                run_name=run.facts.name if run is not None else "",
                project=run.project if run is not None else "",
                entity_kind=fingerprint.entity_kind,
                entity_id=fingerprint.entity_id,
                started_ns=moment.ts_ns,
                started_step=moment.step,
                fired_ns=moment.ts_ns if kind == "firing" else None,
                step=moment.step,
                count=1,
                value=None,
                threshold=None,
                baseline=None,
                unit="",
                summary="",
                cause="",
                first_look="",
                notify=kind == "firing" and not self.silence_id,
            )
        )

    def continue_(self, kind: EventKind, alert: Alert) -> AlertEvent:
        """Return a further event of an alert."""
        told = not self.silence_id and (
            kind in ("firing", "repeated") or (kind == "resolved" and alert.notified_ns is not None)
        )
        event = copy_event(alert, kind, self.moment.ts_ns, self.moment.decided_ns)
        is_met = kind in ("pending", "firing", "seen", "repeated")
        event = replace(
            event,
            step=self.moment.step if self.moment.step is not None else alert.last_step,
            fired_ns=self.moment.ts_ns if kind == "firing" else alert.fired_ns,
            count=1 if kind == "firing" else alert.count + is_met,
            notify=told,
        )
        if is_met and self.judgement.firing:
            return self._fill(event)
        if is_met:
            event = replace(event, silence_id=self.silence_id)
        # What is over, or nearly, is told with the words in which it was raised, and its value.
        return replace(event, value=self.judgement.value)

    def _fill(self, event: AlertEvent) -> AlertEvent:
        judgement, rule = self.judgement, self.rule
        evidence = judgement.evidence
        if rule.user is not None and judgement.value is not None:
            # The event itself says what it is about: its link leads where that is drawn.
            evidence = (AlertEvidence(rule.user.metric, judgement.value, judgement.unit),)
        entity_id = judgement.words.get("gpu", event.entity_id)
        return replace(
            event,
            event_id=identify(event.alert_id, event.kind, str(event.ts_ns)),
            value=judgement.value,
            threshold=judgement.threshold,
            baseline=judgement.baseline,
            unit=judgement.unit,
            summary=fill_text(rule.summary, judgement, entity_id),
            cause=fill_text(rule.cause, judgement, entity_id),
            first_look=fill_text(rule.first_look, judgement, entity_id),
            evidence=evidence,
            silence_id=self.silence_id,
        )


def copy_event(alert: Alert, kind: EventKind, ts_ns: int, decided_ns: int) -> AlertEvent:
    """Return an event that says of an alert what is known of it."""
    return AlertEvent(
        event_id=identify(alert.alert_id, kind, str(ts_ns)),
        alert_id=alert.alert_id,
        kind=kind,
        ts_ns=ts_ns,
        decided_ns=decided_ns,
        rule=alert.rule,
        severity=alert.severity,
        run_id=alert.run_id or "",
        run_name=alert.run_name or "",
        project=alert.project or "",
        entity_kind=alert.entity.kind,
        entity_id=alert.entity.id,
        started_ns=alert.started_ns,
        started_step=alert.first_step,
        fired_ns=alert.fired_ns,
        step=alert.last_step,
        count=alert.count,
        value=alert.value,
        threshold=alert.threshold,
        baseline=alert.baseline,
        unit=alert.unit,
        summary=alert.summary,
        cause=alert.cause,
        first_look=alert.first_look,
        evidence=alert.evidence,
        silence_id=alert.silence_id or "",
    )


def _make_alert_id(fingerprint: Fingerprint, started_ns: int) -> str:
    parts = (fingerprint.rule, fingerprint.run_id, fingerprint.entity_kind, fingerprint.entity_id)
    return _digest("\0".join((*parts, str(started_ns))))


def identify(alert_id: str, kind: str, when: str) -> str:
    """Return the id of an event: the same transition has the same one."""
    return _digest(f"{alert_id}\0{kind}\0{when}")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def _find_panel(event: AlertEvent) -> str:
    """Return where the figure of a user's rule is drawn."""
    return find_panel(event.evidence[0].name if event.evidence else "")


def make_link(event: AlertEvent, panel: str | None = None) -> str:
    """Return where the dashboard shows an alert: run, steps, panel; below the dashboard's root.

    Args:
        event: Of the alert.
        panel: Element of the page; None is the rule's own.
    """
    if not event.run_id:
        return f"/alerts?alert={event.alert_id}#alert-{event.alert_id}"
    shown = panel or _PANELS.get(event.rule) or _find_panel(event)
    if shown == NODE_PANEL:
        node = urlencode({"node": event.entity_id}, quote_via=quote, safe="")
        return f"/cluster?{node}#{_NODES}"
    query: dict[str, str | int] = {"id": event.run_id, "alert": event.alert_id}
    if event.started_step is not None:
        query["from"] = max(0, event.started_step - _LINK_STEPS)
        query["to"] = event.step if event.step is not None else event.started_step
    if shown in (GPU_PANEL, ENGINES_PANEL):
        first_ns = event.started_ns - _LINK_MINUTES * _NS_PER_MINUTE
        last_ns = event.ts_ns + _NS_PER_MINUTE
        query["time"] = f"{max(0, first_ns) // _NS_PER_MS}-{last_ns // _NS_PER_MS}"
    return f"/run?{urlencode(query, quote_via=quote, safe='')}#{shown}"
