from pathlib import Path

import pytest

from longpole_server.auth.book import AccessBook
from longpole_server.auth.sessions import Sessions, check_key, load_key
from longpole_server.errors import ConfigError
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
