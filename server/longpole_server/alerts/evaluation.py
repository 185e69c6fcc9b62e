"""Judges rules on what there is at one moment. The same for live runs and for replays."""

import fnmatch
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from longpole_server.alerts.book import AlertBook
from longpole_server.alerts.departures import end_alerts_of_departed, find_teller
from longpole_server.alerts.events import Subject
from longpole_server.alerts.history import History, Moment
from longpole_server.alerts.lifecycle import advance, end_alert, fingerprint_of
from longpole_server.alerts.rule import Judgement, Rule, not_judgeable
from longpole_server.alerts.silences import find_silence
from longpole_server.alerts.suppression import find_suppression
from longpole_server.model.alert import AlertEvent, InputState, RuleInput, Silence, Trigger
from longpole_server.model.diagnosis import Entity

_NS_PER_S = 1_000_000_000


@dataclass(slots=True)
class Evaluation:
    """What came of judging.

    Attributes:
        events: In the order in which they were decided; the book has them already.
        inputs: What each rule saw.
        failures: Detectors that failed, as text.
    """

    events: list[AlertEvent] = field(default_factory=list[AlertEvent])
    inputs: list[tuple[str, RuleInput]] = field(default_factory=list[tuple[str, RuleInput]])
    failures: list[str] = field(default_factory=list[str])


def evaluate(
    rules: Iterable[Rule],
    history: History,
    book: AlertBook,
    trigger: Trigger,
    silences: Sequence[Silence] = (),
    lock: AbstractContextManager[object] | None = None,
) -> Evaluation:
    """Judge the rules of a trigger on every entity and take the events into the book.

    Args:
        rules: All rules; those of other triggers, and those of other runs, are left out.
        history: What there is at the moment.
        book: The alerts so far.
        trigger: `step` when a step closed, `time` between steps.
        silences: Those in force keep events from people.
        lock: Held while the book is used, and not while a detector judges.
    """
    evaluation, lock = Evaluation(), lock or nullcontext()
    judged = [rule for rule in rules if rule.trigger == trigger and _is_for(rule, history)]
    for rule in judged:
        entities = history.list_entities(rule.entity_kind)
        for entity in entities:
            _judge(rule, history.focus(entity), book, silences, evaluation, lock)
        if not entities:
            why = not_judgeable(f"no {rule.entity_kind} is known", rule.detector.unit)
            nobody = history.focus(Entity(rule.entity_kind, ""))
            evaluation.inputs.append((rule.rule_id, _describe(nobody, why, "not_judgeable")))
    with lock:
        evaluation.events += end_alerts_of_departed(judged, history, book, silences)
    return evaluation


def end_alerts_of(
    book: AlertBook,
    history: History,
    why: str,
    keep: frozenset[str] = frozenset(),
    silences: Sequence[Silence] = (),
) -> list[AlertEvent]:
    """End every open alert of a run that is over, but those of the rules to keep."""
    run_id = history.run.facts.run_id if history.run is not None else None
    events = [
        end_alert(
            alert,
            history.moment,
            why,
            silence_id=find_silence(silences, fingerprint_of(alert)),
        )
        for alert in book.list_open()
        if alert.run_id == run_id and run_id is not None and alert.rule not in keep
    ]
    for event in events:
        book.apply(event)
    return events


def concerns(rule: Rule, run_id: str) -> bool:
    """Tell whether a rule is for a run."""
    pattern = rule.user.run if rule.user is not None else None
    return pattern is None or fnmatch.fnmatchcase(run_id, pattern)


def _is_for(rule: Rule, history: History) -> bool:
    if (rule.entity_kind == "server") != (history.run is None):
        return False
    return history.run is None or concerns(rule, history.run.facts.run_id)


def _judge(
    rule: Rule,
    history: History,
    book: AlertBook,
    silences: Sequence[Silence],
    evaluation: Evaluation,
    lock: AbstractContextManager[object],
) -> None:
    if rule.yields_to:
        with lock:
            is_told = _yield(rule, history, book, silences, evaluation)
        if is_told:
            return
    try:
        judgement = rule.detector.judge(history)
    except Exception as error:  # noqa: BLE001 - one broken detector must not stop the others
        evaluation.failures.append(f"{rule.rule_id}: {type(error).__name__}: {error}")
        judgement = not_judgeable("its detector failed; the server's log says how")
    subject = Subject(history.entity, history.run)
    suppressed = find_suppression(rule, history)
    if suppressed is not None and judgement.is_judged:
        evaluation.inputs.append(
            (rule.rule_id, _describe(history, judgement, "quiet", quiet_because=suppressed))
        )
        return
    with lock:
        _advance(rule, subject, judgement, history, book, silences, evaluation)


def _yield(
    rule: Rule,
    history: History,
    book: AlertBook,
    silences: Sequence[Silence],
    evaluation: Evaluation,
) -> bool:
    """Leave an entity to the rule that tells more of it, where one does."""
    teller = find_teller(rule, history, book)
    if teller is None:
        return False
    alert = book.find(Subject(history.entity, history.run).fingerprint(rule))
    if alert is not None and alert.state != "resolved":
        silence_id = find_silence(silences, fingerprint_of(alert))
        why = f"gone: {teller} tells of it"
        event = end_alert(alert, history.moment, why, silence_id=silence_id)
        book.apply(event)
        evaluation.events.append(event)
    judgement = not_judgeable(f"{teller} tells of it", rule.detector.unit)
    evaluation.inputs.append((rule.rule_id, _describe(history, judgement, "not_judgeable")))
    return True


def _advance(
    rule: Rule,
    subject: Subject,
    judgement: Judgement,
    history: History,
    book: AlertBook,
    silences: Sequence[Silence],
    evaluation: Evaluation,
) -> None:
    fingerprint = subject.fingerprint(rule)
    over_ns = book.resolved_ns(fingerprint)
    event = advance(
        rule,
        subject,
        book.find(fingerprint),
        judgement,
        history.moment,
        silence_id=find_silence(silences, fingerprint),
        cooling_until_ns=_find_cooling_end(rule, over_ns, history.moment),
    )
    if event is not None:
        book.apply(event)
        evaluation.events.append(event)
    alert = book.find(fingerprint)
    state: InputState = "quiet" if judgement.is_judged else "not_judgeable"
    if alert is not None and alert.state != "resolved":
        state = alert.state
    evaluation.inputs.append((rule.rule_id, _describe(history, judgement, state)))


def _find_cooling_end(rule: Rule, over_ns: int | None, moment: Moment) -> int:
    if over_ns is None or (moment.clock_went_back and over_ns > moment.ts_ns):
        return 0
    return over_ns + round(rule.cooldown_s * _NS_PER_S)


def _describe(
    history: History,
    judgement: Judgement,
    state: InputState,
    quiet_because: str | None = None,
) -> RuleInput:
    quiet = quiet_because or judgement.quiet_because
    if state == "pending":
        quiet = quiet or "its condition has not held for long enough yet"
    elif state == "firing":
        quiet = None
    return RuleInput(
        run_id=history.run.facts.run_id if history.run is not None else None,
        entity=history.entity,
        state=state,
        step=history.moment.step,
        ts_ns=history.moment.ts_ns,
        value=judgement.value,
        threshold=judgement.threshold,
        baseline=judgement.baseline,
        unit=judgement.unit,
        quiet_because=quiet,
    )
