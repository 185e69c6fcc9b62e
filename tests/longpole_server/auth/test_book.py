import json
from pathlib import Path

import pytest

from longpole_server.auth.book import AccessBook
from longpole_server.auth.entries import UserEntry, edit_entries, load_entries
from longpole_server.auth.passwords import hash_password, verify_password
from longpole_server.errors import ConfigError
from support.doors import PASSWORD, add_token, add_user


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_nothing_is_kept_that_would_let_in(tmp_path: Path):
    file = tmp_path / "access.json"
    add_user(file, "ana")
    token = add_token(file)
    text = file.read_text()
    assert PASSWORD not in text
    assert token not in text
    assert token.rpartition("_")[2] not in text
    assert file.stat().st_mode & 0o077 == 0
    assert "argon2id" in json.loads(text)["users"]["ana"]["password"]


def test_users_and_tokens_are_found_with_their_projects(tmp_path: Path):
    file = tmp_path / "access.json"
    add_user(file, "ana", projects=["a"])
    token = add_token(file, projects=["b", "c"])
    book = AccessBook(file)
    ana = book.find_by_password("ana", PASSWORD)
    assert ana is not None
    assert ana.sees("a")
    assert not ana.sees("b")
    assert not ana.sees(None)
    assert book.find_by_password("ana", "something else") is None
    assert book.find_by_password("bo", PASSWORD) is None
    sender = book.find_by_token(token)
    assert sender is not None
    assert sender.projects == {"b", "c"}
    assert sender.may_send
    assert not sender.may_read


def test_a_change_of_the_file_is_known_within_a_second(tmp_path: Path):
    file, clock = tmp_path / "access.json", Clock()
    book = AccessBook(file, monotonic_s=clock)
    assert book.is_open
    token = add_token(file)
    assert book.find_by_token(token) is None
    clock.seconds = 1.0
    assert not book.is_open
    assert book.find_by_token(token) is not None
    with edit_entries(file) as entries:
        entries.tokens.clear()
    clock.seconds = 2.0
    assert book.find_by_token(token) is None
    file.unlink()
    clock.seconds = 3.0
    assert not book.is_open, "removing the file must not open the server"


def test_a_file_that_becomes_wrong_leaves_the_last_good_one(tmp_path: Path):
    file, clock = tmp_path / "access.json", Clock()
    token = add_token(file)
    book = AccessBook(file, monotonic_s=clock)
    file.write_text('{"users": 3')
    clock.seconds = 5.0
    assert book.find_by_token(token) is not None


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("{", "the whole"),
        ('{"version": 2}', "version"),
        ('{"version": 1, "users": {"a": {"password": "x", "role": "boss"}}}', "users.a.role"),
        ('{"version": 1, "tokens": {"a": {}}}', "tokens.a"),
        ('{"version": 1, "extra": 1}', "extra"),
    ],
)
def test_a_wrong_file_is_refused_at_its_place(tmp_path: Path, text: str, where: str):
    file = tmp_path / "access.json"
    file.write_text(text)
    with pytest.raises(ConfigError, match=where):
        AccessBook(file)


def test_entries_of_a_missing_file_are_none(tmp_path: Path):
    assert load_entries(tmp_path / "none.json").users == {}


@pytest.mark.parametrize("password", ["short", "x" * 257])
def test_passwords_have_a_length(password: str):
    with pytest.raises(ValueError, match="characters"):
        hash_password(password)
    assert not verify_password(None, password)


def test_a_hash_that_is_none_lets_nobody_in():
    assert not verify_password("plain text", "plain text")


def test_who_came_and_went_is_told(tmp_path: Path):
    file, now_s = tmp_path / "access.json", [0.0]
    told: list[str] = []
    add_user(file, "ana", "admin")
    add_user(file, "bo", "viewer", ["a"])
    book = AccessBook(file, monotonic_s=lambda: now_s[0], on_change=told.append)

    def change(**entries: UserEntry | None) -> list[str]:
        told.clear()
        with edit_entries(file) as changed:
            for name, entry in entries.items():
                if entry is None:
                    del changed.users[name]
                else:
                    changed.users[name] = entry
        now_s[0] += 10.0
        assert not book.is_open
        return list(told)

    cy = UserEntry(password="x", role="viewer", projects=["a", "b"])
    assert change(cy=cy, ana=None) == ["user ana removed", "user cy added, viewer of a, b"]
    assert change(cy=cy.model_copy(update={"password": "y"})) == ["user cy has a new password"]
    bo = UserEntry(password="x", role="admin")
    assert change(bo=bo) == ["user bo is now admin of all projects"]
    assert change() == []
    add_token(file, "ingest")
    assert len(change()) == 1
    assert told[0].startswith("token ")
    assert told[0].endswith("added, ingest of all projects")
