import threading
from pathlib import Path

import pytest

from longpole.spool import Spool, SpoolError
from longpole_agent.batch import Batch, decode_batch
from longpole_agent.intake import Intake


def make_batch(body: bytes) -> Batch:
    return Batch("traces", body, "application/json", "", "agent/boot")


class CountingSpool(Spool):
    num_syncs = 0

    def sync(self) -> None:
        self.num_syncs += 1
        super().sync()


def test_a_batch_is_durable_when_its_future_is_done(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    stored = threading.Event()
    intake = Intake(spool, stored.set)
    intake.start()
    sequence = intake.store(make_batch(b"x")).result(timeout=60)
    assert spool.durable_sequence >= sequence == 1
    assert [decode_batch(record.payload).body for record in spool] == [b"x"]
    assert stored.wait(60)
    intake.close()
    spool.close()


def test_batches_that_wait_together_share_one_sync(tmp_path: Path) -> None:
    spool = CountingSpool(tmp_path)
    intake = Intake(spool, lambda: None)
    futures = [intake.store(make_batch(b"%d" % number)) for number in range(100)]
    intake.start()
    assert [future.result(timeout=60) for future in futures] == list(range(1, 101))
    assert spool.num_syncs == 1
    intake.close()
    spool.close()


def test_a_batch_whose_sender_went_is_not_kept(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    intake = Intake(spool, lambda: None)
    gone, stays = intake.store(make_batch(b"gone")), intake.store(make_batch(b"stays"))
    assert gone.cancel()
    intake.start()
    stays.result(timeout=60)
    assert [decode_batch(record.payload).body for record in spool] == [b"stays"]
    intake.close()
    spool.close()


def test_what_waits_for_a_disk_that_hangs_is_bounded(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    intake = Intake(spool, lambda: None, max_waiting=3)
    futures = [intake.store(make_batch(b"x")) for _ in range(5)]
    for refused in futures[3:]:
        with pytest.raises(SpoolError, match="does not keep up"):
            refused.result(timeout=0)
    intake.start()
    assert [future.result(timeout=60) for future in futures[:3]] == [1, 2, 3]
    intake.close()
    spool.close()


def test_the_disk_refusing_is_told_to_every_sender(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    intake = Intake(spool, lambda: None)
    futures = [intake.store(make_batch(b"x")) for _ in range(3)]
    spool.close()
    intake.start()
    for future in futures:
        with pytest.raises(SpoolError):
            future.result(timeout=60)
    intake.close()


class OutOfMemorySpool(Spool):
    def append(self, payload: bytes) -> int:
        if b"large" in payload:
            raise MemoryError
        return super().append(payload)


def test_a_defect_fails_those_who_wait_and_none_after_them(tmp_path: Path) -> None:
    spool = OutOfMemorySpool(tmp_path)
    intake = Intake(spool, lambda: None)
    before = intake.store(make_batch(b"large"))
    intake.start()
    with pytest.raises(SpoolError, match="MemoryError"):
        before.result(timeout=60)
    assert intake.store(make_batch(b"small")).result(timeout=60) == 1
    intake.close()
    spool.close()


def test_one_batch_too_large_does_not_fail_the_others(tmp_path: Path) -> None:
    spool = Spool(tmp_path, max_bytes=10_000)
    intake = Intake(spool, lambda: None)
    large, small = intake.store(make_batch(b"x" * 20_000)), intake.store(make_batch(b"x"))
    intake.start()
    with pytest.raises(SpoolError, match="larger than the spool"):
        large.result(timeout=60)
    assert small.result(timeout=60) == 1
    intake.close()
    spool.close()


def test_closing_stores_what_waits_and_refuses_what_comes_later(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    intake = Intake(spool, lambda: None)
    waiting = intake.store(make_batch(b"x"))
    intake.start()
    intake.close()
    assert waiting.result(timeout=0) == 1
    with pytest.raises(SpoolError, match="shutting down"):
        intake.store(make_batch(b"late")).result(timeout=0)
    spool.close()
