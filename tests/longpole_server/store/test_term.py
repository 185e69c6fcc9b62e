from collections.abc import Callable, Generator

import pytest

from longpole_server.errors import StoreError
from longpole_server.store.client import WRITE_SETTINGS, Client
from longpole_server.store.stored_batches import StoredBatches
from longpole_server.store.term import WriterTerm
from support.agent_waiting import wait_until
from support.store_opening import OpenedStore, opened_store

# By the database's clock, which no test sets: one that ends soon, and one that no test sees end.
SHORT_S, LONG_S = 0.2, 600.0
MakeTerm = Callable[[str, float], tuple[WriterTerm, list[str]]]


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Generator[OpenedStore]:
    with opened_store(tmp_path_factory.mktemp("term")) as store:
        yield store


class Clock:
    seconds = 0.0


@pytest.fixture
def clock(opened: OpenedStore) -> Clock:
    client = opened.store.new_limited_client(WRITE_SETTINGS)
    client.command("TRUNCATE TABLE writer_terms")
    client.close()
    return Clock()


@pytest.fixture
def make(opened: OpenedStore, clock: Clock) -> Generator[MakeTerm]:
    made: list[WriterTerm] = []

    def make(holder: str, term_s: float) -> tuple[WriterTerm, list[str]]:
        lost: list[str] = []
        client = opened.store.new_limited_client(WRITE_SETTINGS)
        term = WriterTerm(
            client, holder, lambda: lost.append(holder), term_s, lambda: clock.seconds
        )
        made.append(term)
        return term, lost

    yield make
    clock.seconds += 1e6
    for term in made:
        term.close()


def test_one_server_has_the_right_until_it_gives_it_back(make: MakeTerm):
    first, second = make("first", LONG_S)[0], make("second", LONG_S)[0]
    with pytest.raises(StoreError, match="Another server"):
        first.check()
    assert first.try_take()
    first.check()
    assert not second.try_take()
    assert not second.is_held
    first.close()
    assert not first.is_held
    assert second.try_take()


def test_a_server_that_falls_silent_is_followed_and_ends_when_it_comes_back(
    make: MakeTerm, clock: Clock
):
    first, lost = make("first", SHORT_S)
    assert first.try_take()
    clock.seconds += SHORT_S
    assert not first.is_held
    wait_until(make("second", SHORT_S)[0].try_take)
    # The newest term is not over for one who counts long ones.
    first._term_s = LONG_S
    first.renew()
    assert first.is_lost
    assert not first.is_held
    assert lost == ["first"]


def test_renewing_keeps_it(make: MakeTerm, clock: Clock):
    first, lost = make("first", LONG_S)
    second = make("second", LONG_S)[0]
    assert first.try_take()
    for _ in range(10):
        clock.seconds += LONG_S / 4
        first.renew()
        assert first.is_held
        assert not second.try_take()
    assert not lost


def test_a_lonely_server_goes_on_after_an_outage(make: MakeTerm, clock: Clock):
    first, lost = make("first", SHORT_S)
    assert first.try_take()
    clock.seconds += 100 * SHORT_S
    assert not first.is_held

    def renewed() -> bool:
        first.renew()
        return first.is_held

    wait_until(renewed)
    assert not lost


def test_of_many_that_ask_at_once_one_gets_it(opened: OpenedStore, make: MakeTerm):
    terms = [make(f"server-{number}", LONG_S)[0] for number in range(5)]
    # All of them saw that nobody has it.
    for term in terms:
        term._find_newest = lambda: None  # type: ignore[method-assign]
    assert [term.try_take() for term in terms] == [True, False, False, False, False]


def make_batches(opened: OpenedStore) -> tuple[StoredBatches, Client]:
    client = opened.store.new_limited_client(WRITE_SETTINGS)
    return StoredBatches(client), client


def test_a_batch_belongs_to_the_insert_that_claimed_it_first(opened: OpenedStore):
    batches, client = make_batches(opened)
    ids = [f"agent/boot/{number}" for number in range(450)]
    assert batches.claim(ids[:300], "journal/a/1-300") == set()
    assert batches.claim(ids[:300], "journal/a/1-300") == set()
    assert batches.claim(ids[250:], "journal/b/1-200") == set(ids[250:300])
    assert batches.claim(ids[:300], "journal/a/1-300") == set()
    assert batches.claim([ids[400], "it's"], "journal/c/1-2") == {ids[400]}
    assert opened.count("stored_batches", final=False) == 451
    client.close()
