"""Implements `Alerts` for a server that only shows: reads the store, and passes on what changes."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeVar
from urllib.parse import quote

from pydantic import TypeAdapter

from longpole_server.alerts.replay import replay
from longpole_server.alerts.user_rules import make_rule, read_user_rule
from longpole_server.errors import StoreError, WriterAwayError
from longpole_server.model.alert import (
    Alert,
    AlertEvent,
    AlertPhase,
    ChannelStatus,
    RuleStatus,
    Silence,
    UserRule,
)
from longpole_server.read.alerts import AlertReader
from longpole_server.service.alert_histories import HistoryReader
from longpole_server.service.alert_service import describe_rule, select_alerts
from longpole_server.service.alerts_interface import ChannelTest
from longpole_server.service.followed_book import FollowedBook
from longpole_server.service.writer_link import WriterLink

T = TypeVar("T")

_NOT_KNOWN = "not known: the server that judges rules does not answer"


@dataclass(frozen=True, slots=True)
class _Rules:
    rules: Sequence[RuleStatus]


@dataclass(frozen=True, slots=True)
class _Channels:
    channels: Sequence[ChannelStatus]


@dataclass(frozen=True, slots=True)
class _Tests:
    channels: Sequence[ChannelTest]


_alert, _silence, _rule = TypeAdapter(Alert), TypeAdapter(Silence), TypeAdapter(UserRule)
_rules, _channels, _tests = TypeAdapter(_Rules), TypeAdapter(_Channels), TypeAdapter(_Tests)
_anything = TypeAdapter(object)


class FollowedAlerts:
    """Alerts of another server. Thread-safe.

    Args:
        book: What is stored of them.
        reader: Reads the events of the past.
        histories: Reads stored runs for replays.
        link: The way to the server that judges.
        explain_blindness: Returns why nothing new can fire.
        on_act: Called after something was changed.
        now_ns: Wall clock, UTC nanoseconds.
    """

    def __init__(
        self,
        book: FollowedBook,
        reader: AlertReader,
        histories: HistoryReader,
        link: WriterLink,
        explain_blindness: Callable[[], str | None],
        on_act: Callable[[], None],
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._book = book
        self._reader = reader
        self._histories = histories
        self._link = link
        self._explain_blindness = explain_blindness
        self._on_act = on_act
        self._now_ns = now_ns
        self._lock = threading.Lock()
        self._known_channels: Sequence[ChannelStatus] | None = None

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
        """Return all rules; what they saw last only the server that judges them knows."""
        try:
            return self._link.call(_rules, "GET", "/api/v1/rules").rules
        except WriterAwayError:
            return [
                replace(describe_rule(rule, ()), quiet_because=_NOT_KNOWN)
                for rule in self._book.rules
            ]

    def save_rule(self, document: Mapping[str, object], rule_id: str | None = None) -> UserRule:
        """Have a user's rule made, or the one with this id replaced."""
        if rule_id is None:
            return self._act(_rule, "POST", "/api/v1/rules", document)
        return self._act(_rule, "PUT", f"/api/v1/rules/{quote(rule_id, safe='')}", document)

    def delete_rule(self, rule_id: str) -> None:
        """Have a user's rule deleted; its open alerts end."""
        self._act(_anything, "DELETE", f"/api/v1/rules/{quote(rule_id, safe='')}")

    def list_silences(self) -> Sequence[Silence]:
        """Return silences that are in force or to come, newest first."""
        now_ns = self._now_ns()
        current = [silence for silence in self._book.silences if silence.ends_ns > now_ns]
        return sorted(current, key=lambda silence: -silence.created_ns)

    def add_silence(self, document: Mapping[str, object]) -> Silence:
        """Have a silence made."""
        return self._act(_silence, "POST", "/api/v1/silences", document)

    def lift_silence(self, silence_id: str) -> Silence:
        """Have a silence ended now."""
        return self._act(_silence, "DELETE", f"/api/v1/silences/{quote(silence_id, safe='')}")

    def explain_blindness(self) -> str | None:
        """Return why nothing new can fire at the moment, None while rules are judged."""
        return self._explain_blindness()

    def list_channels(self) -> Sequence[ChannelStatus]:
        """Return the channels and how their deliveries went, as it was known last.

        Raises:
            WriterAwayError: It never was, and the server that knows does not answer.
        """
        try:
            found = self._link.call(_channels, "GET", "/api/v1/channels").channels
        except WriterAwayError:
            with self._lock:
                if self._known_channels is None:
                    raise
                return self._known_channels
        with self._lock:
            self._known_channels = found
        return found

    def test_channels(self) -> Sequence[ChannelTest]:
        """Have a sample sent to every channel."""
        return self._act(_tests, "POST", "/api/v1/channels/test").channels

    def acknowledge(self, alert_id: str, author: str, comment: str) -> Alert:
        """Have it said that somebody looks after an alert."""
        document = {"author": author, "comment": comment}
        return self._act(_alert, "POST", f"/api/v1/alerts/{quote(alert_id, safe='')}/ack", document)

    def replay(self, run_id: str, extra: Mapping[str, object] | None = None) -> Sequence[Alert]:
        """Run all rules over a stored run; or `extra` alone, a user's rule that is tried."""
        attempts = self._histories.read_attempts(run_id)
        if extra is None:
            return replay(self._book.rules, attempts, self._histories.hardware.list_minutes)[0]
        alerts, _ = replay([make_rule(read_user_rule(extra))], attempts)
        return [alert for alert in alerts if alert.fired_ns is not None]

    def _act(self, kind: TypeAdapter[T], method: str, path: str, document: object = None) -> T:
        done = self._link.call(kind, method, path, document)
        # It is done; who reads next sees it, as far as the store shows it already.
        with suppress(StoreError):
            self._book.refresh()
        self._on_act()
        return done
