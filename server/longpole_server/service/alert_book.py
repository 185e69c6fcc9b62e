"""The alerts of this server: the book in memory, its events in the store, silences, rules.

Rebuilt from the events when the server starts. What the store refuses is kept and written later.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from longpole_server.alerts.book import AlertBook
from longpole_server.alerts.catalogue import BUILT_IN_RULES
from longpole_server.alerts.evaluation import concerns, end_alerts_of, evaluate
from longpole_server.alerts.history import History, Moment
from longpole_server.alerts.lifecycle import end_alert, fingerprint_of
from longpole_server.alerts.rule import Rule
from longpole_server.alerts.silences import find_silence, list_in_force
from longpole_server.alerts.user_rules import make_rule
from longpole_server.errors import StoreError
from longpole_server.model.alert import Alert, AlertEvent, RuleInput, Silence, Trigger, UserRule
from longpole_server.read.alerts import AlertReader
from longpole_server.service.alert_past import (
    PAST_NS,
    InputKey,
    PastValues,
    key_of_event,
    key_of_input,
)
from longpole_server.store.alerts import AlertWriter

_logger = logging.getLogger(__name__)

# Events this young are read at the start, with all of what is not over.
_REMEMBERED_NS = 14 * 86_400 * 10**9
# A firing alert that goes on is written down this often.
_SEEN_NS = 60 * 10**9
_MAX_UNWRITTEN = 10_000
_MAX_INPUTS = 50_000
# What the store refuses for so long is told before it is written: it may refuse for the night.
_TOLD_UNWRITTEN_NS = 60 * 10**9


@dataclass(frozen=True, slots=True)
class AlertStore:
    """Connections of alerts alone, so that they wait for nobody and nobody waits for them."""

    reader: AlertReader
    writer: AlertWriter


@dataclass(frozen=True, slots=True)
class BookStats:
    """Counters since the start.

    Attributes:
        num_unwritten: Events that wait for the store.
        num_lost: Events given up because too many waited.
    """

    num_events: int
    num_write_failures: int
    num_unwritten: int
    num_lost: int
    num_detector_failures: int


class StoredBook:
    """An `AlertBook` whose events are stored. Thread-safe.

    Args:
        store: Holds the past and takes what is new.
        now_ns: Wall clock, UTC nanoseconds.
        built_in: Rules beside those of users.
    """

    def __init__(
        self,
        store: AlertStore,
        now_ns: Callable[[], int] = time.time_ns,
        built_in: Sequence[Rule] = BUILT_IN_RULES,
    ) -> None:
        self._built_in = tuple(built_in)
        self.store = store
        self._writer = store.writer
        reader = store.reader
        self._now_ns = now_ns
        # Of what is in memory, held for moments only: who reads must not wait for who judges or
        # writes. Who writes takes the other one first.
        self._lock = threading.RLock()
        self._writing = threading.RLock()
        events = reader.list_events_since(now_ns() - _REMEMBERED_NS)
        self._book = AlertBook(events)
        self._last_decided_ns = events[-1].decided_ns if events else 0
        self._silences = {silence.silence_id: silence for silence in reader.list_silences()}
        self._user_rules = {rule.rule_id: rule for rule in reader.list_user_rules()}
        self._rules = self._collect_rules()
        self._inputs: dict[InputKey, RuleInput] = {}
        self._past = PastValues()
        self._recall_past(reader.list_measured_since(now_ns() - PAST_NS))
        self._unwritten: list[AlertEvent] = []
        self._refused_since_ns: int | None = None
        self._told_unwritten: set[str] = set()
        self._held_seen: dict[str, AlertEvent] = {}
        self._seen_written_ns: dict[str, int] = {}
        self._listeners: list[Callable[[Sequence[AlertEvent]], None]] = []
        self._num_events = 0
        self._num_write_failures = 0
        self._num_lost = 0
        self._num_detector_failures = 0
        self.last_failure = ""

    @property
    def rules(self) -> tuple[Rule, ...]:
        """All rules."""
        return self._rules

    @property
    def user_rules(self) -> tuple[UserRule, ...]:
        """Those that users made."""
        return tuple(self._user_rules.values())

    @property
    def silences(self) -> tuple[Silence, ...]:
        """All silences, also those that are over."""
        return tuple(self._silences.values())

    @property
    def stats(self) -> BookStats:
        """The counters."""
        return BookStats(
            self._num_events,
            self._num_write_failures,
            len(self._unwritten),
            self._num_lost,
            self._num_detector_failures,
        )

    def add_listener(self, listener: Callable[[Sequence[AlertEvent]], None]) -> None:
        """Tell `listener` of events once they are stored. Called while others wait: be quick."""
        self._listeners.append(listener)

    def next_decided_ns(self) -> int:
        """Return now, later than any time returned before."""
        with self._lock:
            self._last_decided_ns = max(self._last_decided_ns + 1, self._now_ns())
            return self._last_decided_ns

    def evaluate(self, history: History, trigger: Trigger) -> list[AlertEvent]:
        """Judge the rules of a trigger; what comes of it is kept."""
        with self._lock:
            rules, silences = self._rules, self._list_in_force()
        found = evaluate(rules, history, self._book, trigger, silences, self._lock)
        with self._lock:
            if len(self._inputs) > _MAX_INPUTS:
                self._inputs.clear()
            for rule_id, seen in found.inputs:
                key = key_of_input(rule_id, seen)
                self._inputs[key] = seen
                if trigger == "time":
                    self._past.remember(key, seen.ts_ns, seen.value)
            self._note_failures(found.failures)
            self._hold(found.events)
            if rules is not self._rules:
                # A rule that was deleted or changed meanwhile may have raised one more alert.
                self._end_alerts_without_rule()
        self._write()
        return found.events

    def _list_in_force(self) -> tuple[Silence, ...]:
        return list_in_force(self._silences.values(), self._now_ns())

    def _recall_past(self, events: Sequence[AlertEvent]) -> None:
        """Take up what rules of time saw before a restart, as far as their alerts' events say."""
        of_time = {rule.rule_id for rule in self._rules if rule.trigger == "time"}
        for event in events:
            if event.rule in of_time:
                self._past.remember(key_of_event(event), event.ts_ns, event.value)

    def list_past(self, event: AlertEvent) -> list[tuple[int, float]]:
        """Return what the rule of an alert saw lately, by time: of rules of time, but for GPUs."""
        with self._lock:
            return self._past.list_past(event)

    def _note_failures(self, failures: Sequence[str]) -> None:
        self._num_detector_failures += len(failures)
        for failure in failures:
            if failure != self.last_failure:
                _logger.error("a detector failed: %s", failure)
            self.last_failure = failure

    def end_run(self, history: History, why: str, keep: frozenset[str] = frozenset()) -> None:
        """End the open alerts of a run that is over, and forget what its rules saw."""
        run_id = history.run.facts.run_id if history.run is not None else None
        with self._lock:
            self._hold(end_alerts_of(self._book, history, why, keep, self._list_in_force()))
            for key in [key for key in self._inputs if key[1] == run_id and key[0] not in keep]:
                del self._inputs[key]
            self._past.forget_run(run_id, keep)
        self._write()

    def apply(self, event: AlertEvent) -> Alert | None:
        """Take in an event that was not judged."""
        with self._lock:
            alert = self._book.apply(event)
            self._hold([event])
        self._write()
        return alert

    def get(self, alert_id: str) -> Alert | None:
        """Return an alert by its id."""
        with self._lock:
            return self._book.get(alert_id)

    def list_alerts(self) -> list[Alert]:
        """Return open alerts and those that were over not long ago, newest first."""
        with self._lock:
            return self._book.list_all()

    def has_open(self, run_id: str) -> bool:
        """Tell whether a run has an alert that is pending or firing."""
        with self._lock:
            return any(alert.run_id == run_id for alert in self._book.list_open())

    def count_firing(self, run_id: str | None = None) -> int:
        """Return how many alerts are firing, of a run or at all."""
        with self._lock:
            if run_id is not None:
                return self._book.count_firing(run_id)
            return sum(alert.state == "firing" for alert in self._book.list_open())

    def list_inputs(self) -> list[tuple[str, RuleInput]]:
        """Return what the rules saw last, by rule."""
        with self._lock:
            return [(key[0], seen) for key, seen in self._inputs.items()]

    def put_silence(self, silence: Silence) -> None:
        """Make or change a silence.

        Raises:
            StoreError: The database failed; nothing has changed.
        """
        with self._writing:
            self._writer.write_silence(silence, self.next_decided_ns())
            with self._lock:
                self._silences[silence.silence_id] = silence

    def put_rule(self, rule_id: str, rule: UserRule | None) -> None:
        """Make, replace or delete a user's rule; alerts of a deleted one end.

        Raises:
            StoreError: The database failed; nothing has changed.
        """
        with self._writing:
            self._writer.write_rule(rule_id, rule, self.next_decided_ns())
            self._put_rule(rule_id, rule)
        self._write()

    def _put_rule(self, rule_id: str, rule: UserRule | None) -> None:
        with self._lock:
            known = self._user_rules.pop(rule_id, None)
            if rule is not None:
                self._user_rules[rule_id] = rule
            self._rules = self._collect_rules()
            for key in [key for key in self._inputs if key[0] == rule_id]:
                del self._inputs[key]
            if known is not None and rule is not None and not _asks_the_same(known, rule):
                self._end_alerts(
                    [each for each in self._book.list_open() if each.rule == rule_id],
                    "its rule asks for something else now",
                )
            self._end_alerts_without_rule()

    def flush(self) -> bool:
        """Write what waits; tell whether nothing is left."""
        with self._lock:
            self._release_seen(everything=True)
        return self._write()

    def _collect_rules(self) -> tuple[Rule, ...]:
        return (*self._built_in, *map(make_rule, self._user_rules.values()))

    def end_unknown_runs(self, known: Collection[str]) -> None:
        """End the open alerts of runs that are not in the store any more."""
        with self._lock:
            gone = [
                alert
                for alert in self._book.list_open()
                if alert.run_id is not None and alert.run_id not in known
            ]
            if gone:
                self._end_alerts(gone, "gone: the run is not in the store any more")
        if gone:
            self._write()

    def _end_alerts_without_rule(self) -> None:
        known = {rule.rule_id: rule for rule in self._rules}
        alerts = self._book.list_open()
        self._end_alerts(
            [each for each in alerts if each.rule not in known], "its rule was deleted"
        )
        others = [
            alert
            for alert in alerts
            if alert.rule in known and not concerns(known[alert.rule], alert.run_id or "")
        ]
        self._end_alerts(others, "its rule is for other runs now")

    def _end_alerts(self, alerts: Iterable[Alert], why: str) -> None:
        decided_ns, in_force = self.next_decided_ns(), self._list_in_force()
        moment = Moment(decided_ns, decided_ns)
        for alert in alerts:
            silence_id = find_silence(in_force, fingerprint_of(alert))
            event = end_alert(alert, moment, why, silence_id=silence_id)
            self._book.apply(event)
            self._hold([event])

    def _hold(self, events: Iterable[AlertEvent]) -> None:
        for event in events:
            if event.kind == "seen":
                # Absolute numbers: a later event of the same alert says all that this one says.
                self._held_seen[event.alert_id] = event
                continue
            self._held_seen.pop(event.alert_id, None)
            self._unwritten.append(event)
            if event.kind in ("resolved", "dropped"):
                self._seen_written_ns.pop(event.alert_id, None)
        self._release_seen(everything=False)

    def _release_seen(self, *, everything: bool) -> None:
        for alert_id, event in list(self._held_seen.items()):
            written_ns = self._seen_written_ns.get(alert_id, 0)
            if everything or event.decided_ns - written_ns >= _SEEN_NS:
                self._unwritten.append(self._held_seen.pop(alert_id))
                self._seen_written_ns[alert_id] = event.decided_ns

    def _write(self) -> bool:
        """Write what waits, in order; tell whether nothing is left."""
        with self._writing:
            with self._lock:
                events = list(self._unwritten)
            if not events:
                return True
            try:
                self._writer.write_events(events)
            except StoreError:
                self._note_write_failure()
                self._tell_unwritten(events)
                return False
            with self._lock:
                del self._unwritten[: len(events)]
                self._num_events += len(events)
                news = [each for each in events if each.event_id not in self._told_unwritten]
                self._told_unwritten.clear()
                self._refused_since_ns = None
            for listener in self._listeners:
                listener(news)
            return True

    def _tell_unwritten(self, events: Sequence[AlertEvent]) -> None:
        """Tell of events that the store has refused for long: a restart may tell of them again."""
        now_ns = self._now_ns()
        with self._lock:
            since_ns = self._refused_since_ns
            if since_ns is None or since_ns > now_ns:
                self._refused_since_ns = since_ns = now_ns
            if now_ns - since_ns < _TOLD_UNWRITTEN_NS:
                return
            news = [each for each in events if each.event_id not in self._told_unwritten]
            self._told_unwritten.update(each.event_id for each in news)
        for listener in self._listeners:
            listener(news)

    def _note_write_failure(self) -> None:
        with self._lock:
            self._num_write_failures += 1
            num_over = len(self._unwritten) - _MAX_UNWRITTEN
            if num_over > 0:
                self._num_lost += num_over
                del self._unwritten[:num_over]


def _asks_the_same(rule: UserRule, other: UserRule) -> bool:
    return (rule.metric, rule.comparison) == (other.metric, other.comparison)
