"""How many alerts fire: what every page says in its header."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from longpole_server.model.alert import Alert, Silence
from longpole_server.model.step import Severity
from longpole_server.service import Service

_SEVERITIES: tuple[Severity, ...] = ("critical", "warning", "info")


@dataclass(frozen=True, slots=True)
class Alarm:
    """The open alerts in one look.

    Attributes:
        num_firing: All that fire.
        severity: The severest of those that nobody looks after and no silence covers.
        mark: Differs when alerts, acknowledgements or silences do.
        blind: Why more may fire than is known, None while rules are judged.
    """

    num_firing: int = 0
    severity: Severity | None = None
    mark: str = "0"
    blind: str | None = None


NO_ALARM = Alarm()


def read_alarm(service: Service) -> Alarm:
    """Return the open alerts in one look. Cheap: nothing is read from the store."""
    alerts = service.alerts
    open_alerts = [alert for alert in alerts.list_alerts() if alert.state != "resolved"]
    return make_alarm(open_alerts, alerts.list_silences(), alerts.explain_blindness())


def make_alarm(
    open_alerts: Iterable[Alert], silences: Iterable[Silence], blind: str | None = None
) -> Alarm:
    """Return some pending and firing alerts in one look."""
    known, in_force = list(open_alerts), list(silences)
    firing = [alert for alert in known if alert.state == "firing"]
    unattended: list[Severity] = [
        alert.severity
        for alert in firing
        if alert.acknowledged is None and find_silence(alert, in_force) is None
    ]
    facts = [(alert.alert_id, alert.state, alert.acknowledged, alert.silence_id) for alert in known]
    described = repr((facts, [silence.silence_id for silence in in_force], blind is None))
    return Alarm(
        num_firing=len(firing),
        severity=next((each for each in _SEVERITIES if each in unattended), None),
        mark=hashlib.blake2b(described.encode(), digest_size=4).hexdigest(),
        blind=blind,
    )


def find_silence(alert: Alert, silences: Iterable[Silence]) -> Silence | None:
    """Return the silence in force that covers an alert: it may be younger than its last event."""
    return next((silence for silence in silences if _covers(silence, alert)), None)


def _covers(silence: Silence, alert: Alert) -> bool:
    of_rule = silence.rule in (None, alert.rule) or alert.rule.startswith(f"{silence.rule}.")
    of_run = silence.run_id in (None, alert.run_id)
    return of_rule and of_run and silence.entity in (None, alert.entity.id)
