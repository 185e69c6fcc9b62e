import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from longpole.spool import Spool
from longpole_agent.batch import Batch
from longpole_agent.counters import Counters
from longpole_agent.forward import Forwarder, Outcome, judge
from longpole_agent.upstream import Answer
from support.agent_waiting import wait_until


class FakeUpstream:
    """Answers in the order given, then with 200."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.posted: list[tuple[str, bytes]] = []
        self.closed = False
        self.hold = threading.Event()
        self.hold.set()

    def post(self, batch: Batch, batch_id: str) -> Answer:
        self.hold.wait(60)
        self.posted.append((batch_id, batch.body))
        return self.answers.pop(0) if self.answers else Answer(200)

    def close(self) -> None:
        self.closed = True
        self.hold.set()


class Setup:
    def __init__(self, directory: Path) -> None:
        self.spool = Spool(directory)
        self.counters = Counters()
        self.upstream = FakeUpstream()
        self.failed = threading.Event()

    def start(self, *answers: Answer) -> Forwarder:
        self.upstream = FakeUpstream(*answers)
        forwarder = Forwarder(
            self.spool,
            self.upstream,
            self.counters,
            first_delay_s=0.001,
            max_delay_s=0.002,
            jitter=lambda: 0.5,
        )
        forwarder.start(self.failed.set)
        return forwarder

    def add(self, *bodies: bytes, boot: str = "boot") -> None:
        for body in bodies:
            self.spool.append(Batch("traces", body, "t", "", f"agent/{boot}").encode())
        self.spool.sync()


@pytest.fixture
def setup(tmp_path: Path) -> Iterator[Setup]:
    made = Setup(tmp_path / "spool")
    yield made
    made.spool.close()


def test_delivers_in_order_and_acknowledges(setup: Setup) -> None:
    setup.add(b"one", b"two")
    forwarder = setup.start()
    setup.add(b"three")
    forwarder.wake()
    wait_until(lambda: setup.spool.acknowledged == 3)
    assert setup.upstream.posted == [
        ("agent/boot/1", b"one"),
        ("agent/boot/2", b"two"),
        ("agent/boot/3", b"three"),
    ]
    assert setup.counters.forwarded == 3
    forwarder.close(60)


def test_retries_until_the_server_takes_it(setup: Setup) -> None:
    setup.add(b"one", b"two")
    trouble = [Answer(None, "Connection refused"), Answer(503), Answer(429), Answer(401, "token")]
    forwarder = setup.start(*trouble)
    wait_until(lambda: setup.counters.forwarded == 2)
    assert [batch_id for batch_id, _ in setup.upstream.posted] == [
        *["agent/boot/1"] * 5,
        "agent/boot/2",
    ]
    assert forwarder.trouble == ""
    assert setup.counters.rejected == 0
    forwarder.close(60)


def test_a_wrong_token_is_said_once_and_loses_nothing(
    setup: Setup, caplog: pytest.LogCaptureFixture
) -> None:
    setup.add(b"one")
    forwarder = setup.start(*[Answer(401, "who are you?")] * 5)
    wait_until(lambda: setup.counters.forwarded == 1)
    line = "401 who are you? (set LONGPOLE_TOKEN or --token-file)"
    assert caplog.text.count(line) == 1
    forwarder.close(60)


def test_what_the_server_refuses_is_dropped_and_counted(
    setup: Setup, caplog: pytest.LogCaptureFixture
) -> None:
    setup.add(b"bad", b"good")
    forwarder = setup.start(Answer(400, "not OTLP"))
    wait_until(lambda: setup.counters.forwarded == 1)
    assert setup.counters.rejected == 1
    assert "the server refused batch 1, dropped: 400 not OTLP" in caplog.text
    forwarder.close(60)
    assert setup.spool.acknowledged == 2


def test_a_server_error_is_retried_but_not_for_ever(setup: Setup) -> None:
    setup.add(b"poison", b"good")
    forwarder = setup.start(*[Answer(500)] * 5)
    wait_until(lambda: setup.counters.forwarded == 1)
    assert setup.counters.rejected == 1
    assert len(setup.upstream.posted) == 6
    forwarder.close(60)


def test_waits_as_long_as_the_server_asks(setup: Setup) -> None:
    setup.add(b"one")
    forwarder = setup.start(Answer(429, "busy", retry_after_s=3600.0))
    wait_until(lambda: forwarder.trouble != "")
    setup.add(b"two")
    forwarder.wake()
    forwarder.close(60)  # ends the wait, since nothing can be delivered
    assert len(setup.upstream.posted) == 1
    assert setup.spool.acknowledged == 0


def test_a_cluster_does_not_come_back_at_once(setup: Setup) -> None:
    waits: list[float] = []
    for drawn in (0.0, 0.5, 1.0):
        forwarder = Forwarder(
            setup.spool, setup.upstream, setup.counters, jitter=lambda drawn=drawn: drawn
        )
        waits += [
            forwarder._delay_s(Answer(429, "busy", retry_after_s=asked_s), 1)
            for asked_s in (0.0, 2.0, 60.0)
        ]
    # Never earlier than asked, and spread over half of it, over a second at least.
    assert waits == [0.0, 2.0, 60.0, 0.5, 2.5, 75.0, 1.0, 3.0, 90.0]


def test_a_record_of_something_else_is_dropped(setup: Setup) -> None:
    setup.spool.append(b"what is this")
    setup.add(b"good")
    forwarder = setup.start()
    wait_until(lambda: setup.counters.forwarded == 1)
    assert setup.counters.rejected == 1
    assert setup.upstream.posted == [("agent/boot/2", b"good")]
    forwarder.close(60)


def test_closing_delivers_what_is_there(setup: Setup) -> None:
    forwarder = setup.start()
    setup.add(*[b"%d" % number for number in range(200)])
    forwarder.close(60)
    assert setup.counters.forwarded == 200
    assert setup.spool.acknowledged == 200
    assert setup.upstream.closed


def test_closing_does_not_wait_for_a_server_that_is_away(setup: Setup) -> None:
    setup.add(b"one")
    forwarder = setup.start(*[Answer(None, "away")] * 10_000)
    wait_until(lambda: forwarder.trouble == "away")
    forwarder.close(3600)
    assert setup.spool.num_pending == 1


def test_a_restart_sends_the_rest_under_the_same_ids(setup: Setup) -> None:
    setup.add(b"one", b"two", boot="first")
    forwarder = setup.start(Answer(200), *[Answer(None, "away")] * 10_000)
    wait_until(lambda: forwarder.trouble == "away")
    forwarder.close(60)
    setup.spool.close()
    setup.spool = Spool(setup.spool.directory)
    setup.add(b"three", boot="second")
    forwarder = setup.start()
    forwarder.close(60)
    assert setup.upstream.posted == [
        ("agent/first/2", b"two"),
        ("agent/second/3", b"three"),
    ]


def test_a_failing_disk_ends_it_and_says_so(setup: Setup) -> None:
    forwarder = setup.start()
    setup.spool.close()
    forwarder.wake()
    assert setup.failed.wait(60)
    assert "is closed" in forwarder.failure
    forwarder.close(60)


def test_a_spool_that_cannot_be_read_for_a_while_ends_nothing(
    setup: Setup, caplog: pytest.LogCaptureFixture
) -> None:
    setup.add(b"one")
    segment = next(setup.spool.directory.glob("*.segment"))
    away = segment.with_suffix(".away")
    # A link to itself stands for what the system refuses: too many open files, a bad sector.
    segment.rename(away)
    segment.symlink_to(segment)
    forwarder = setup.start()
    wait_until(lambda: "symbolic links" in forwarder.trouble)
    assert not setup.failed.is_set()
    away.replace(segment)
    wait_until(lambda: setup.counters.forwarded == 1)
    assert setup.upstream.posted == [("agent/boot/1", b"one")]
    assert "symbolic links" in caplog.text
    forwarder.close(60)


def test_nothing_is_lost_to_an_address_that_is_no_longpole_server(setup: Setup) -> None:
    setup.add(b"one")
    forwarder = setup.start(
        *[Answer(status, "?") for status in (404, 405, 501, 404, 404, 404, 404)]
    )
    wait_until(lambda: setup.counters.forwarded == 1)
    assert setup.counters.rejected == 0
    forwarder.close(60)


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (None, Outcome.RETRY),
        (200, Outcome.DELIVERED),
        (202, Outcome.DELIVERED),
        (307, Outcome.RETRY),
        (400, Outcome.REJECTED),
        (401, Outcome.RETRY),
        (403, Outcome.RETRY),
        (404, Outcome.RETRY),
        (405, Outcome.RETRY),
        (408, Outcome.RETRY),
        (413, Outcome.REJECTED),
        (415, Outcome.REJECTED),
        (429, Outcome.RETRY),
        (500, Outcome.RETRY),
        (502, Outcome.RETRY),
        (503, Outcome.RETRY),
        (504, Outcome.RETRY),
        (501, Outcome.RETRY),
        (507, Outcome.RETRY),
        (523, Outcome.RETRY),
    ],
)
def test_what_an_answer_means(status: int | None, outcome: Outcome) -> None:
    assert judge(Answer(status), attempt=1) is outcome
