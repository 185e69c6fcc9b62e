"""The life of an alert: pending, firing, resolved. Decides events, and folds them into state.

`fold_event` is the only way in which an alert changes, so that the events of the past rebuild it.
An event carries absolute numbers: leaving out `seen` events between others loses nothing but their
own moments.
"""

from dataclasses import replace

from longpole_server.alerts.events import (
    EventMaker,
    Fingerprint,
    Subject,
    copy_event,
    identify,
    make_link,
)
from longpole_server.alerts.history import Moment
from longpole_server.alerts.rule import Judgement, Rule
from longpole_server.model.alert import Acknowledgement, Alert, AlertEvent, EventKind
from longpole_server.model.diagnosis import Entity

_NS_PER_S = 1_000_000_000


def fingerprint_of(item: Alert | AlertEvent) -> Fingerprint:
    """Return the fingerprint of an alert or of one of its events."""
    if isinstance(item, AlertEvent):
        return Fingerprint(item.rule, item.run_id, item.entity_kind, item.entity_id)
    return Fingerprint(item.rule, item.run_id or "", item.entity.kind, item.entity.id)


def advance(
    rule: Rule,
    subject: Subject,
    alert: Alert | None,
    judgement: Judgement,
    moment: Moment,
    *,
    silence_id: str = "",
    cooling_until_ns: int = 0,
) -> AlertEvent | None:
    """Return what a judgement does to an alert; None when nothing.

    Args:
        rule: The rule that was judged.
        subject: What it was judged on.
        alert: The newest alert of this fingerprint, None before any.
        judgement: What the detector found.
        moment: When.
        silence_id: The silence that keeps it from people, else empty.
        cooling_until_ns: Until then it does not fire again.
    """
    if not judgement.is_judged or (alert is not None and _is_late(alert, moment)):
        # Older than what is known already: late data never pages.
        return None
    maker = EventMaker(rule, subject, judgement, moment, silence_id)
    if alert is None or alert.state == "resolved":
        is_same_moment = alert is not None and moment.ts_ns == alert.updated_ns
        if not judgement.firing or is_same_moment:
            return None
        waits = rule.for_steps > 1 or rule.for_s > 0 or moment.ts_ns < cooling_until_ns
        return maker.open("pending" if waits else "firing")
    if alert.state == "pending":
        return _advance_pending(maker, rule, alert, judgement, moment, cooling_until_ns)
    return _advance_firing(maker, rule, alert, judgement, moment)


def _advance_pending(
    maker: EventMaker,
    rule: Rule,
    alert: Alert,
    judgement: Judgement,
    moment: Moment,
    cooling_until_ns: int,
) -> AlertEvent | None:
    if not judgement.firing or (moment.clock_went_back and alert.started_ns > moment.ts_ns):
        return maker.continue_("dropped", alert)
    if moment.step is not None and moment.step == alert.last_step:
        return None
    if rule.for_steps > 1 and alert.count + 1 < rule.for_steps:
        # Steps that say nothing of it do not count.
        return maker.continue_("pending", alert)
    has_lasted = moment.ts_ns - alert.started_ns >= rule.for_s * _NS_PER_S
    if not has_lasted or moment.ts_ns < cooling_until_ns:
        return None
    return maker.continue_("firing", alert)


def _advance_firing(
    maker: EventMaker, rule: Rule, alert: Alert, judgement: Judgement, moment: Moment
) -> AlertEvent | None:
    if judgement.cleared:
        return maker.continue_("resolved", alert)
    if _is_repeat_due(rule, alert, moment) and not maker.silence_id:
        return maker.continue_("repeated", alert)
    is_same = moment.ts_ns == alert.updated_ns or (
        moment.step is not None and moment.step == alert.last_step
    )
    return maker.continue_("seen", alert) if judgement.firing and not is_same else None


def end_alert(alert: Alert, moment: Moment, why: str, *, silence_id: str = "") -> AlertEvent:
    """Return the event that ends an alert whose condition cannot be judged any more."""
    kind: EventKind = "dropped" if alert.state == "pending" else "resolved"
    return replace(
        copy_event(alert, kind, max(moment.ts_ns, alert.updated_ns), moment.decided_ns),
        comment=why,
        silence_id=silence_id,
        notify=kind == "resolved" and alert.notified_ns is not None and not silence_id,
    )


def acknowledge(alert: Alert, author: str, comment: str, now_ns: int) -> AlertEvent:
    """Return the event that somebody looks after it."""
    event = copy_event(alert, "acknowledged", alert.updated_ns, now_ns)
    identity = identify(alert.alert_id, "acknowledged", f"{now_ns}/{author}/{comment}")
    return replace(event, event_id=identity, author=author, comment=comment)


def fold_event(alert: Alert | None, event: AlertEvent) -> Alert | None:
    """Return the alert after an event; None when it was pending and went away."""
    if event.kind == "acknowledged":
        if alert is None:
            return None
        return replace(
            alert,
            acknowledged=Acknowledgement(event.author, event.decided_ns, event.comment),
        )
    if event.kind == "dropped":
        return None
    is_new = alert is None or alert.alert_id != event.alert_id
    notified_ns = None if is_new or alert is None else alert.notified_ns
    acknowledged = None if is_new or alert is None else alert.acknowledged
    is_over = event.kind == "resolved"
    is_met = not is_over
    return Alert(
        alert_id=event.alert_id,
        rule=event.rule,
        severity=event.severity,
        state="pending" if event.kind == "pending" else "resolved" if is_over else "firing",
        run_id=event.run_id or None,
        run_name=event.run_name or None,
        project=event.project or None,
        entity=Entity(event.entity_kind, event.entity_id),
        started_ns=event.started_ns,
        fired_ns=event.fired_ns,
        last_seen_ns=event.ts_ns if is_met or alert is None else alert.last_seen_ns,
        resolved_ns=event.ts_ns if is_over else None,
        first_step=event.started_step,
        last_step=event.step if is_met or alert is None else alert.last_step,
        count=event.count,
        value=event.value,
        threshold=event.threshold,
        baseline=event.baseline,
        unit=event.unit,
        summary=event.summary,
        cause=event.cause,
        first_look=event.first_look,
        link=make_link(event),
        evidence=event.evidence,
        acknowledged=acknowledged,
        silence_id=event.silence_id or None,
        notified_ns=event.ts_ns if event.notify else notified_ns,
        updated_ns=event.ts_ns,
    )


def _is_late(alert: Alert, moment: Moment) -> bool:
    return moment.ts_ns < alert.updated_ns and not moment.clock_went_back


def _is_repeat_due(rule: Rule, alert: Alert, moment: Moment) -> bool:
    if alert.acknowledged is not None:
        return False
    if alert.notified_ns is None:
        return True
    return moment.ts_ns - alert.notified_ns >= rule.repeat_s * _NS_PER_S
