import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from longpole.spool import Spool, SpoolError
from longpole_server.errors import BadRequestError, BusyError, StoreError
from longpole_server.ingest.entry import JournalEntry
from longpole_server.ingest.journal import Journal
from longpole_server.ingest.pipeline import Pipeline
from longpole_server.ingest.signals import Signal
from longpole_server.model.records import Records
from support.otlp_pipeline import EchoNormalizer, RecordingWriter, running_pipeline

DRAIN_S = 60.0


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = threading.Event()
    for _ in range(6000):
        if condition():
            return
        deadline.wait(0.01)
    raise AssertionError("it did not happen")


def test_what_is_accepted_is_written_in_order(tmp_path: Path) -> None:
    writer = RecordingWriter()
    told: list[Records] = []

    with running_pipeline(tmp_path, writer, on_written=told.append) as pipeline:
        for index in range(50):
            pipeline.accept("traces", str(index).encode())
        assert pipeline.drain(DRAIN_S)

    assert writer.bodies == [str(index) for index in range(50)]
    assert sum(len(records) for records in told) == 50
    assert pipeline.stats.num_accepted == pipeline.stats.num_records == 50
    assert pipeline.stats.num_batches == len(writer.batches)


def test_many_threads_and_tasks_at_once(tmp_path: Path) -> None:
    writer = RecordingWriter()
    sent = {f"thread {index}" for index in range(100)} | {f"task {index}" for index in range(100)}

    async def send_all(pipeline: Pipeline) -> None:
        await asyncio.gather(
            *(pipeline.accept_async("logs", f"task {index}".encode()) for index in range(100))
        )

    with running_pipeline(tmp_path, writer) as pipeline, ThreadPoolExecutor(16) as pool:
        bodies = [f"thread {index}".encode() for index in range(100)]
        threads = [pool.submit(pipeline.accept, "metrics", body) for body in bodies]
        asyncio.run(send_all(pipeline))
        for thread in threads:
            thread.result()
        assert pipeline.drain(DRAIN_S)

    assert sorted(writer.bodies) == sorted(sent)


def test_the_time_of_receipt_survives_the_journal(tmp_path: Path) -> None:
    normalizer = EchoNormalizer()
    with running_pipeline(tmp_path, RecordingWriter(), normalizer, clock_ns=lambda: 17) as pipeline:
        pipeline.accept("traces", b"a")
        assert pipeline.drain(DRAIN_S)

    assert normalizer.received_ns == [17]


def test_a_batch_id_is_stored_once(tmp_path: Path) -> None:
    writer = RecordingWriter()

    with running_pipeline(tmp_path, writer) as pipeline:
        for body in (b"first", b"again"):
            pipeline.accept("traces", body, "agent/boot/1")
        pipeline.accept("traces", b"other", "agent/boot/2")
        assert pipeline.drain(DRAIN_S)
        assert pipeline.stats.num_duplicates == 1

    assert writer.bodies == ["first", "other"]


def test_batch_ids_are_known_after_a_restart(tmp_path: Path) -> None:
    """One from a range on record, one from the journal only."""
    writer = RecordingWriter()
    with running_pipeline(tmp_path, writer) as pipeline:
        pipeline.accept("traces", b"written", "id/1")
        assert pipeline.drain(DRAIN_S)
    spool = Spool(tmp_path / "journal", drop_oldest=False)
    journal = Journal(spool, tmp_path / "state", 1 << 20, 100)
    journal.start()
    journal.append(JournalEntry("traces", 1, "id/2", b"waiting")).result()
    journal.close()
    spool.close()

    with running_pipeline(tmp_path, writer) as pipeline:
        pipeline.accept("traces", b"written again", "id/1")
        pipeline.accept("traces", b"waiting again", "id/2")
        assert pipeline.drain(DRAIN_S)
        assert pipeline.stats.num_duplicates == 2

    assert writer.bodies == ["written", "waiting"]


def test_the_number_of_batch_ids_is_bounded(tmp_path: Path) -> None:
    writer = RecordingWriter()

    with running_pipeline(tmp_path, writer, num_batch_ids=2) as pipeline:
        for batch_id in ("a", "b", "c", "a"):
            pipeline.accept("traces", batch_id.encode(), batch_id)
        assert pipeline.drain(DRAIN_S)

    assert writer.bodies == ["a", "b", "c", "a"]


def test_a_failing_store_delays_and_loses_nothing(tmp_path: Path) -> None:
    writer = RecordingWriter()
    writer.fail()

    with running_pipeline(tmp_path, writer) as pipeline:
        pipeline.accept("traces", b"a")
        wait_until(lambda: len(writer.tries) >= 2)
        pipeline.accept("traces", b"b")
        assert not pipeline.drain(0.01)
        writer.failure = None
        assert pipeline.drain(DRAIN_S)
        assert pipeline.stats.num_write_failures >= 2

    # Nothing joined the range that was tried already.
    assert [len(records) for records in writer.batches.values()] == [1, 1]
    assert set(writer.tries) == set(writer.batches)


def test_how_far_it_is_behind_is_the_age_of_what_is_written_next(tmp_path: Path) -> None:
    writer, now_s = RecordingWriter(), [100.0]
    writer.fail()

    with running_pipeline(tmp_path, writer, clock_ns=lambda: round(now_s[0] * 1e9)) as pipeline:
        assert pipeline.stats.lag_s == 0.0
        pipeline.accept("traces", b"a")
        wait_until(lambda: len(writer.tries) >= 1)
        now_s[0] = 190.0
        assert pipeline.stats.lag_s == 90.0
        writer.failure = None
        assert pipeline.drain(DRAIN_S)
        # Nothing waits any more, however long ago the last one came.
        now_s[0] = 4000.0
        assert pipeline.stats.lag_s == 0.0


def test_a_restart_repeats_the_same_range_under_the_same_token(tmp_path: Path) -> None:
    writer = RecordingWriter()
    writer.fail()
    with running_pipeline(tmp_path, writer) as pipeline:
        pipeline.accept("traces", b"a")
        wait_until(lambda: bool(writer.tries))
        pipeline.accept("traces", b"b")
    (tried,) = set(writer.tries)

    writer.failure = None
    with running_pipeline(tmp_path, writer) as pipeline:
        assert pipeline.drain(DRAIN_S)

    assert writer.batches[tried].metric_points[0].name == "a"
    assert writer.bodies == ["a", "b"]
    assert len(writer.batches) == 2


def test_a_crash_after_the_insert_repeats_it_under_its_token(tmp_path: Path) -> None:
    """The writer had stored the batch, the acknowledgement never reached the journal."""
    writer = RecordingWriter()

    class CrashingWriter(RecordingWriter):
        def write(self, records: Records, token: str) -> None:
            writer.write(records, token)
            raise KeyboardInterrupt

    crashing = CrashingWriter()
    errors: list[type[BaseException]] = []
    before = threading.excepthook
    threading.excepthook = lambda arguments: errors.append(arguments.exc_type)
    try:
        with running_pipeline(tmp_path, crashing) as pipeline:
            pipeline.accept("traces", b"a", "id/1")
            wait_until(lambda: bool(errors))
    finally:
        threading.excepthook = before

    with running_pipeline(tmp_path, writer) as pipeline:
        assert pipeline.drain(DRAIN_S)

    assert writer.bodies == ["a"]
    assert len(writer.tries) == 2
    assert len(set(writer.tries)) == 1


def test_a_defect_in_one_request_loses_that_request_alone(tmp_path: Path) -> None:
    writer = RecordingWriter()

    with running_pipeline(tmp_path, writer) as pipeline:
        for body in (b"a", b"defect", b"b"):
            pipeline.accept("traces", body)
        assert pipeline.drain(DRAIN_S)
        assert pipeline.stats.num_lost_requests == 1

    assert writer.bodies == ["a", "b"]


def test_a_defect_in_the_writer_does_not_stop_the_queue(tmp_path: Path) -> None:
    writer = RecordingWriter()
    writer.failure = TypeError("a defect")

    with running_pipeline(tmp_path, writer) as pipeline:
        pipeline.accept("traces", b"a")
        wait_until(lambda: pipeline.stats.num_lost_requests == 1)
        writer.failure = None
        pipeline.accept("traces", b"b")
        assert pipeline.drain(DRAIN_S)

    assert writer.bodies == ["b"]


def test_a_listener_that_fails_does_not_stop_the_queue(tmp_path: Path) -> None:
    writer = RecordingWriter()

    def fail(records: Records) -> None:
        raise RuntimeError("no")

    with running_pipeline(tmp_path, writer, on_written=fail) as pipeline:
        pipeline.accept("traces", b"a")
        assert pipeline.drain(DRAIN_S)
        pipeline.accept("traces", b"b")
        assert pipeline.drain(DRAIN_S)
        assert pipeline.stats.num_callback_failures == 2

    assert writer.bodies == ["a", "b"]


def test_a_full_journal_refuses_and_takes_again_later(tmp_path: Path) -> None:
    writer = RecordingWriter()
    writer.fail()
    accepted = 0

    with running_pipeline(tmp_path, writer, max_bytes=64 << 10) as pipeline:
        with pytest.raises(BusyError) as caught:
            for _ in range(100):
                pipeline.accept("traces", b"x" * 4096)
                accepted += 1
        assert caught.value.retry_after_s > 0
        assert pipeline.stats.num_refused == 1
        writer.failure = None
        assert pipeline.drain(DRAIN_S)
        pipeline.accept("traces", b"again")
        assert pipeline.drain(DRAIN_S)

    assert len(writer.bodies) == accepted + 1


class FailingSpool(Spool):
    """A spool on a disk that refuses to sync."""

    def sync(self) -> None:
        raise SpoolError("Input/output error")


def test_a_disk_that_refuses_acknowledges_nothing(tmp_path: Path) -> None:
    spool = FailingSpool(tmp_path / "journal", drop_oldest=False)
    journal = Journal(spool, tmp_path / "state", 1 << 20, 100)
    journal.start()

    done = journal.append(JournalEntry("traces", 1, None, b"a"))

    with pytest.raises(StoreError, match="Input/output error"):
        done.result(60)
    assert journal.num_refused == 1
    journal.close()


def test_a_state_directory_that_cannot_be_used_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")

    with (
        pytest.raises(StoreError, match="journal's state"),
        running_pipeline(tmp_path, RecordingWriter()),
    ):
        pass


def test_what_waits_in_memory_is_bounded(tmp_path: Path) -> None:
    """Nothing is committed before the start, so everything waits."""
    with running_pipeline(
        tmp_path, RecordingWriter(), max_waiting_bytes=100, start=False
    ) as pipeline:

        async def send(body: bytes) -> None:
            await pipeline.accept_async("traces", body)

        async def main() -> None:
            waiting = asyncio.create_task(send(b"x" * 90))
            await asyncio.sleep(0)
            with pytest.raises(BusyError):
                await send(b"x" * 11)
            pipeline.start()
            await waiting
            await send(b"x" * 1000)

        asyncio.run(main())


def test_a_caller_that_gave_up_before_its_turn_is_not_stored(tmp_path: Path) -> None:
    writer = RecordingWriter()
    with running_pipeline(tmp_path, writer, start=False) as pipeline:

        async def main() -> None:
            task = asyncio.create_task(pipeline.accept_async("traces", b"gone"))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            pipeline.start()
            await pipeline.accept_async("traces", b"here")

        asyncio.run(main())
        assert pipeline.drain(DRAIN_S)

    assert writer.bodies == ["here"]


def test_a_batch_id_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    with (
        running_pipeline(tmp_path, RecordingWriter()) as pipeline,
        pytest.raises(BadRequestError),
    ):
        pipeline.accept("traces", b"a", "x" * 1000)


def test_after_the_end_nothing_is_taken(tmp_path: Path) -> None:
    with running_pipeline(tmp_path, RecordingWriter()) as pipeline:
        pipeline.close()

        with pytest.raises(BusyError, match="shutting down"):
            pipeline.accept("traces", b"a")


def test_ranges_end_at_the_size_bound(tmp_path: Path) -> None:
    writer = RecordingWriter()
    writer.allowed.clear()

    with running_pipeline(tmp_path, writer, max_batch_bytes=250) as pipeline:
        for index in range(10):
            pipeline.accept("traces", str(index).encode() * 100)
        writer.allowed.set()
        assert pipeline.drain(DRAIN_S)

    assert len(writer.bodies) == 10
    assert max(len(batch) for batch in writer.batches.values()) <= 2


class BrokenTogether(EchoNormalizer):
    """Fails on many at once, after it has made some of them."""

    def normalize_many(
        self, signal: Signal, requests: Sequence[tuple[bytes, int]], into: Records
    ) -> bool:
        self.normalize(signal, b"half", 0, into)
        raise RuntimeError("a defect")


def test_a_defect_in_reading_many_at_once_loses_and_repeats_none(tmp_path: Path):
    writer = RecordingWriter()
    with running_pipeline(tmp_path, writer, BrokenTogether()) as pipeline:
        for number in range(5):
            pipeline.accept("traces", b"%d" % number)
        assert pipeline.drain(60.0)
        assert pipeline.stats.num_lost_requests == 0
    assert writer.bodies == ["0", "1", "2", "3", "4"]


def test_a_defect_in_claiming_does_not_end_the_ingest_thread(tmp_path: Path):
    tries: list[str] = []

    def claim(ids: object, token: str) -> set[str]:
        tries.append(token)
        if len(tries) == 1:
            raise RuntimeError("a defect")
        return set()

    writer = RecordingWriter()
    with running_pipeline(tmp_path, writer, claim=claim) as pipeline:
        pipeline.accept("traces", b"1", "a/b/1")
        assert pipeline.drain(60.0)
    assert writer.bodies == ["1"]
