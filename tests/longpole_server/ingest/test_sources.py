from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole_server.errors import BusyError
from longpole_server.ingest.sources import SourceShares, name_source


@dataclass
class Clock:
    now_s: float = 0.0

    def read(self) -> float:
        return self.now_s


def test_a_sender_is_the_agent_that_its_batch_ids_name() -> None:
    assert name_source("node-1/boot/7", "10.0.0.1") == "node-1"
    assert name_source("plain", "10.0.0.1") == "10.0.0.1"
    assert name_source(None, "10.0.0.1") == "10.0.0.1"
    assert name_source(None, None) == ""


def test_alone_a_sender_leaves_room_for_a_newcomer() -> None:
    shares = SourceShares(100)
    shares.take("noisy", 40)
    with pytest.raises(BusyError):
        shares.take("noisy", 11)
    shares.take("quiet", 20)
    shares.take("quiet", 10)
    assert shares.num_refused == 1


def test_beside_others_a_sender_holds_no_long_queue() -> None:
    shares = SourceShares(1000, max_beside_bytes=50)
    shares.take("quiet", 1)
    shares.take("noisy", 50)
    with pytest.raises(BusyError) as refusal:
        shares.take("noisy", 1)
    assert refusal.value.retry_after_s > 0
    shares.take("quiet", 49)


def test_one_request_of_any_size_is_taken() -> None:
    shares = SourceShares(100)
    shares.take("large", 1000)
    shares.give_back("large", 1000)
    shares.take("large", 1000)


def test_what_is_stored_is_given_back() -> None:
    shares = SourceShares(100)
    shares.take("a", 50)
    shares.keep(1, "a", 20)
    shares.keep(2, "a", 30)
    with pytest.raises(BusyError):
        shares.take("a", 20)
    shares.give_back_through(1)
    shares.take("a", 20)


def test_a_quiet_sender_claims_no_share_for_long() -> None:
    clock = Clock()
    shares = SourceShares(120, max_beside_bytes=20, clock_s=clock.read)
    shares.take("a", 10)
    shares.take("b", 10)
    shares.give_back("b", 10)
    with pytest.raises(BusyError):
        shares.take("a", 40)
    clock.now_s = 60.0
    shares.take("a", 40)
    assert shares.num_sources == 1


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 40)), max_size=60))
def test_a_newcomer_always_finds_room(requests: list[tuple[str, int]]) -> None:
    held = 0
    shares = SourceShares(200)
    for source, num_bytes in requests:
        try:
            shares.take(source, num_bytes)
        except BusyError:
            continue
        held += num_bytes
    # The first request of a sender is taken whatever its size; all others leave room.
    assert held < 200 + 3 * 40
    shares.take("newcomer", 1)


def test_senders_that_are_alike_end_with_equal_shares() -> None:
    shares = SourceShares(1200)
    held = dict.fromkeys("abc", 0)
    for _ in range(1200):
        for source in held:
            try:
                shares.take(source, 1)
                held[source] += 1
            except BusyError:
                pass
    assert max(held.values()) - min(held.values()) <= 2
    assert sum(held.values()) <= 900
