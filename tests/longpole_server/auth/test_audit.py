from pathlib import Path

from longpole_server.auth.audit import AuditLog


def test_the_newest_comes_first_and_a_torn_line_is_left_out(tmp_path: Path):
    file = tmp_path / "audit.jsonl"
    log = AuditLog(file, clock_ns=lambda: 7)
    log.record("ana", "rule.save", "x" * 1_000, address="10.0.0.1")
    with file.open("a") as opened:
        opened.write('{"ts_ns": 8, "wh\n')
    log.record("bo", "rule.delete", "a\nline", "refused: only an admin may change this")
    newest, before = log.list_newest(10)
    log.close()
    assert (newest.who, newest.target, newest.outcome) == (
        "bo", "a\nline", "refused: only an admin may change this",
    )  # fmt: skip
    assert (before.ts_ns, before.address, len(before.target)) == (7, "10.0.0.1", 500)
    assert file.stat().st_mode & 0o077 == 0


def test_an_entry_torn_by_a_full_disk_hides_no_other(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    log = AuditLog(file)
    log.record("before", "login")
    log.record("züri", "login")
    log.close()
    # The disk was full amid a character, and the server was killed.
    content = file.read_bytes()
    file.write_bytes(content[: content.rindex("ü".encode()) + 1])
    log = AuditLog(file)
    log.record("after", "login")
    assert [entry.who for entry in log.list_newest(9)] == ["after", "before"]
    log.close()
