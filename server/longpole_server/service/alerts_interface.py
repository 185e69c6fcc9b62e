"""What the API and the dashboards may ask of alerts. Part of the facade."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from longpole_server.model.alert import (
    Alert,
    AlertEvent,
    AlertPhase,
    ChannelStatus,
    RuleStatus,
    Silence,
    UserRule,
)


@dataclass(frozen=True, slots=True)
class ChannelTest:
    """What a channel answered to a sample. `error` is None when it took it."""

    channel: str
    kind: str
    error: str | None


class Alerts(Protocol):
    """Alerts, their events, rules, silences and channels.

    Synchronous and thread-safe like the rest of the facade. What does not exist raises
    `NotFoundError`, what makes no sense `BadRequestError`.
    """

    def list_alerts(
        self, state: AlertPhase | None = None, run_id: str | None = None
    ) -> Sequence[Alert]:
        """Return alerts, newest first: open ones and those that were over not long ago."""
        ...

    def list_events(
        self, run_id: str | None = None, limit: int = 100, offset: int = 0
    ) -> Sequence[AlertEvent]:
        """Return transitions, newest first."""
        ...

    def list_rules(self) -> Sequence[RuleStatus]:
        """Return all rules with what they saw last."""
        ...

    def save_rule(self, document: Mapping[str, object], rule_id: str | None = None) -> UserRule:
        """Make a user's rule, or replace the one with this id."""
        ...

    def delete_rule(self, rule_id: str) -> None:
        """Delete a user's rule; its open alerts end."""
        ...

    def list_silences(self) -> Sequence[Silence]:
        """Return silences that are in force or to come, newest first."""
        ...

    def add_silence(self, document: Mapping[str, object]) -> Silence:
        """Make a silence."""
        ...

    def lift_silence(self, silence_id: str) -> Silence:
        """End a silence now."""
        ...

    def explain_blindness(self) -> str | None:
        """Return why nothing new can fire at the moment, None while rules are judged."""
        ...

    def list_channels(self) -> Sequence[ChannelStatus]:
        """Return the channels and how their deliveries went. Never a secret."""
        ...

    def test_channels(self) -> Sequence[ChannelTest]:
        """Send a sample to every channel."""
        ...

    def acknowledge(self, alert_id: str, author: str, comment: str) -> Alert:
        """Say that somebody looks after an alert: it is not repeated any more."""
        ...

    def replay(self, run_id: str, extra: Mapping[str, object] | None = None) -> Sequence[Alert]:
        """Run all rules over a stored run; or `extra` alone, a user's rule that is tried."""
        ...
