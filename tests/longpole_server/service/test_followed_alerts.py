from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from longpole_server.auth.vouchers import Vouchers
from longpole_server.errors import WriterAwayError
from longpole_server.model.alert import AlertEvent, Silence, UserRule
from longpole_server.read.alerts import AlertReader
from longpole_server.service.followed_alerts import FollowedAlerts
from longpole_server.service.followed_book import FollowedBook
from longpole_server.service.writer_link import WriterLink
from support.alert_events import make_event
from support.alert_histories import at
from support.reserved_port import reserved_port


@dataclass
class Stored:
    """What another server wrote."""

    events: list[AlertEvent] = field(default_factory=list[AlertEvent])
    silences: list[Silence] = field(default_factory=list[Silence])
    num_whole: int = 0

    def list_events_since(self, since_ns: int) -> list[AlertEvent]:
        self.num_whole += 1
        return self.list_decided_since(since_ns)

    def list_decided_since(self, since_ns: int) -> list[AlertEvent]:
        found = [event for event in self.events if event.decided_ns >= since_ns]
        return sorted(found, key=lambda event: event.decided_ns)

    def list_silences(self) -> list[Silence]:
        return self.silences

    def list_user_rules(self) -> list[UserRule]:
        return []


@dataclass
class Bench:
    stored: Stored = field(default_factory=Stored)
    now_s: float = 60.0

    def make(self) -> FollowedBook:
        reader = cast("AlertReader", self.stored)
        return FollowedBook(reader, lambda: at(self.now_s), lambda: self.now_s)


def test_what_another_server_decides_is_shown_here():
    bench = Bench(Stored([make_event(1)]))
    book = bench.make()
    assert book.refresh()
    assert not book.refresh(), "nothing is new"
    bench.stored.events.append(make_event(2, entity_id="other"))
    bench.stored.events.append(make_event(3, alert_id="alert-1", kind="resolved"))
    assert book.refresh()
    states = {alert.alert_id: alert.state for alert in book.list_alerts()}
    assert states == {"alert-1": "resolved", "alert-2": "firing"}
    assert book.count_firing("team/run") == 1
    assert bench.stored.num_whole == 1


def test_a_silence_is_news_and_everything_is_read_anew_now_and_then():
    bench = Bench(Stored([make_event(1)]))
    book = bench.make()
    book.refresh()
    bench.stored.silences = [Silence("s", "gpu", None, None, "ana", "", at(0), at(99))]
    assert book.refresh()
    assert [silence.silence_id for silence in book.silences] == ["s"]
    bench.now_s += 700
    assert not book.refresh()
    assert bench.stored.num_whole == 2
    assert [alert.alert_id for alert in book.list_alerts()] == ["alert-1"]


@pytest.fixture
def alerts() -> Generator[FollowedAlerts]:
    """Alerts of a server that nobody reaches."""
    nobody: Any = None
    with reserved_port() as port:
        link = WriterLink(f"http://127.0.0.1:{port}", Vouchers("k" * 40))
        yield FollowedAlerts(
            Bench().make(), nobody, nobody, link, lambda: "away", on_act=lambda: None
        )
        link.close()


def test_without_the_server_that_judges_rules_are_shown_and_say_what_is_not_known(
    alerts: FollowedAlerts,
):
    rules = alerts.list_rules()
    assert len(rules) > 30
    assert {rule.quiet_because for rule in rules} == {
        "not known: the server that judges rules does not answer"
    }
    assert alerts.explain_blindness() == "away"


def test_without_the_server_that_judges_nothing_changes_and_the_error_says_so(
    alerts: FollowedAlerts,
):
    for act in (
        lambda: alerts.add_silence({"rule": "gpu"}),
        lambda: alerts.acknowledge("alert-1", "ana", ""),
        lambda: alerts.delete_rule("user.x"),
        alerts.test_channels,
        alerts.list_channels,
    ):
        with pytest.raises(WriterAwayError, match="does not answer"):
            act()
