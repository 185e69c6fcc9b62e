"""The alerts as they stand: what all events so far add up to."""

from collections import OrderedDict
from collections.abc import Iterable

from longpole_server.alerts.events import Fingerprint
from longpole_server.alerts.lifecycle import fingerprint_of, fold_event
from longpole_server.model.alert import Alert, AlertEvent

_MAX_RESOLVED = 2_000


class AlertBook:
    """Alerts by fingerprint, and those that are over. Not thread-safe.

    Args:
        events: Of the past, in the order in which they were decided.
        max_resolved: Alerts that are over of which so many, the newest, are remembered.
    """

    def __init__(
        self, events: Iterable[AlertEvent] = (), max_resolved: int = _MAX_RESOLVED
    ) -> None:
        self._max_resolved = max_resolved
        self._current: dict[Fingerprint, Alert] = {}
        self._resolved: OrderedDict[str, Alert] = OrderedDict()
        self._over_ns: OrderedDict[Fingerprint, int] = OrderedDict()
        for event in events:
            self.apply(event)

    def find(self, fingerprint: Fingerprint) -> Alert | None:
        """Return the open alert of a fingerprint, else its last one that is remembered."""
        return self._current.get(fingerprint)

    def get(self, alert_id: str) -> Alert | None:
        """Return an alert by its id."""
        known = self._resolved.get(alert_id)
        if known is not None:
            return known
        return next((each for each in self._current.values() if each.alert_id == alert_id), None)

    def resolved_ns(self, fingerprint: Fingerprint) -> int | None:
        """Return when the last alert of a fingerprint was over, None when none is known."""
        return self._over_ns.get(fingerprint)

    def apply(self, event: AlertEvent) -> Alert | None:
        """Take an event in and return the alert after it, None when it went away."""
        fingerprint = fingerprint_of(event)
        before = self._current.get(fingerprint)
        if event.kind == "acknowledged" and (before is None or before.alert_id != event.alert_id):
            return self._acknowledge_resolved(event)
        after = fold_event(before, event)
        if after is None:
            self._current.pop(fingerprint, None)
            return None
        self._current[fingerprint] = after
        if after.state == "resolved":
            self._remember(after)
        return after

    def list_open(self) -> list[Alert]:
        """Return the alerts that are pending or firing."""
        return [alert for alert in self._current.values() if alert.state != "resolved"]

    def list_all(self) -> list[Alert]:
        """Return open alerts and those that are over, newest first."""
        alerts = [*self.list_open(), *self._resolved.values()]
        return sorted(alerts, key=lambda alert: (-alert.started_ns, alert.alert_id))

    def count_firing(self, run_id: str) -> int:
        """Return how many alerts of a run are firing."""
        return sum(
            alert.state == "firing" and alert.run_id == run_id for alert in self._current.values()
        )

    def _acknowledge_resolved(self, event: AlertEvent) -> Alert | None:
        known = self._resolved.get(event.alert_id)
        after = fold_event(known, event) if known is not None else None
        if after is not None:
            self._resolved[event.alert_id] = after
        return after

    def _remember(self, alert: Alert) -> None:
        self._resolved.pop(alert.alert_id, None)
        self._resolved[alert.alert_id] = alert
        if alert.resolved_ns is not None:
            self._over_ns[fingerprint_of(alert)] = alert.resolved_ns
            if len(self._over_ns) > 2 * self._max_resolved:
                self._over_ns.popitem(last=False)
        while len(self._resolved) > self._max_resolved:
            _, oldest = self._resolved.popitem(last=False)
            fingerprint = fingerprint_of(oldest)
            current = self._current.get(fingerprint)
            if current is not None and current.alert_id == oldest.alert_id:
                del self._current[fingerprint]
