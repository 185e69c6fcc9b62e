"""Alerts on what a run has no more: nobody else could ever say that they are over."""

from collections.abc import Iterable, Sequence

from longpole_server.alerts.book import AlertBook
from longpole_server.alerts.events import Fingerprint
from longpole_server.alerts.history import GPU, HOST, REPLICA, History
from longpole_server.alerts.lifecycle import end_alert, fingerprint_of
from longpole_server.alerts.rule import Rule
from longpole_server.alerts.silences import find_silence
from longpole_server.model.alert import Alert, AlertEvent, Silence

# What is missed for a moment only was never away.
_AWAY_NS = 120 * 10**9
_KINDS = frozenset({GPU, HOST, REPLICA})
_ALIVE = ("live", "stalled")


def find_teller(rule: Rule, history: History, book: AlertBook) -> str | None:
    """Return the rule whose alert tells of an entity all there is to tell, None without any."""
    run_id = history.run.facts.run_id if history.run is not None else ""
    for rule_id in rule.yields_to:
        for kind, entity_id in _list_names(history):
            alert = book.find(Fingerprint(rule_id, run_id, kind, entity_id))
            if alert is not None and alert.state == "firing":
                return rule_id
    return None


def end_alerts_of_departed(
    rules: Iterable[Rule], history: History, book: AlertBook, silences: Sequence[Silence] = ()
) -> list[AlertEvent]:
    """End the alerts of a live run on replicas, GPUs and nodes that are no part of it any more.

    Args:
        rules: That were judged just now.
        history: The moment.
        book: Takes the events.
        silences: Those in force keep them from people.
    """
    run = history.run
    if run is None or run.state not in _ALIVE:
        return []
    judged = {rule.rule_id for rule in rules if rule.entity_kind in _KINDS}
    before_ns = history.moment.ts_ns - _AWAY_NS
    silent = [
        alert
        for alert in book.list_open()
        if alert.run_id == run.facts.run_id
        and alert.rule in judged
        and alert.updated_ns <= before_ns
    ]
    why = "gone: the {} is no part of the run any more"
    events = [
        end_alert(
            alert,
            history.moment,
            why.format(alert.entity.kind),
            silence_id=find_silence(silences, fingerprint_of(alert)),
        )
        for alert in _list_departed(silent, history)
    ]
    for event in events:
        book.apply(event)
    return events


def _list_departed(alerts: Sequence[Alert], history: History) -> list[Alert]:
    found: list[Alert] = []
    for kind in {alert.entity.kind for alert in alerts}:
        known = frozenset(history.list_entities(kind))
        # Without any GPU or node it is not known which there are.
        if known or (kind == REPLICA and history.steps):
            found += [
                alert for alert in alerts if alert.entity.kind == kind and alert.entity not in known
            ]
    return found


def _list_names(history: History) -> list[tuple[str, str]]:
    """Return kind and id of the judged entity, and of its node where it is a GPU."""
    entity, gpu = history.entity, history.gpu
    names = [(entity.kind, entity.id)]
    return [*names, (HOST, gpu.host)] if gpu is not None else names
