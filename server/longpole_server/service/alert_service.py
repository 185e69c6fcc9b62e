"""Implements `Alerts` on the stored book: what the API and the dashboards call."""

import secrets
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

from longpole_server.alerts.lifecycle import acknowledge
from longpole_server.alerts.replay import replay
from longpole_server.alerts.rule import Rule
from longpole_server.alerts.silences import read_silence
from longpole_server.alerts.user_rules import MAX_RULES, PREFIX, make_rule, read_user_rule
from longpole_server.alerts.wording import format_seconds
from longpole_server.errors import BadRequestError, NotFoundError, StoreError
from longpole_server.model.alert import (
    Alert,
    AlertEvent,
    AlertPhase,
    ChannelStatus,
    RuleInput,
    RuleStatus,
    Silence,
    UserRule,
)
from longpole_server.read.alerts import AlertReader
from longpole_server.service.alert_book import StoredBook
from longpole_server.service.alert_histories import HistoryReader
from longpole_server.service.alerts_interface import ChannelTest

_MAX_SILENCES = 1_000
_SHOWN_INPUTS = 50
_MAX_TEXT = 1_000
# The most telling first.
_INPUT_ORDER = ("firing", "pending", "quiet", "not_judgeable")


@contextmanager
def _saving(what: str) -> Generator[None]:
    """Say of a store that takes nothing what it means to who asked: nothing is half done."""
    try:
        yield
    except StoreError as error:
        raise StoreError(
            f"The {what} was not saved, and nothing has changed. {error.message}", hint=error.hint
        ) from error


class Channels(Protocol):
    """What is asked of those who deliver."""

    def list_channels(self) -> Sequence[ChannelStatus]:
        """Return the channels and how their deliveries went."""
        ...

    def test_channels(self) -> Sequence[ChannelTest]:
        """Send a sample to every channel."""
        ...


class AlertService:
    """Implements `Alerts`. Thread-safe.

    Args:
        book: The alerts.
        reader: Reads the events of the past.
        histories: Reads stored runs for replays.
        channels: Those who deliver.
        now_ns: Wall clock, UTC nanoseconds.
        read_stuck_s: Returns for how many seconds no rule could be judged, 0 while all is well.
    """

    def __init__(
        self,
        book: StoredBook,
        reader: AlertReader,
        histories: HistoryReader,
        channels: Channels,
        now_ns: Callable[[], int] = time.time_ns,
        read_stuck_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._read_stuck_s = read_stuck_s
        self._book = book
        self._reader = reader
        self._histories = histories
        self._channels = channels
        self._now_ns = now_ns

    def list_alerts(
        self, state: AlertPhase | None = None, run_id: str | None = None
    ) -> Sequence[Alert]:
        """Return alerts, newest first: open ones and those that were over not long ago."""
        return select_alerts(self._book.list_alerts(), state, run_id)

    def list_events(
        self, run_id: str | None = None, limit: int = 100, offset: int = 0
    ) -> Sequence[AlertEvent]:
        """Return transitions, newest first."""
        return self._reader.list_events(run_id, limit, offset)

    def list_rules(self) -> Sequence[RuleStatus]:
        """Return all rules with what they saw last."""
        inputs: defaultdict[str, list[RuleInput]] = defaultdict(list)
        for rule_id, seen in self._book.list_inputs():
            inputs[rule_id].append(seen)
        return [describe_rule(rule, inputs[rule.rule_id]) for rule in self._book.rules]

    def save_rule(self, document: Mapping[str, object], rule_id: str | None = None) -> UserRule:
        """Make a user's rule, or replace the one with this id."""
        known = {rule.rule_id for rule in self._book.user_rules}
        if rule_id is not None:
            self._check_is_users(rule_id)
        rule = read_user_rule(document, rule_id)
        if rule_id is None and rule.rule_id in known:
            raise BadRequestError(
                f"there is a rule {rule.rule_id!r} already",
                hint=f"PUT /api/v1/rules/{rule.rule_id} replaces it, or choose another rule_id",
            )
        if rule_id is None and len(known) >= MAX_RULES:
            raise BadRequestError(f"there are {MAX_RULES} rules already", hint="delete some first")
        with _saving("rule"):
            self._book.put_rule(rule.rule_id, rule)
        return rule

    def delete_rule(self, rule_id: str) -> None:
        """Delete a user's rule; its open alerts end."""
        self._check_is_users(rule_id)
        with _saving("end of the rule"):
            self._book.put_rule(rule_id, None)

    def list_silences(self) -> Sequence[Silence]:
        """Return silences that are in force or to come, newest first."""
        now_ns = self._now_ns()
        current = [silence for silence in self._book.silences if silence.ends_ns > now_ns]
        return sorted(current, key=lambda silence: -silence.created_ns)

    def add_silence(self, document: Mapping[str, object]) -> Silence:
        """Make a silence."""
        silence = read_silence(document, secrets.token_hex(8), self._now_ns())
        if silence.rule is not None:
            self._check_rule_exists(silence.rule)
        if len(self.list_silences()) >= _MAX_SILENCES:
            raise BadRequestError(f"there are {_MAX_SILENCES} silences already")
        with _saving("silence"):
            self._book.put_silence(silence)
        return silence

    def lift_silence(self, silence_id: str) -> Silence:
        """End a silence now."""
        now_ns = self._now_ns()
        for silence in self._book.silences:
            if silence.silence_id == silence_id and silence.ends_ns > now_ns:
                lifted = replace(silence, ends_ns=now_ns)
                with _saving("end of the silence"):
                    self._book.put_silence(lifted)
                return lifted
        raise NotFoundError(f"no silence {silence_id!r} is in force")

    def explain_blindness(self) -> str | None:
        """Return why nothing new can fire at the moment, None while rules are judged."""
        stuck_s = self._read_stuck_s()
        if not stuck_s:
            return None
        lasting = format_seconds(60 * (stuck_s // 60))
        return f"No rule has been judged for {lasting}: what fires now is not known."

    def list_channels(self) -> Sequence[ChannelStatus]:
        """Return the channels and how their deliveries went. Never a secret."""
        return self._channels.list_channels()

    def test_channels(self) -> Sequence[ChannelTest]:
        """Send a sample to every channel."""
        return self._channels.test_channels()

    def acknowledge(self, alert_id: str, author: str, comment: str) -> Alert:
        """Say that somebody looks after an alert: it is not repeated any more."""
        if len(author) > _MAX_TEXT or len(comment) > _MAX_TEXT:
            raise BadRequestError(f"author and comment take {_MAX_TEXT} letters at most")
        alert = self._book.get(alert_id)
        if alert is None:
            raise NotFoundError(f"no alert {alert_id!r}", hint="GET /api/v1/alerts lists them")
        event = acknowledge(alert, author, comment, self._book.next_decided_ns())
        return self._book.apply(event) or alert

    def replay(self, run_id: str, extra: Mapping[str, object] | None = None) -> Sequence[Alert]:
        """Run all rules over a stored run; or `extra` alone, a user's rule that is tried."""
        if extra is not None:
            return self._try_rule(make_rule(read_user_rule(extra)), run_id)
        alerts, _ = replay(
            self._book.rules,
            self._histories.read_attempts(run_id),
            self._histories.hardware.list_minutes,
        )
        return alerts

    def _try_rule(self, rule: Rule, run_id: str) -> list[Alert]:
        """Return what one rule would have told of a stored run: nothing of the others."""
        alerts, _ = replay([rule], self._histories.read_attempts(run_id))
        return [alert for alert in alerts if alert.fired_ns is not None]

    def _check_is_users(self, rule_id: str) -> None:
        if any(rule.rule_id == rule_id for rule in self._book.user_rules):
            return
        if any(rule.rule_id == rule_id for rule in self._book.rules):
            raise BadRequestError(
                f"{rule_id} is a built-in rule", hint="silence it instead: POST /api/v1/silences"
            )
        raise NotFoundError(f"no rule {rule_id!r}", hint=f"rules of users begin with `{PREFIX}`")

    def _check_rule_exists(self, name: str) -> None:
        known = {rule.rule_id for rule in self._book.rules}
        if name not in known and not any(rule.startswith(f"{name}.") for rule in known):
            raise BadRequestError(f"no rule {name!r}", hint="GET /api/v1/rules lists them")


def select_alerts(
    alerts: Iterable[Alert], state: AlertPhase | None, run_id: str | None
) -> list[Alert]:
    """Return the alerts in a state and of a run; None for whatever it is."""
    return [
        alert
        for alert in alerts
        if (state is None or alert.state == state) and (run_id is None or alert.run_id == run_id)
    ]


def describe_rule(rule: Rule, inputs: Sequence[RuleInput]) -> RuleStatus:
    """Return a rule with the most telling of what it saw last."""
    ordered = sorted(
        inputs,
        key=lambda seen: (_INPUT_ORDER.index(seen.state), seen.is_held_back, -seen.ts_ns),
    )
    return RuleStatus(
        rule_id=rule.rule_id,
        title=rule.title,
        kind=rule.kind,
        severity=rule.severity,
        entity_kind=rule.entity_kind,
        reads=rule.detector.reads,
        condition=rule.condition,
        fire_threshold=rule.detector.fire,
        clear_threshold=rule.detector.clear,
        unit=rule.detector.unit,
        for_steps=rule.for_steps,
        for_s=rule.for_s,
        cooldown_s=rule.cooldown_s,
        repeat_s=rule.repeat_s,
        summary=rule.summary,
        cause=rule.cause,
        first_look=rule.first_look,
        built_in=rule.user is None,
        quiet_because=_explain_quiet(rule, inputs),
        inputs=tuple(ordered[:_SHOWN_INPUTS]),
        num_inputs=len(ordered),
        metric=rule.user.metric if rule.user is not None else None,
        comparison=rule.user.comparison if rule.user is not None else None,
        run=rule.user.run if rule.user is not None else None,
    )


def _explain_quiet(rule: Rule, inputs: Sequence[RuleInput]) -> str | None:
    if any(seen.state == "firing" for seen in inputs):
        return None
    # What was judged says more than where the rule was held back.
    judged = [seen for seen in inputs if not seen.is_held_back] or inputs
    reasons = Counter(seen.quiet_because for seen in judged if seen.quiet_because is not None)
    if reasons:
        return reasons.most_common(1)[0][0]
    if rule.entity_kind == "server":
        return "not judged yet: the server started just now"
    return "no live run was judged since the server started"
