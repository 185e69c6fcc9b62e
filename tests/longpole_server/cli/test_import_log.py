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
