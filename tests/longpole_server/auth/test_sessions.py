from pathlib import Path

import pytest

from longpole_server.auth.book import AccessBook
from longpole_server.auth.ended import EndedSessions
from longpole_server.auth.sessions import Sessions, check_key, load_key
from longpole_server.errors import ConfigError, StoreError
from support.doors import PASSWORD, add_user

KEY = "k" * 40


def test_a_session_survives_a_restart_and_no_other_key(tmp_path: Path):
    add_user(tmp_path / "access.json", "ana")
    book = AccessBook(tmp_path / "access.json")
    ana = book.find_by_password("ana", PASSWORD)
    assert ana is not None
    value = Sessions(book, KEY, 60).make(ana)
    assert Sessions(AccessBook(tmp_path / "access.json"), KEY, 60).find(value) == ana
    assert Sessions(book, "o" * 40, 60).find(value) is None
    assert Sessions(book, KEY, -1).find(value) is None
    for forged in ("", value[:-1], value + "x", value.replace(".", "", 1), "a.b.c"):
        assert Sessions(book, KEY, 60).find(forged) is None


def test_an_ended_session_stays_ended_and_the_owner_s_others_go_on(tmp_path: Path):
    add_user(tmp_path / "access.json", "ana")
    book = AccessBook(tmp_path / "access.json")
    ana = book.find_by_password("ana", PASSWORD)
    assert ana is not None
    file = tmp_path / "ended"
    sessions = Sessions(book, KEY, 60, EndedSessions(file, 60))
    ended, other = sessions.make(ana), sessions.make(ana)
    sessions.end(ended)
    sessions.end("forged")
    for each in (sessions, Sessions(book, KEY, 60, EndedSessions(file, 60))):
        assert each.find(ended) is None
        # The last letter of a signature has bits that mean nothing.
        assert each.find(ended[:-1] + chr(ord(ended[-1]) ^ 1)) is None
        assert each.find(other) == ana
    assert file.stat().st_mode & 0o077 == 0


def test_what_would_have_ended_by_itself_is_forgotten(tmp_path: Path):
    file = tmp_path / "ended"
    now_s = [1_000.0]
    ended = EndedSessions(file, 60, lambda: now_s[0])
    ended.add("a")
    now_s[0] = 1_030.0
    ended.add("b")
    with file.open("a") as opened:
        opened.write("torn by a full dis")
    now_s[0] = 1_070.0
    again = EndedSessions(file, 60, lambda: now_s[0])
    assert ("a" in again, "b" in again) == (False, True)
    assert file.read_text() == "b 1090\n"


class Elsewhere:
    """What servers share: a list, and a database that may be away."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.is_away = False

    def add(self, session_id: str, max_age_s: int) -> None:
        if self.is_away:
            raise StoreError("away")
        self.ids.append(session_id)

    def list_ids(self, max_age_s: int) -> list[str]:
        return self.ids


def test_a_session_that_ended_at_one_server_has_ended_at_the_one_that_takes_over(tmp_path: Path):
    elsewhere = Elsewhere()
    first = EndedSessions(tmp_path / "first", 60)
    first.share(elsewhere)
    first.add("a")
    elsewhere.is_away = True
    first.add("b")
    assert ("a" in first, "b" in first) == (True, True)
    second = EndedSessions(tmp_path / "second", 60)
    second.share(elsewhere)
    assert ("a" in second, "b" in second) == (True, False)


def test_a_disk_that_takes_nothing_keeps_nobody_signed_in(tmp_path: Path):
    file = tmp_path / "ended"
    ended = EndedSessions(file, 60)
    file.unlink()
    file.mkdir()
    ended.add("a")
    assert "a" in ended
    with pytest.raises(ConfigError, match="Is a directory"):
        EndedSessions(file, 60)


def test_the_key_is_made_once_for_its_owner(tmp_path: Path):
    file = tmp_path / "session.key"
    key = load_key(file)
    assert load_key(file) == key
    assert len(key) >= 32
    assert file.stat().st_mode & 0o077 == 0
    assert [each.name for each in tmp_path.iterdir()] == ["session.key"]


def test_a_file_without_a_key_is_refused(tmp_path: Path):
    file = tmp_path / "session.key"
    file.write_text("short")
    with pytest.raises(ConfigError, match="holds no key"):
        load_key(file)


def test_a_key_that_may_be_guessed_is_refused():
    with pytest.raises(ConfigError, match="fewer than 32"):
        check_key("secret")
    assert check_key("x" * 32) == "x" * 32
    assert check_key(None) is None
