"""`Alerts` in memory: what a test puts in is what the pages get."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from longpole_server.alerts.catalogue import BUILT_IN_RULES
from longpole_server.alerts.silences import read_silence
from longpole_server.alerts.user_rules import make_rule, read_user_rule
from longpole_server.errors import NotFoundError
from longpole_server.model.alert import (
    Acknowledgement,
    Alert,
    AlertEvent,
    AlertPhase,
    ChannelStatus,
    RuleInput,
    RuleStatus,
    Silence,
    UserRule,
)
from longpole_server.service import ChannelTest
from longpole_server.service.alert_service import describe_rule


@dataclass
class FakeAlerts:
    """Implements `longpole_server.service.Alerts`."""

    alerts: list[Alert] = field(default_factory=list[Alert])
    events: list[AlertEvent] = field(default_factory=list[AlertEvent])
    inputs: dict[str, list[RuleInput]] = field(default_factory=dict[str, list[RuleInput]])
    user_rules: dict[str, UserRule] = field(default_factory=dict[str, UserRule])
    silences: list[Silence] = field(default_factory=list[Silence])
    channels: list[ChannelStatus] = field(default_factory=list[ChannelStatus])
    now_ns: int = 1_700_000_000_000_000_000
    blindness: str | None = None

    def list_alerts(
        self, state: AlertPhase | None = None, run_id: str | None = None
    ) -> Sequence[Alert]:
        return [
            alert
            for alert in self.alerts
            if state in (None, alert.state) and run_id in (None, alert.run_id)
        ]

    def list_events(
        self, run_id: str | None = None, limit: int = 100, offset: int = 0
    ) -> Sequence[AlertEvent]:
        found = [event for event in self.events if run_id in (None, event.run_id)]
        return found[offset : offset + limit]

    def list_rules(self) -> Sequence[RuleStatus]:
        """Return the rules, looked at just now: time that passes changes what each saw."""
        rules = [*BUILT_IN_RULES, *map(make_rule, self.user_rules.values())]
        return [describe_rule(rule, self._look(rule.rule_id)) for rule in rules]

    def _look(self, rule_id: str) -> list[RuleInput]:
        return [replace(seen, ts_ns=self.now_ns) for seen in self.inputs.get(rule_id, [])]

    def save_rule(self, document: Mapping[str, object], rule_id: str | None = None) -> UserRule:
        rule = read_user_rule(document, rule_id)
        self.user_rules[rule.rule_id] = rule
        return rule

    def delete_rule(self, rule_id: str) -> None:
        if self.user_rules.pop(rule_id, None) is None:
            raise NotFoundError(f"no rule {rule_id!r}")

    def list_silences(self) -> Sequence[Silence]:
        return self.silences

    def add_silence(self, document: Mapping[str, object]) -> Silence:
        silence = read_silence(document, f"silence-{len(self.silences)}", self.now_ns)
        self.silences.append(silence)
        return silence

    def lift_silence(self, silence_id: str) -> Silence:
        for silence in self.silences:
            if silence.silence_id == silence_id:
                self.silences.remove(silence)
                return silence
        raise NotFoundError(f"no silence {silence_id!r}")

    def explain_blindness(self) -> str | None:
        return self.blindness

    def list_channels(self) -> Sequence[ChannelStatus]:
        return self.channels

    def test_channels(self) -> Sequence[ChannelTest]:
        return [ChannelTest(each.channel, each.kind, None) for each in self.channels]

    def acknowledge(self, alert_id: str, author: str, comment: str) -> Alert:
        for index, alert in enumerate(self.alerts):
            if alert.alert_id == alert_id:
                done = replace(alert, acknowledged=Acknowledgement(author, self.now_ns, comment))
                self.alerts[index] = done
                return done
        raise NotFoundError(f"no alert {alert_id!r}")

    def replay(self, run_id: str, extra: Mapping[str, object] | None = None) -> Sequence[Alert]:
        found = list(self.list_alerts(run_id=run_id))
        if extra is not None:
            rule = read_user_rule(extra)
            found += [replace(alert, rule=rule.rule_id) for alert in found]
        return found
