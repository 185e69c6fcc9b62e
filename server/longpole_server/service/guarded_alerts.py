"""Alerts as the asker may see and change them; what is changed is written down."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from longpole_server.errors import ForbiddenError, NotFoundError
from longpole_server.model.alert import (
    Alert,
    AlertEvent,
    AlertPhase,
    ChannelStatus,
    RuleStatus,
    Silence,
    UserRule,
)
from longpole_server.model.principal import Principal
from longpole_server.service.alerts_interface import Alerts, ChannelTest
from longpole_server.service.asking import find_reader, who_asks

_PAGE = 1_000


class RecordAct(Protocol):
    """Writes down who did what."""

    def __call__(
        self, who: str, action: str, target: str = "", outcome: str = "done", address: str = ""
    ) -> None:
        """Append it."""
        ...


class GuardedAlerts:
    """Alerts behind a look at who asks.

    Args:
        alerts: All of them.
        sees_run: Tells whether the asker may see a run.
        record: Writes down what was changed.
    """

    def __init__(self, alerts: Alerts, sees_run: Callable[[str], bool], record: RecordAct) -> None:
        self._alerts = alerts
        self._sees_run = sees_run
        self._record = record

    def list_alerts(
        self, state: AlertPhase | None = None, run_id: str | None = None
    ) -> Sequence[Alert]:
        """Return alerts of seen projects, and those of no project."""
        principal = find_reader()
        found = self._alerts.list_alerts(state, run_id)
        return [each for each in found if _sees(principal, each.project)]

    def list_events(
        self, run_id: str | None = None, limit: int = 100, offset: int = 0
    ) -> Sequence[AlertEvent]:
        """Return transitions of these."""
        principal = find_reader()
        if principal.projects is None:
            return self._alerts.list_events(run_id, limit, offset)
        seen: list[AlertEvent] = []
        for begin in itertools.count(0, _PAGE):
            page = self._alerts.list_events(run_id, _PAGE, begin)
            seen += [each for each in page if _sees(principal, each.project)]
            if len(page) < _PAGE or len(seen) >= offset + limit:
                return seen[offset : offset + limit]
        return seen

    def list_rules(self) -> Sequence[RuleStatus]:
        """Return all rules with what they saw of seen runs."""
        principal = find_reader()
        rules = self._alerts.list_rules()
        if principal.projects is None:
            return rules
        return [self._narrow(rule) for rule in rules]

    def save_rule(self, document: Mapping[str, object], rule_id: str | None = None) -> UserRule:
        """Make or replace a user's rule: it judges every project's runs."""
        self._check_all("rule.save", rule_id or "new")
        rule = self._alerts.save_rule(_sign(document), rule_id)
        self._write(
            "rule.save", f"{rule.rule_id}: {rule.metric} {rule.comparison} {rule.threshold:g}"
        )
        return rule

    def delete_rule(self, rule_id: str) -> None:
        """Delete a user's rule."""
        self._check_all("rule.delete", rule_id)
        self._alerts.delete_rule(rule_id)
        self._write("rule.delete", rule_id)

    def list_silences(self) -> Sequence[Silence]:
        """Return silences of seen runs, and those of no run."""
        find_reader()
        found = self._alerts.list_silences()
        return [each for each in found if each.run_id is None or self._sees_run(each.run_id)]

    def add_silence(self, document: Mapping[str, object]) -> Silence:
        """Make a silence; who sees single projects can silence their runs only."""
        principal = self._check_change("silence.add", "")
        run_id = document.get("run_id")
        if principal.projects is not None and not (
            isinstance(run_id, str) and self._sees_run(run_id)
        ):
            self._refuse("silence.add", str(run_id), "name one of your projects' runs")
        silence = self._alerts.add_silence(_sign(document))
        matches = ", ".join(
            f"{name} {value}"
            for name, value in (
                ("rule", silence.rule), ("run", silence.run_id), ("entity", silence.entity)
            )
            if value is not None
        )  # fmt: skip
        self._write("silence.add", f"{silence.silence_id}: {matches or 'everything'}")
        return silence

    def lift_silence(self, silence_id: str) -> Silence:
        """End a silence."""
        principal = self._check_change("silence.lift", silence_id)
        if principal.projects is not None:
            own = {each.silence_id for each in self.list_silences() if each.run_id is not None}
            if silence_id not in own:
                raise NotFoundError(f"no silence {silence_id!r} is in force")
        silence = self._alerts.lift_silence(silence_id)
        self._write("silence.lift", silence_id)
        return silence

    def explain_blindness(self) -> str | None:
        """Return why nothing new can fire at the moment."""
        find_reader()
        return self._alerts.explain_blindness()

    def list_channels(self) -> Sequence[ChannelStatus]:
        """Return the channels."""
        find_reader()
        return self._alerts.list_channels()

    def test_channels(self) -> Sequence[ChannelTest]:
        """Send a sample to every channel."""
        self._check_all("channels.test", "")
        answers = self._alerts.test_channels()
        self._write("channels.test", ", ".join(each.channel for each in answers))
        return answers

    def acknowledge(self, alert_id: str, author: str, comment: str) -> Alert:
        """Say that somebody looks after an alert: the asker, where they have a name."""
        principal = self._check_change("alert.acknowledge", alert_id)
        if principal.projects is not None and alert_id not in {
            each.alert_id for each in self.list_alerts()
        }:
            raise NotFoundError(f"no alert {alert_id!r}", hint="GET /api/v1/alerts lists them")
        alert = self._alerts.acknowledge(alert_id, _name_person(principal) or author, comment)
        self._write("alert.acknowledge", f"{alert_id}: {alert.rule}")
        return alert

    def replay(self, run_id: str, extra: Mapping[str, object] | None = None) -> Sequence[Alert]:
        """Run all rules over a stored run."""
        find_reader()
        if not self._sees_run(run_id):
            raise NotFoundError(f"no run {run_id!r}", hint="GET /api/v1/runs lists all runs")
        return self._alerts.replay(run_id, extra)

    def _narrow(self, rule: RuleStatus) -> RuleStatus:
        inputs = tuple(
            each for each in rule.inputs if each.run_id is None or self._sees_run(each.run_id)
        )
        return replace(rule, inputs=inputs, num_inputs=len(inputs))

    def _check_change(self, action: str, target: str) -> Principal:
        principal = who_asks().principal
        if not principal.may_change:
            self._refuse(action, target, "only an admin may change this")
        return principal

    def _check_all(self, action: str, target: str) -> None:
        if self._check_change(action, target).projects is not None:
            self._refuse(action, target, "this concerns every project, and you see some only")

    def _refuse(self, action: str, target: str, why: str) -> None:
        asker = who_asks()
        self._record(asker.principal.name, action, target, f"refused: {why}", asker.address)
        raise ForbiddenError(why)

    def _write(self, action: str, target: str) -> None:
        asker = who_asks()
        self._record(asker.principal.name, action, target, address=asker.address)


def _sees(principal: Principal, project: str | None) -> bool:
    return not project or principal.sees(project)


def _name_person(principal: Principal) -> str | None:
    return principal.name if principal.subject.startswith(("user/", "proxy/")) else None


def _sign(document: Mapping[str, object]) -> Mapping[str, object]:
    """Put the asker's name where a document has an author: nobody signs for somebody else."""
    name = _name_person(who_asks().principal)
    return document if name is None else {**document, "author": name}
