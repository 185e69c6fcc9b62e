import pytest

from longpole.complaints import Complaints
from longpole.delivery import Outcome
from longpole.session import Session
from support.sdk_clock import START_NS, FakeClock
from support.sdk_receiver import DEADLINE_S, ReceivedEvent, decode_events, decode_spans


class FakeDelivery:
    """Keeps request bodies by path."""

    def __init__(self) -> None:
        self.bodies: dict[str, list[bytes]] = {}

    def deliver(self, path: str, body: bytes) -> Outcome:
        self.bodies.setdefault(path, []).append(body)
        return Outcome.DELIVERED

    def close_by(self, timeout_s: float) -> None:
        pass

    def close(self) -> None:
        pass

    @property
    def events(self) -> list[ReceivedEvent]:
        return [event for body in self.bodies.get("/v1/logs", []) for event in decode_events(body)]


@pytest.fixture
def delivery() -> FakeDelivery:
    return FakeDelivery()


def open_session(delivery: FakeDelivery, clock: FakeClock) -> Session:
    session = Session(
        {"rl.run.id": "r"}, delivery, Complaints(), clock.build(), heartbeat_s=10.0, delay_s=0.01
    )
    session.start()
    return session


def test_says_when_the_run_starts_and_how_it_ends(delivery: FakeDelivery) -> None:
    clock = FakeClock()
    session = open_session(delivery, clock)
    session.announce_run({"group_size": 8})
    clock.advance(5)
    assert session.close("crashed", DEADLINE_S)
    start, end = delivery.events
    assert (start.name, start.time_ns) == ("rl.run.start", START_NS)
    assert (end.name, end.time_ns) == ("rl.run.end", START_NS + 5_000_000_000)
    assert end.attributes["rl.status"] == "crashed"
    assert start.resource == end.resource == {"rl.run.id": "r"}


def test_process_that_is_not_the_run_says_nothing_of_its_end(delivery: FakeDelivery) -> None:
    session = open_session(delivery, FakeClock())
    assert session.close(None, DEADLINE_S)
    assert delivery.events == []


def test_hang_is_visible_while_it_lasts(delivery: FakeDelivery) -> None:
    clock = FakeClock()
    session = open_session(delivery, clock)
    with session.windows.build_step(3), session.windows.build_stage("gen", None, None, None, None):
        for _ in range(2):
            clock.advance(10)
            assert session.flush(DEADLINE_S)
        starts = [(e.attributes["rl.stage"], e.time_ns - START_NS) for e in delivery.events]
    ten_s = 10_000_000_000
    assert starts == [
        ("step", 0),
        ("gen", 0),
        ("step", ten_s),
        ("gen", ten_s),
        ("step", 2 * ten_s),
        ("gen", 2 * ten_s),
    ]
    session.close(None, DEADLINE_S)


def test_counts_what_was_sent(delivery: FakeDelivery) -> None:
    session = open_session(delivery, FakeClock())
    with session.windows.build_step(1):
        session.points.append((1, 1, "a", 1.0))
        session.points.append((1, 1, "b", None))
    assert session.flush(DEADLINE_S)
    stats = session.count()
    assert stats.sent == {"events": 1, "spans": 1, "points": 1, "trajectories": 0}
    assert stats.skipped == {"events": 0, "spans": 0, "points": 1, "trajectories": 0}
    assert [span.name for body in delivery.bodies["/v1/traces"] for span in decode_spans(body)] == [
        "rl.loop"
    ]
    session.close(None, DEADLINE_S)
