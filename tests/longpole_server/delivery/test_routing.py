from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole_server.delivery.outbox import Outbox
from longpole_server.delivery.routing import QuietHours, Routing, read_routing
from longpole_server.errors import ConfigError
from support.alert_events import make_event
from support.alert_histories import S, at

BERLIN = ZoneInfo("Europe/Berlin")


def moment(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=BERLIN).timestamp()) * S


def test_channels_hear_of_what_is_grave_enough_and_theirs():
    routing = read_routing("warning", "pager=critical:team/* mail=info", None)
    channels = ("slack", "pager", "mail")

    def chosen(**fields: Any) -> tuple[str, ...]:
        return routing.choose_channels(channels, [make_event(**fields)])

    assert chosen(severity="critical", run_id="team/run") == channels
    others = {"severity": "critical", "run_id": "other/run"}
    assert chosen(**others, project="other") == ("slack", "mail")
    assert chosen(**others, project="team") == channels, "its project is the pager's"
    assert chosen(severity="warning") == ("slack", "mail")
    assert chosen(severity="info") == ("mail",)
    assert chosen(severity="critical", run_id="") == channels


def test_several_routes_of_a_channel_add_up():
    routing = read_routing("warning", "slack=critical slack=info:team/*", None)
    assert routing.choose_channels(["slack"], [make_event(severity="info")]) == ("slack",)
    other = make_event(severity="warning", run_id="other", project="")
    assert routing.choose_channels(["slack"], [other]) == ()


@pytest.mark.parametrize(
    ("now", "until"),
    [
        ("2026-03-01T21:59:59", None),
        ("2026-03-01T22:00:00", "2026-03-02T07:00:00"),
        ("2026-03-02T03:00:00", "2026-03-02T07:00:00"),
        ("2026-03-02T07:00:00", None),
        # The night in which an hour is left out.
        ("2026-03-28T23:00:00", "2026-03-29T07:00:00"),
    ],
)
def test_quiet_hours_reach_over_midnight(now: str, until: str | None):
    quiet = read_routing("warning", None, "22:00-07:00 Europe/Berlin").quiet
    assert quiet is not None
    assert quiet.hold_until_ns(moment(now)) == (moment(until) if until else None)


@given(st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1)), st.times(), st.times())
def test_what_is_held_is_let_go_within_a_day(now: datetime, start: object, end: object):
    quiet = QuietHours(start, end, BERLIN)  # type: ignore[arg-type]
    now_ns = round(now.replace(tzinfo=BERLIN).timestamp()) * S
    until_ns = quiet.hold_until_ns(now_ns)
    if until_ns is not None:
        longest = timedelta(days=1, hours=1)
        assert now_ns - S <= until_ns <= now_ns + longest.total_seconds() * S


def test_in_quiet_hours_the_rest_becomes_one_message():
    # The tests' time begins at 22:13 UTC.
    routing = read_routing("info", None, "22:00-07:00")
    outbox = Outbox(["slack"], routing=routing)
    for number in range(1, 4):
        outbox.add_event(make_event(number, severity="warning"))
    outbox.add_event(make_event(9, severity="critical", run_id="other"))
    (urgent,) = outbox.compose(at(100))
    assert urgent.event_ids == ("event-9",)
    outbox.close_group(urgent)
    assert outbox.compose(at(3_600)) == []
    (digest,) = outbox.compose(moment("2023-11-15T08:00:00"))
    assert digest.event_ids == ("event-1", "event-2", "event-3")


def test_something_critical_takes_the_rest_along():
    outbox = Outbox(["slack"], routing=read_routing("info", None, "22:00-07:00"))
    outbox.add_event(make_event(1, severity="warning"))
    outbox.add_event(make_event(2, severity="critical"))
    assert [message.event_ids for message in outbox.compose(at(100))] == [("event-1", "event-2")]


@pytest.mark.parametrize(
    ("severity", "routes", "quiet", "word"),
    [
        ("loud", None, None, "LONGPOLE_ALERT_SEVERITY"),
        ("info", "slack", None, "LONGPOLE_ALERT_ROUTES"),
        ("info", "slack=loud", None, "LONGPOLE_ALERT_ROUTES"),
        ("info", None, "22-7", "LONGPOLE_ALERT_QUIET_HOURS"),
        ("info", None, "25:00-07:00", "LONGPOLE_ALERT_QUIET_HOURS"),
        ("info", None, "22:00-07:00 Mars/Base", "LONGPOLE_ALERT_QUIET_HOURS"),
        ("info", None, "07:00-07:00", "LONGPOLE_ALERT_QUIET_HOURS"),
    ],
)
def test_what_makes_no_sense_is_named(
    severity: str, routes: str | None, quiet: str | None, word: str
):
    with pytest.raises(ConfigError, match=word):
        read_routing(severity, routes, quiet)


def test_a_route_leads_to_a_channel():
    with pytest.raises(ConfigError, match="no channel 'pager'"):
        read_routing("info", "pager=info", None).check(["slack"])
    Routing().check([])
