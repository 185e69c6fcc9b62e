from contextlib import closing
from pathlib import Path

from longpole.spool import Spool
from longpole_server.ingest.entry import JournalEntry, encode_entry
from longpole_server.ingest.journal import Journal
from longpole_server.ingest.ranges import RangeLog


def test_the_newest_range_is_known_after_a_restart(tmp_path: Path) -> None:
    log = RangeLog(tmp_path)
    log.freeze(1, 3, ["a", "b"])
    frozen = log.freeze(4, 4, [])
    log.close()

    reopened = RangeLog(tmp_path)

    assert reopened.newest == frozen
    assert list(reopened.read_batch_ids()) == ["a", "b"]
    reopened.close()


def test_no_token_comes_twice_though_the_record_is_damaged(tmp_path: Path) -> None:
    tokens: set[str] = set()
    for _ in range(2):
        with closing(RangeLog(tmp_path)) as log:
            log.freeze(1, 1, [])
            tokens.add(log.freeze(2, 3, []).token)
        (segment,) = tmp_path.glob("*.segment")
        segment.write_bytes(segment.read_bytes()[:-1])
    assert len(tokens) == 2


def test_numbers_whose_entries_are_gone_are_not_used_again(tmp_path: Path) -> None:
    log = RangeLog(tmp_path / "state" / "ranges")
    frozen = log.freeze(1, 5, [])
    log.close()
    # As after damage that took the journal's end, or a directory that was taken away.
    with closing(Spool(tmp_path / "journal", drop_oldest=False)) as spool:
        spool.append(encode_entry(JournalEntry("traces", 1, None, b"left of the range")))
        spool.sync()
        with closing(Journal(spool, tmp_path / "state", 1 << 20, 10)):
            assert spool.last_sequence == 5
        assert spool.append(encode_entry(JournalEntry("traces", 1, None, b"new"))) == 6
        spool.sync()
        with closing(Journal(spool, tmp_path / "state", 1 << 20, 10)) as journal:
            batch = journal.freeze_next(1 << 20)
            assert batch is not None
            assert batch.frozen == frozen
            assert [entry.body for entry in batch.entries] == [b"left of the range"]
            journal.acknowledge(batch.frozen)
            batch = journal.freeze_next(1 << 20)
            assert batch is not None
            assert batch.frozen.token != frozen.token
            assert [entry.body for entry in batch.entries] == [b"new"]


def test_two_journals_never_share_a_token(tmp_path: Path) -> None:
    logs = [RangeLog(tmp_path / name) for name in ("a", "b")]

    first, second = (log.freeze(1, 5, []) for log in logs)

    assert first.token != second.token
    assert first.token.startswith("journal/")
    assert first.token.endswith("/1-5")
    for log in logs:
        log.close()


def test_the_record_of_ranges_is_bounded(tmp_path: Path) -> None:
    log = RangeLog(tmp_path, max_bytes=64 << 10)

    for index in range(1, 200):
        log.freeze(index, index, [f"{'x' * 1000}/{index}"])

    ids = list(log.read_batch_ids())
    assert ids[-1].endswith("/199")
    assert len(ids) < 70
    log.close()
