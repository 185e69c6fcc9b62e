"""What the alerts page draws from: alerts, rules, silences and channels as one browser asks."""

# pyright: reportMissingTypeStubs=false

import time
from collections.abc import Mapping, Sequence
from functools import cached_property

from longpole_dashboards.alarm import find_silence
from longpole_dashboards.components.search import matches, sought_words
from longpole_dashboards.reading import Reader
from longpole_dashboards.refresh import View
from longpole_server.errors import WriterAwayError
from longpole_server.model.alert import (
    Alert,
    AlertEvent,
    ChannelStatus,
    RuleStatus,
    Silence,
)

# Which alerts are shown: the open ones, or one state.
STATES = ("open", "firing", "pending", "resolved")
RULE_STATES = ("all", "open", "quiet", "held_back", "not_judgeable")
MAX_EVENTS = 200
_STRIDE_S = 2.0
_SEVERITIES = ("critical", "warning", "info")
_PHASES = ("firing", "pending", "resolved")


class AlertsReading:
    """Alerts as one browser asks for them; everything is read when it is first asked for."""

    def __init__(self, reader: Reader, view: View) -> None:
        self.view = view
        self.run_id = view.query.text("run")
        self._service = reader.service
        self._alerts = reader.service.alerts
        self._memory = reader.memory
        self._version = (reader.service.changes.current.version, reader.num_acts)

    @property
    def state(self) -> str:
        """Which alerts are asked for."""
        return self.view.query.choice("state", STATES)

    @property
    def asked(self) -> str | None:
        """The alert that the address names."""
        return self.view.query.text("alert")

    @cached_property
    def alerts(self) -> Sequence[Alert]:
        """All alerts of the run that was asked for, or of every run."""
        return self._alerts.list_alerts(run_id=self.run_id)

    @cached_property
    def shown(self) -> Sequence[Alert]:
        """Those of the state that was asked for: what nobody looks after first.

        What a link led to comes before all others, whatever became of it meanwhile.
        """
        sought = sought_words(self.view.query)
        wanted = ("firing", "pending") if self.state == "open" else (self.state,)
        return sorted(
            (
                alert
                for alert in self.alerts
                if alert.alert_id == self.asked
                or (alert.state in wanted and self._is_sought(alert, sought))
            ),
            key=lambda alert: (
                alert.alert_id != self.asked,
                _PHASES.index(alert.state),
                alert.acknowledged is not None or self.find_silence(alert) is not None,
                _SEVERITIES.index(alert.severity),
                -alert.started_ns,
            ),
        )

    def _is_sought(self, alert: Alert, words: Sequence[str]) -> bool:
        run = self.names.get(alert.run_id, alert.run_id) if alert.run_id else ""
        title = self.titles.get(alert.rule, "")
        return matches(words, alert.rule, title, run, alert.entity.id, alert.summary)

    @cached_property
    def silences(self) -> Sequence[Silence]:
        """Silences in force."""
        return self._alerts.list_silences()

    def find_silence(self, alert: Alert) -> Silence | None:
        """Return the silence that covers an alert."""
        return find_silence(alert, self.silences)

    @cached_property
    def rules(self) -> Sequence[RuleStatus]:
        """All rules with what they saw last; tabs share what was read."""
        token = (self._version, int(time.monotonic() / _STRIDE_S))
        return self._memory.ask("rules", token, self._alerts.list_rules)

    @cached_property
    def titles(self) -> Mapping[str, str]:
        """Rule id -> title."""
        return {rule.rule_id: rule.title for rule in self.rules}

    @cached_property
    def blindness(self) -> str | None:
        """Why nothing new can fire at the moment, None while rules are judged."""
        return self._alerts.explain_blindness()

    @cached_property
    def channels(self) -> Sequence[ChannelStatus] | None:
        """The channels; None while the server that knows them does not answer this one."""
        try:
            return self._alerts.list_channels()
        except WriterAwayError:
            return None

    @cached_property
    def events(self) -> Sequence[AlertEvent]:
        """The newest transitions."""
        return self._memory.ask(
            ("alert-events", self.run_id),
            tuple((alert.alert_id, alert.updated_ns) for alert in self.alerts),
            lambda: self._alerts.list_events(self.run_id, MAX_EVENTS),
        )

    @cached_property
    def names(self) -> Mapping[str, str]:
        """Run id -> name."""
        runs = self._memory.ask("runs", self._version, self._service.list_runs)
        return {run.run_id: run.name for run in runs}
