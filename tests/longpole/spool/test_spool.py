import os
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from longpole.spool import Spool, SpoolError, SpoolFullError, SpoolLockedError
from longpole.spool.durable import Cursor
from longpole.spool.segment import HEADER_BYTES, RECORD_OVERHEAD_BYTES


def payloads(spool: Spool, after: int = 0) -> list[bytes]:
    return [record.payload for record in spool.read(after, 1_000_000, 1 << 40)]


def fill(directory: Path, records: list[bytes]) -> Path:
    """Write records and return the only segment."""
    spool = Spool(directory)
    for record in records:
        spool.append(record)
    spool.close()
    (segment,) = directory.glob("*.segment")
    return segment


def test_returns_what_was_appended_in_order(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    assert [spool.append(payload) for payload in (b"a", b"", b"c" * 100_000)] == [1, 2, 3]
    spool.sync()
    records = spool.read(0, 10, 1 << 20)
    assert [(record.sequence, record.payload) for record in records] == [
        (1, b"a"),
        (2, b""),
        (3, b"c" * 100_000),
    ]
    spool.close()


def test_only_durable_records_are_read(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.append(b"synced")
    spool.sync()
    spool.append(b"not yet")
    assert payloads(spool) == [b"synced"]
    assert (spool.last_sequence, spool.durable_sequence) == (2, 1)
    spool.sync()
    assert payloads(spool) == [b"synced", b"not yet"]
    spool.close()


def test_read_is_bounded_but_returns_at_least_one(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    for size in (10, 10, 50, 10):
        spool.append(b"x" * size)
    spool.sync()
    assert [record.sequence for record in spool.read(0, 10, 25)] == [1, 2]
    assert [record.sequence for record in spool.read(2, 10, 25)] == [3]
    assert [record.sequence for record in spool.read(0, 3, 1000)] == [1, 2, 3]
    assert spool.read(4, 10, 1000) == []
    spool.close()


def test_reads_across_segments_from_any_place(tmp_path: Path) -> None:
    spool = Spool(tmp_path, segment_bytes=200)
    expected = [b"%d" % number for number in range(100)]
    for payload in expected:
        spool.append(payload)
    spool.sync()
    assert len(list(tmp_path.glob("*.segment"))) > 10
    for after in range(100):
        assert payloads(spool, after) == expected[after:]
    spool.close()


def test_acknowledged_records_are_gone_after_a_restart_and_segments_are_freed(
    tmp_path: Path,
) -> None:
    spool = Spool(tmp_path, segment_bytes=200)
    for number in range(50):
        spool.append(b"%d" % number)
    spool.acknowledge(30)
    spool.acknowledge(7)  # goes back: changes nothing
    num_segments = len(list(tmp_path.glob("*.segment")))
    spool.close()

    spool = Spool(tmp_path, segment_bytes=200)
    assert spool.acknowledged == 30
    assert spool.num_pending == 20
    assert [record.sequence for record in spool] == list(range(31, 51))
    spool.acknowledge(50)
    assert list(spool) == []
    assert len(list(tmp_path.glob("*.segment"))) < num_segments
    spool.close()


def test_sequence_continues_when_everything_was_acknowledged(tmp_path: Path) -> None:
    for round_number in range(5):
        spool = Spool(tmp_path, segment_bytes=100)
        assert spool.append(b"x" * 90) == round_number + 1
        spool.acknowledge(round_number + 1)
        spool.close()


def test_sequence_continues_after_the_cursor_when_segments_are_lost(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    for _ in range(3):
        spool.append(b"x")
    spool.acknowledge(3)
    spool.close()
    for segment in tmp_path.glob("*.segment"):
        segment.unlink()
    spool = Spool(tmp_path)
    assert spool.append(b"y") == 4
    spool.sync()
    assert payloads(spool) == [b"y"]
    spool.close()


def test_acknowledging_what_was_never_appended_is_an_error(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    with pytest.raises(ValueError, match="record 1 was never appended"):
        spool.acknowledge(1)
    spool.close()


def test_full_spool_drops_the_oldest_and_counts_them(tmp_path: Path) -> None:
    spool = Spool(tmp_path, max_bytes=4000, segment_bytes=1000)
    for number in range(100):
        spool.append(b"%03d" % number + b"x" * 97)
        assert spool.num_bytes <= 4000
    spool.sync()
    kept = [record.sequence for record in spool]
    assert kept == list(range(kept[0], 101))
    assert spool.num_dropped == kept[0] - 1 > 0
    assert spool.num_pending == len(kept)
    spool.close()


def test_what_is_too_old_is_dropped_and_counted(tmp_path: Path) -> None:
    now_s = 1000.0

    def open_spool() -> Spool:
        return Spool(tmp_path, segment_bytes=300, max_age_s=60.0, now_s=lambda: now_s)

    spool = open_spool()
    for number in range(20):
        now_s += 10.0
        spool.append(b"%d" % number * 50)
        spool.sync()
    held = [record.sequence for record in spool]
    # A segment holds a few records and goes as a whole.
    assert held[-1] == 20
    assert 6 <= len(held) <= 12
    assert spool.num_dropped == 20 - len(held)
    spool.close()
    # What an earlier process wrote is as old as its file says.
    hour_ago_s = time.time() - 3600.0
    for path in tmp_path.glob("*.segment"):
        os.utime(path, (hour_ago_s, hour_ago_s))
    spool = open_spool()
    assert payloads(spool) == []
    assert spool.num_dropped == len(held)
    assert spool.append(b"x") == 21
    # A file from the future, after the clock was set back, is new.
    spool.close()
    for path in tmp_path.glob("*.segment"):
        os.utime(path, (hour_ago_s + 10**6, hour_ago_s + 10**6))
    spool = open_spool()
    assert payloads(spool) == [b"x"]
    spool.close()


def test_acknowledged_records_do_not_count_as_dropped(tmp_path: Path) -> None:
    spool = Spool(tmp_path, max_bytes=4000, segment_bytes=1000)
    for _ in range(100):
        spool.acknowledge(spool.append(b"x" * 100))
    assert spool.num_dropped == 0
    spool.close()


def test_a_record_as_large_as_the_spool_evicts_everything_else(tmp_path: Path) -> None:
    spool = Spool(tmp_path, max_bytes=4000)
    spool.append(b"small")
    spool.append(b"x" * (4000 - HEADER_BYTES - RECORD_OVERHEAD_BYTES))
    spool.sync()
    assert spool.num_dropped == 1
    assert [record.sequence for record in spool] == [2]
    with pytest.raises(SpoolFullError, match="larger than the spool"):
        spool.append(b"x" * 4000)
    spool.close()


def test_spool_that_must_not_drop_refuses_until_there_is_room(tmp_path: Path) -> None:
    spool = Spool(tmp_path, max_bytes=4000, segment_bytes=1000, drop_oldest=False)
    with pytest.raises(SpoolFullError, match="holds its bound"):
        for _ in range(100):
            spool.append(b"x" * 100)
    last = spool.last_sequence
    assert spool.num_dropped == 0
    assert spool.num_bytes <= 4000
    spool.acknowledge(last)
    assert spool.append(b"again") == last + 1
    spool.sync()
    assert payloads(spool, last) == [b"again"]
    spool.close()


def test_truncated_at_every_byte_keeps_every_whole_record(tmp_path: Path) -> None:
    records = [b"first", b"", b"the third record", b"4"]
    segment = fill(tmp_path / "original", records)
    data = segment.read_bytes()
    ends = [HEADER_BYTES]
    for record in records:
        ends.append(ends[-1] + RECORD_OVERHEAD_BYTES + len(record))
    assert ends[-1] == len(data)
    for length in range(len(data) + 1):
        directory = tmp_path / str(length)
        directory.mkdir()
        (directory / segment.name).write_bytes(data[:length])
        spool = Spool(directory)
        whole = sum(end <= length for end in ends[1:])
        assert payloads(spool) == records[:whole]
        assert spool.append(b"after the crash") == whole + 1
        spool.close()
        spool = Spool(directory)
        assert payloads(spool) == [*records[:whole], b"after the crash"]
        assert spool.num_damaged == 0
        spool.close()


def test_zeros_behind_the_last_record_are_not_records(tmp_path: Path) -> None:
    segment = fill(tmp_path, [b"one", b"two"])
    with segment.open("ab") as file:
        file.write(bytes(5000))
    spool = Spool(tmp_path)
    assert spool.append(b"three") == 3
    spool.close()
    spool = Spool(tmp_path)
    assert payloads(spool) == [b"one", b"two", b"three"]
    spool.close()


def test_a_flipped_byte_costs_at_most_the_record_it_is_in(tmp_path: Path) -> None:
    records = [b"first", b"second record", b"", b"fourth"]
    segment = fill(tmp_path / "original", records)
    data = segment.read_bytes()
    for offset in range(len(data)):
        for mask in (0x01, 0x80, 0xFF):
            directory = tmp_path / f"{offset}-{mask}"
            directory.mkdir()
            damaged = bytearray(data)
            damaged[offset] ^= mask
            (directory / segment.name).write_bytes(damaged)
            spool = Spool(directory)
            found = payloads(spool)
            lost = [record for record in records if record not in found]
            assert [record for record in records if record in found] == found
            assert len(lost) == (offset >= HEADER_BYTES)
            sequence = spool.append(b"new")
            spool.close()
            spool = Spool(directory)
            assert payloads(spool) == [*found, b"new"]
            assert spool.last_sequence == sequence
            assert spool.num_damaged == (bool(lost) and lost != [b"fourth"])
            spool.close()


def test_the_end_of_a_file_before_its_beginning_does_not_hide_what_is_appended(
    tmp_path: Path,
) -> None:
    sound = [b"body %d" % number for number in range(1, 41)]
    segment = fill(tmp_path, sound)
    content = segment.read_bytes()
    segment.write_bytes(content[-200:] + content)
    spool = Spool(tmp_path)
    held = payloads(spool)
    assert held
    assert held == sound[-len(held) :]
    spool.append(b"more")
    spool.sync()
    assert payloads(spool) == [*held, b"more"]


@pytest.mark.parametrize("first", [1, 65_400, (1 << 24) - 50])
@pytest.mark.parametrize("filling", [b"\0", b"\xff", b"\x01\0"])
def test_a_bad_page_costs_the_records_in_it_and_none_behind_it(
    tmp_path: Path, first: int, filling: bytes
) -> None:
    # Small records: hundreds of them lie in one page.
    sound = [b"%d" % number for number in range(600)]
    cursor = Cursor(tmp_path / "acknowledged")
    cursor.write(first - 1)
    cursor.close()
    segment = fill(tmp_path, sound)
    content = bytearray(segment.read_bytes())
    content[1000:9192] = (filling * 8192)[:8192]
    segment.write_bytes(content)
    spool = Spool(tmp_path)
    found = {record.sequence: record.payload for record in spool.read(0, 1000, 1 << 20)}
    record_bytes = RECORD_OVERHEAD_BYTES + 3
    assert len(sound) - len(found) <= 8192 // (RECORD_OVERHEAD_BYTES + 2) + 3
    assert len(found) >= 1000 // record_bytes + (len(content) - 9192) // record_bytes - 3
    assert all(payload == sound[sequence - first] for sequence, payload in found.items())
    assert spool.num_damaged == len(sound) - len(found)
    assert segment.stat().st_size == len(content)
    assert spool.append(b"more") == first + 600
    spool.close()


@given(data=st.binary(max_size=400))
@settings(max_examples=200, deadline=None)
def test_any_bytes_as_a_segment_are_survived(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    directory = tmp_path_factory.mktemp("spool")
    (directory / f"{1:020d}.segment").write_bytes(data)
    spool = Spool(directory)
    sequence = spool.append(b"works")
    spool.sync()
    assert payloads(spool, sequence - 1) == [b"works"]
    spool.close()


@pytest.mark.parametrize("offset", range(12))
def test_a_torn_cursor_falls_back_to_the_one_before(tmp_path: Path, offset: int) -> None:
    spool = Spool(tmp_path)
    for _ in range(3):
        spool.append(b"x")
    spool.acknowledge(1)
    spool.acknowledge(2)
    spool.close()
    cursor = tmp_path / "acknowledged"
    data = bytearray(cursor.read_bytes())
    data[4096 + offset] ^= 0xFF  # the second write went to the second slot
    cursor.write_bytes(data)
    spool = Spool(tmp_path)
    assert spool.acknowledged == 1
    spool.acknowledge(3)
    spool.close()
    spool = Spool(tmp_path)
    assert spool.acknowledged == 3
    spool.close()


def test_a_second_owner_is_told_who_holds_the_directory(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    with pytest.raises(SpoolLockedError, match=f"is in use by process {os.getpid()}"):
        Spool(tmp_path)
    spool.close()
    Spool(tmp_path).close()


def test_a_second_process_is_told_who_holds_the_directory(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    code = (
        "import sys; from pathlib import Path; from longpole.spool import *\n"
        "try: Spool(Path(sys.argv[1]))\nexcept SpoolLockedError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert f"in use by process {os.getpid()}" in done.stdout
    spool.close()


def test_a_file_in_place_of_the_directory_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "spool").write_text("not a directory")
    with pytest.raises(SpoolError, match="cannot be used: File exists"):
        Spool(tmp_path / "spool")


def test_segments_of_another_version_are_refused_and_left_alone(tmp_path: Path) -> None:
    segment = fill(tmp_path, [b"one"])
    data = segment.read_bytes()
    header = struct.pack("<8sIQ", data[:8], 99, 1)
    changed = header + struct.pack("<I", zlib.crc32(header)) + data[HEADER_BYTES:]
    segment.write_bytes(changed)
    with pytest.raises(SpoolError, match="written by another version"):
        Spool(tmp_path)
    assert segment.read_bytes() == changed


def test_closed_spool_refuses_everything(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.append(b"x")
    spool.close()
    spool.close()
    uses: tuple[Callable[[], object], ...] = (
        lambda: spool.append(b"x"),
        spool.sync,
        lambda: spool.read(0, 1, 1),
        lambda: spool.acknowledge(1),
    )
    for use in uses:
        with pytest.raises(SpoolError, match="is closed"):
            use()


def test_a_killed_process_loses_nothing_it_synced(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from longpole.spool import Spool\n"
        "spool = Spool(Path(sys.argv[1]), segment_bytes=5000)\n"
        "while True:\n"
        "    number = spool.append(b'%d' % (spool.last_sequence + 1) * 7); spool.sync()\n"
        "    print(number, flush=True)\n"
    )
    for _ in range(3):
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        acknowledged = [int(process.stdout.readline()) for _ in range(150)][-1]
        process.kill()
        acknowledged = max([acknowledged, *(int(line) for line in process.stdout if line.strip())])
        process.stdout.close()
        process.wait()
        spool = Spool(tmp_path, segment_bytes=5000)
        assert spool.last_sequence >= acknowledged
        for record in spool:
            assert record.payload == b"%d" % record.sequence * 7
        spool.close()


def test_a_full_disk_costs_the_record_that_does_not_fit_and_no_other(tmp_path: Path) -> None:
    # A limit on the size of files stands for the full disk: part of the record is written.
    code = (
        "import resource, sys; from pathlib import Path; from longpole.spool import *\n"
        "spool = Spool(Path(sys.argv[1])); spool.append(b'one'); spool.sync()\n"
        "hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))\n"
        "try: spool.append(b'x' * 5000)\n"
        "except SpoolError as error: print(error)\n"
        "print(spool.append(b'two'))\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))\n"
        "print(spool.append(b'y' * 5000)); spool.close()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    refusal, second, third = done.stdout.splitlines()
    assert "cannot be used: File too large" in refusal
    assert (second, third) == ("2", "3")
    spool = Spool(tmp_path)
    assert payloads(spool) == [b"one", b"two", b"y" * 5000]
    assert spool.num_damaged == 0
    spool.close()


def test_too_many_open_files_refuse_for_a_while_and_cost_nothing(tmp_path: Path) -> None:
    code = (
        "import os, resource, sys; from pathlib import Path; from longpole.spool import *\n"
        "spool = Spool(Path(sys.argv[1])); spool.append(b'one'); spool.sync()\n"
        "spool.append(b'two')\n"
        "hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard)); taken = []\n"
        "try:\n"
        "    while True: taken.append(os.dup(0))\n"
        "except OSError: pass\n"
        "for use in (spool.sync, lambda: spool.read(0, 9, 99)):\n"
        "    try: use()\n"
        "    except SpoolError as error: print(error, repr(spool.failure))\n"
        "for fd in taken: os.close(fd)\n"
        "spool.sync(); print([record.payload for record in spool.read(0, 9, 99)])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    sync, read, payload = done.stdout.splitlines()
    assert sync == read == f"{tmp_path} cannot be used: Too many open files ''"
    assert payload == "[b'one', b'two']"


def test_after_a_sync_that_failed_nothing_is_taken_until_it_is_opened_again(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.append(b"durable")
    spool.sync()
    spool.append(b"not durable")
    # What cannot be synced stands for the disk that refuses to: a pipe.
    reader, writer = os.pipe()
    active, spool._chain.active_fd = spool._chain.active_fd, writer
    assert not spool.failure
    with pytest.raises(SpoolError, match="fsync failed"):
        spool.sync()
    spool._chain.active_fd = active
    os.close(reader)
    os.close(writer)
    assert "fsync failed" in spool.failure
    for use in (spool.sync, lambda: spool.append(b"x"), lambda: spool.acknowledge(1)):
        with pytest.raises(SpoolError, match="fsync failed"):
            use()
    spool.close()
    spool = Spool(tmp_path)
    assert payloads(spool)[0] == b"durable"
    assert not spool.failure
    spool.close()


def test_many_threads_append_sync_read_and_acknowledge(tmp_path: Path) -> None:
    spool = Spool(tmp_path, segment_bytes=2000)
    num_writers, num_each = 6, 200
    written: dict[int, bytes] = {}
    seen: dict[int, bytes] = {}

    def write(writer: int) -> None:
        for number in range(num_each):
            payload = b"%d/%d" % (writer, number)
            sequence = spool.append(payload)
            if number % 10 == 0:
                spool.sync()
            written[sequence] = payload

    def drain() -> None:
        after = 0
        while after < num_writers * num_each:
            spool.sync()
            for record in spool.read(after, 50, 1 << 20):
                seen[record.sequence] = record.payload
                after = record.sequence
            spool.acknowledge(after)

    with ThreadPoolExecutor(num_writers + 1) as threads:
        done = [threads.submit(write, writer) for writer in range(num_writers)]
        for future in [*done, threads.submit(drain)]:
            future.result()
    assert seen == written
    assert sorted(seen) == list(range(1, num_writers * num_each + 1))
    spool.close()


class SpoolModel(RuleBasedStateMachine):
    """The spool against a list: append, sync, acknowledge, reopen in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name)
        self.records: list[bytes] = []
        self.synced = 0
        self.acknowledged = 0
        self.spool = self.open()

    def open(self) -> Spool:
        return Spool(self.path, max_bytes=1 << 20, segment_bytes=300)

    @rule(payload=st.binary(max_size=120))
    def append(self, payload: bytes) -> None:
        self.records.append(payload)
        assert self.spool.append(payload) == len(self.records)

    @rule()
    def sync(self) -> None:
        self.spool.sync()
        self.synced = len(self.records)

    @precondition(lambda self: self.records)
    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        sequence = data.draw(st.integers(1, len(self.records)))
        self.spool.acknowledge(sequence)
        self.acknowledged = max(self.acknowledged, sequence)

    @rule()
    def reopen(self) -> None:
        self.spool.close()
        self.synced = len(self.records)
        self.spool = self.open()

    @invariant()
    def agrees(self) -> None:
        assert self.spool.last_sequence == len(self.records)
        assert self.spool.acknowledged == self.acknowledged
        durable = self.spool.durable_sequence
        assert durable >= self.synced
        expected = list(enumerate(self.records, start=1))[self.acknowledged : durable]
        assert [(record.sequence, record.payload) for record in self.spool] == expected

    def teardown(self) -> None:
        self.spool.close()
        self.folder.cleanup()


SpoolModel.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestSpoolModel = SpoolModel.TestCase


def test_numbers_that_are_skipped_are_not_used_and_stay_skipped(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.append(b"one")
    spool.skip_to(7)
    spool.skip_to(3)
    assert (spool.last_sequence, spool.durable_sequence) == (7, 7)
    spool.close()
    spool = Spool(tmp_path)
    assert spool.append(b"eight") == 8
    spool.sync()
    assert [(record.sequence, record.payload) for record in spool] == [(1, b"one"), (8, b"eight")]
    spool.acknowledge(8)
    spool.close()
