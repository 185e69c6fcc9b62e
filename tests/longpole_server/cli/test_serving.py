import json
from pathlib import Path

import pytest

from longpole_server.cli.serving import _write_ports
from longpole_server.errors import ConfigError


def test_ports_are_written_whole(tmp_path: Path):
    file = tmp_path / "ports.json"
    _write_ports(file, {"http": 1})
    assert json.loads(file.read_text()) == {"http": 1}
    assert list(tmp_path.iterdir()) == [file]


def test_a_ports_file_that_cannot_be_written_is_named(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"cannot write .*: No such file or directory"):
        _write_ports(tmp_path / "nowhere" / "ports.json", {"http": 1})
