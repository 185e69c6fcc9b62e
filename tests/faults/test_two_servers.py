"""Two servers, one after the other, on one database: a batch that both took is stored once."""

import time
from collections.abc import Generator
from pathlib import Path

import pytest

from longpole_server.errors import StoreError
from longpole_server.store.client import WRITE_SETTINGS
from longpole_server.store.retention import apply_retention
from longpole_server.store.session_ends import SessionEnds
from longpole_server.store.stored_batches import StoredBatches
from support.agent_waiting import wait_until
from support.otlp_pipeline import RecordingWriter, running_pipeline
from support.store_opening import opened_store

DAY_S = 86_400


@pytest.fixture
def batches(tmp_path: Path) -> Generator[StoredBatches]:
    with opened_store(tmp_path / "store") as opened:
        batches = StoredBatches(opened.store.new_limited_client(WRITE_SETTINGS))
        yield batches
        batches.close()


def refuse(ids: object, token: str) -> set[str]:
    raise StoreError("away")


def test_what_a_server_left_in_its_journal_is_not_stored_again(
    tmp_path: Path, batches: StoredBatches
):
    first, second, returned = RecordingWriter(), RecordingWriter(), RecordingWriter()
    with running_pipeline(tmp_path / "a", first, claim=refuse, max_batch_bytes=1) as pipeline:
        # Durable there, and claimed by nobody: the server ends before it writes.
        for number in range(6):
            pipeline.accept("traces", b"%d" % number, f"agent/boot/{number}")
        pipeline.accept("traces", b"without an id")
    # The agent was not told of some of them, and sends these to the other server.
    with running_pipeline(tmp_path / "b", second, claim=batches.claim) as pipeline:
        for number in (2, 3, 9):
            pipeline.accept("traces", b"%d" % number, f"agent/boot/{number}")
        assert pipeline.drain(60.0)
    with running_pipeline(tmp_path / "a", returned, claim=batches.claim) as pipeline:
        assert pipeline.drain(60.0)
        assert pipeline.stats.num_known_elsewhere == 2
    assert first.bodies == []
    assert second.bodies == ["2", "3", "9"]
    assert returned.bodies == ["0", "1", "4", "5", "without an id"]


def test_what_a_server_was_writing_when_it_ended_is_completed_by_itself(
    tmp_path: Path, batches: StoredBatches
):
    first, second, returned = RecordingWriter(), RecordingWriter(), RecordingWriter()
    first.fail()
    with running_pipeline(tmp_path / "a", first, claim=batches.claim) as pipeline:
        pipeline.accept("traces", b"half written", "agent/boot/1")
        wait_until(lambda: bool(first.tries))
    with running_pipeline(tmp_path / "b", second, claim=batches.claim) as pipeline:
        pipeline.accept("traces", b"half written", "agent/boot/1")
        assert pipeline.drain(60.0)
        assert pipeline.stats.num_known_elsewhere == 1
    with running_pipeline(tmp_path / "a", returned, claim=batches.claim) as pipeline:
        assert pipeline.drain(60.0)
    assert (second.bodies, returned.bodies) == ([], ["half written"])
    assert returned.tries == first.tries[:1]


def test_a_database_that_is_away_delays_claims_and_loses_nothing(tmp_path: Path):
    tries: list[str] = []

    def claim(ids: object, token: str) -> set[str]:
        tries.append(token)
        if len(tries) < 3:
            raise StoreError("away")
        return set()

    writer = RecordingWriter()
    with running_pipeline(tmp_path, writer, claim=claim) as pipeline:
        pipeline.accept("traces", b"1", "a/b/1")
        assert pipeline.drain(60.0)
        assert pipeline.stats.num_write_failures == 2
    assert writer.bodies == ["1"]
    assert len(set(tries)) == 1


def test_the_server_that_takes_over_knows_whose_session_ended(tmp_path: Path):
    with opened_store(tmp_path / "store") as opened:
        batches = StoredBatches(opened.store.new_limited_client(WRITE_SETTINGS))
        # A sender that calls its batch so ends nobody's session.
        assert batches.claim(["session-ended/forged", "agent/boot/1"], "range/1") == set()
        batches.close()
        ends = [SessionEnds(opened.store.new_limited_client(WRITE_SETTINGS)) for _ in range(2)]
        assert ends[1].list_ids(60) == []
        ends[0].add("0123456789abcdef", 60)
        ends[0].add("0123456789abcdef", 60)
        assert ends[1].list_ids(60) == ["0123456789abcdef"]
        for each in ends:
            each.close()


def test_a_session_that_lasts_longer_than_batches_are_kept_stays_ended_at_the_other_server(
    tmp_path: Path,
):
    keep_s, max_age_s, ended_s_ago = 30 * DAY_S, 60 * DAY_S, 40 * DAY_S
    with opened_store(tmp_path / "store") as opened:
        apply_retention(opened.store, {"stored_batches": keep_s})
        client = opened.store.new_limited_client(WRITE_SETTINGS)
        ends = SessionEnds(client, keep_s, lambda: time.time_ns() - ended_s_ago * 10**9)
        ends.add("0123456789abcdef", max_age_s)
        ends.add("fedcba9876543210", 14 * DAY_S)
        client.command("OPTIMIZE TABLE longpole.stored_batches FINAL")
        assert ends.list_ids(max_age_s) == ["0123456789abcdef"]
        ends.close()
