import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from longpole.buffers import Buffer
from longpole.complaints import Complaints
from longpole.delivery import Outcome
from longpole.otlp import Encoded
from longpole.sender import Channel, Sender

DEADLINE_S = 60.0


class FakeDelivery:
    """Keeps bodies; `gate` holds it like a slow receiver, until `close_by`."""

    def __init__(self) -> None:
        self.bodies: list[tuple[str, bytes]] = []
        self.outcome = Outcome.DELIVERED
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()
        self.is_closed = False

    def deliver(self, path: str, body: bytes) -> Outcome:
        self.entered.set()
        assert self.gate.wait(DEADLINE_S)
        if self.outcome is Outcome.DELIVERED:
            self.bodies.append((path, body))
        return self.outcome

    def close_by(self, timeout_s: float) -> None:
        if not self.gate.is_set():
            self.outcome = Outcome.ABANDONED
            self.gate.set()

    def close(self) -> None:
        self.is_closed = True


class Bench:
    """A sender over two channels of small integers; negative ones cannot be encoded."""

    def __init__(self) -> None:
        self.delivery = FakeDelivery()
        self.complaints = Complaints()
        self.num_repeats = 0
        self.repeated = threading.Event()
        self.first = Channel("first", "/1", Buffer(10), self.encode, batch_size=2)
        self.second = Channel("second", "/2", Buffer(10), self.encode, batch_size=2)
        self.sender = Sender(
            (self.first, self.second), self.delivery, self.repeat, self.complaints, delay_s=0.01
        )

    def encode(self, records: Sequence[Any]) -> Encoded:
        if "poison" in records:
            raise RuntimeError("poison")
        good = bytes(record for record in records if record >= 0)
        return Encoded(good, len(good), len(records) - len(good))

    def repeat(self) -> None:
        self.num_repeats += 1
        self.repeated.set()


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.sender.close(DEADLINE_S)


def test_sends_batches_of_each_kind_in_turn(bench: Bench) -> None:
    for record in range(5):
        bench.first.buffer.append(record)
    bench.second.buffer.append(9)
    bench.sender.start()
    assert bench.sender.flush(DEADLINE_S)
    assert bench.delivery.bodies == [
        ("/1", b"\0\1"),
        ("/2", b"\x09"),
        ("/1", b"\2\3"),
        ("/1", b"\4"),
    ]
    assert (bench.first.num_sent, bench.second.num_sent) == (5, 1)


def test_skips_what_cannot_be_encoded(bench: Bench) -> None:
    bench.first.buffer.append(-1)
    bench.first.buffer.append(-1)
    bench.first.buffer.append(7)
    bench.sender.start()
    assert bench.sender.flush(DEADLINE_S)
    assert (bench.first.num_sent, bench.first.num_skipped) == (1, 2)
    bench.first.buffer.skip(4)
    assert bench.first.num_skipped == 6
    assert bench.delivery.bodies == [("/1", b"\7")]


def test_outlives_a_batch_that_breaks_the_encoder(bench: Bench) -> None:
    bench.first.buffer.append("poison")
    bench.sender.start()
    assert not bench.sender.flush(DEADLINE_S)
    bench.first.buffer.append(1)
    assert bench.sender.flush(DEADLINE_S)
    assert (bench.first.num_sent, bench.first.num_dropped) == (1, 1)
    assert bench.complaints.count() == {"internal": 1}


def test_refused_batches_are_counted_and_fail_the_flush(bench: Bench) -> None:
    bench.delivery.outcome = Outcome.REFUSED
    bench.first.buffer.append(1)
    bench.sender.start()
    assert not bench.sender.flush(DEADLINE_S)
    assert (bench.first.num_sent, bench.first.num_dropped) == (0, 1)


def test_flush_gives_up_on_a_slow_receiver(bench: Bench) -> None:
    bench.delivery.gate.clear()
    bench.first.buffer.append(1)
    bench.sender.start()
    assert bench.delivery.entered.wait(DEADLINE_S)
    assert not bench.sender.flush(0.02)
    bench.delivery.gate.set()
    assert bench.sender.flush(DEADLINE_S)


def test_overflow_behind_a_slow_receiver_is_counted(bench: Bench) -> None:
    bench.delivery.gate.clear()
    bench.first.buffer.append(0)
    bench.sender.start()
    assert bench.delivery.entered.wait(DEADLINE_S)
    for record in range(1, 26):
        bench.first.buffer.append(record)
    bench.delivery.gate.set()
    assert bench.sender.flush(DEADLINE_S)
    assert b"".join(body for _, body in bench.delivery.bodies) == bytes([0, *range(16, 26)])
    assert bench.first.num_dropped == 15


def test_close_sends_what_is_left(bench: Bench) -> None:
    bench.sender.start()
    bench.first.buffer.append(1)
    assert bench.sender.close(DEADLINE_S)
    assert bench.delivery.bodies == [("/1", b"\1")]
    assert bench.delivery.is_closed


def test_close_counts_what_it_leaves_behind(bench: Bench) -> None:
    bench.delivery.gate.clear()
    for record in range(5):
        bench.first.buffer.append(record)
    bench.second.buffer.append(9)
    bench.sender.start()
    assert bench.delivery.entered.wait(DEADLINE_S)
    assert not bench.sender.close(DEADLINE_S)
    assert bench.first.num_dropped + bench.second.num_dropped == 6
    assert bench.first.num_sent + bench.second.num_sent == 0


def test_open_windows_are_looked_at_again_and_again(bench: Bench) -> None:
    bench.sender.start()
    for _ in range(3):
        bench.repeated.clear()
        assert bench.repeated.wait(DEADLINE_S)
    assert bench.num_repeats >= 3
