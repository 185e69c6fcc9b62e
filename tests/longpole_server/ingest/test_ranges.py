from pathlib import Path

from longpole_server.ingest.ranges import RangeLog


def test_the_newest_range_is_known_after_a_restart(tmp_path: Path) -> None:
    log = RangeLog(tmp_path, journal_last=0)
    log.freeze(1, 3, ["a", "b"])
    frozen = log.freeze(4, 4, [])
    log.close()

    reopened = RangeLog(tmp_path, journal_last=9)

    assert reopened.newest == frozen
    assert list(reopened.read_batch_ids()) == ["a", "b"]
    assert reopened.freeze(5, 6, []).token.rsplit("/", 1)[0] == frozen.token.rsplit("/", 1)[0]
    reopened.close()


def test_a_replaced_journal_gets_tokens_of_its_own(tmp_path: Path) -> None:
    log = RangeLog(tmp_path, journal_last=0)
    frozen = log.freeze(1, 5, [])
    log.close()

    reopened = RangeLog(tmp_path, journal_last=2)

    assert reopened.newest is None
    assert reopened.freeze(1, 5, []).token != frozen.token
    reopened.close()


def test_two_journals_never_share_a_token(tmp_path: Path) -> None:
    logs = [RangeLog(tmp_path / name, journal_last=0) for name in ("a", "b")]

    first, second = (log.freeze(1, 5, []) for log in logs)

    assert first.token != second.token
    assert first.token.startswith("journal/")
    assert first.token.endswith("/1-5")
    for log in logs:
        log.close()


def test_the_record_of_ranges_is_bounded(tmp_path: Path) -> None:
    log = RangeLog(tmp_path, journal_last=0, max_bytes=64 << 10)

    for index in range(1, 200):
        log.freeze(index, index, [f"{'x' * 1000}/{index}"])

    ids = list(log.read_batch_ids())
    assert ids[-1].endswith("/199")
    assert len(ids) < 70
    log.close()
