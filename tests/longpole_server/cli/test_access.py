import io
from pathlib import Path

import pytest

from longpole_server.auth.entries import load_entries
from longpole_server.auth.passwords import verify_password
from longpole_server.cli.access import main

PASSWORD = "correct horse battery"


@pytest.fixture
def password_file(tmp_path: Path) -> str:
    file = tmp_path / "password"
    file.write_text(PASSWORD + "\n")
    return str(file)


@pytest.mark.parametrize("in_front", [True, False])
def test_users_come_and_go(
    in_front: bool, password_file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    place = [f"--data-dir={tmp_path}"]

    def run(*words: str) -> int:
        return main([*place, *words] if in_front else [*words, *place])

    assert run("add-user", "ana", "--role", "admin", "--password-file", password_file) == 0
    assert run("add-user", "bo", "--project", "math", "--password-file", password_file) == 0
    entries = load_entries(tmp_path / "access.json")
    assert verify_password(entries.users["ana"].password, PASSWORD)
    assert (entries.users["ana"].role, entries.users["bo"].projects) == ("admin", ["math"])
    assert run("remove-user", "bo") == 0
    capsys.readouterr()
    assert run("list") == 0
    listed = capsys.readouterr().out
    assert listed.startswith("1 user and 0 tokens in ")
    assert PASSWORD not in listed
    assert entries.users["ana"].password not in listed
    assert run("remove-user", "bo") == 2


def test_a_token_is_shown_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    place = f"--access-file={tmp_path / 'a.json'}"
    assert main(["create-token", "gpu-nodes", place]) == 0
    token = capsys.readouterr().out.strip()
    assert token.startswith("lp_")
    assert token not in (tmp_path / "a.json").read_text()
    assert main(["list", place]) == 0
    assert token not in capsys.readouterr().out
    assert main(["revoke-token", token.split("_")[1], place]) == 0
    assert "nobody is left" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["add-user", "ana"], "--password-file"),
        (["add-user", "an a", "--password-file", "{password}"], "is no name"),
        (["add-user", "ana", "--password-file", "{missing}"], "No such file"),
        (["add-user", "ana", "--password-file", "-"], "a password has"),
        (["revoke-token", "0123"], "there is no token '0123'"),
        (["sing"], "longpole access --help"),
    ],
    ids=range(6),
)
def test_what_makes_no_sense_is_said_in_one_line(
    words: list[str],
    said: str,
    password_file: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    def nobody_types(_: str) -> str:
        raise EOFError

    monkeypatch.setattr("getpass.getpass", nobody_types)
    monkeypatch.setattr("sys.stdin", io.StringIO("short"))
    places = {"{password}": password_file, "{missing}": str(tmp_path / "none")}
    assert main([*(places.get(word, word) for word in words), f"--data-dir={tmp_path}"]) == 2
    complaint = capsys.readouterr().err
    assert complaint.count("\n") == 1
    assert said in complaint
    assert not (tmp_path / "access.json").exists() or words[0] == "revoke-token"
