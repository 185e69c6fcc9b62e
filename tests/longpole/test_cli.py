import io
import os
import subprocess
import sys
import types
from collections.abc import Sequence
from pathlib import Path

import pytest

from longpole import __version__
from longpole.cli import COMMANDS, Command, main


@pytest.mark.parametrize("word", ["version", "--version", "-V"])
def test_version(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([word]) == 0
    assert capsys.readouterr().out == f"longpole {__version__}\n"


@pytest.mark.parametrize(("words", "status"), [(["--help"], 0), (["help"], 0), ([], 2)])
def test_help_lists_every_command(
    words: list[str], status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == status
    listed = capsys.readouterr().out
    assert all(f"  {name} " in listed for name in COMMANDS)


def test_a_missing_command_is_one_line_on_standard_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([]) == 2
    said = capsys.readouterr()
    assert said.err == "longpole: a command is missing; see longpole --help\n"
    assert "commands:" in said.out
    main(["--help"])
    assert capsys.readouterr().err == ""


def test_unknown_command_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dance"]) == 2
    assert capsys.readouterr().err == "longpole: no command 'dance'; see longpole --help\n"


def test_missing_extra_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    commands = {"up": Command("longpole_elsewhere.cli", "all", "help")}
    assert main(["up"], commands) == 2
    assert capsys.readouterr().err == (
        "longpole up: longpole_elsewhere is not installed; "
        "install it with: pip install 'longpole[all]'\n"
    )


def test_runs_the_command_with_the_other_words(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def run(words: Sequence[str]) -> int:
        seen.extend(words)
        return 7

    module = types.ModuleType("longpole_test_command")
    vars(module)["main"] = run
    monkeypatch.setitem(__import__("sys").modules, "longpole_test_command", module)
    commands = {"up": Command("longpole_test_command", "all", "help")}
    assert main(["up", "--port", "1"], commands) == 7
    assert seen == ["--port", "1"]


@pytest.mark.parametrize("words", [["--help"], ["version"]])
def test_a_reader_that_has_seen_enough_is_no_error(words: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "longpole.cli", *words],
            stdout=writing,
            stderr=subprocess.PIPE,
            check=False,
            timeout=60,
        )
    finally:
        os.close(writing)
    assert (ended.returncode, ended.stderr) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a system without a full device")
@pytest.mark.parametrize("words", [[], ["--help"], ["version"], ["agent", "--help"]])
def test_an_output_that_takes_nothing_is_one_line(words: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "longpole.cli", *words],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            timeout=60,
        )
    assert (ended.returncode, ended.stderr.decode().splitlines()[-1:]) == (
        1,
        ["longpole: the output cannot be written: No space left on device"],
    )
    assert b"Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (KeyboardInterrupt(), 130, ""),
        (OSError(28, "No space left", "/data/x"), 1, "longpole: /data/x: No space left\n"),
    ],
    ids=["interrupted", "failed"],
)
def test_what_a_command_did_not_foresee_ends_plainly(
    error: BaseException,
    status: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def run(_: Sequence[str]) -> int:
        raise error

    module = types.ModuleType("longpole_test_failing")
    vars(module)["main"] = run
    monkeypatch.setitem(__import__("sys").modules, "longpole_test_failing", module)
    # What is still to come goes nowhere; the test's own output stays.
    monkeypatch.setattr("sys.stdout", io.StringIO())
    assert main(["up"], {"up": Command("longpole_test_failing", "all", "help")}) == status
    assert capsys.readouterr().err == said
