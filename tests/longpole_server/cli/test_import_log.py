"""`longpole import`: what it refuses before and without a server, in one line."""

from pathlib import Path

import pytest

from longpole_server.cli import diagnose, import_log


def test_an_empty_file_is_refused_before_it_is_sent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "train.log"
    file.touch()
    assert import_log.main([str(file), "--server", "http://127.0.0.1:1"]) == 2
    assert capsys.readouterr().err == f"longpole import: {file} is empty.\n"


def test_wrong_arguments_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    for command in (import_log.main, diagnose.main):
        with pytest.raises(SystemExit) as end:
            command([])
        assert end.value.code == 2
        assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_bad_server_is_named_as_it_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "train.log")
    monkeypatch.setenv("LONGPOLE_SERVER", "host:1")
    for words, origin in (([file], "LONGPOLE_SERVER"), ([file, "--server", "x"], "--server")):
        with pytest.raises(SystemExit) as end:
            import_log.main(words)
        assert end.value.code == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert f"{origin}: " in line
        assert "is not an address such as http://127.0.0.1:8470" in line


def test_several_files_of_a_named_run_are_one_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LONGPOLE_RUN", "team/run")
    # None of them is sent when one is missing: one complaint, not two.
    assert import_log.main([str(tmp_path / "a.log"), str(tmp_path / "b.log")]) == 2
    assert capsys.readouterr().err == f"longpole import: {tmp_path / 'a.log'}: no such file.\n"
