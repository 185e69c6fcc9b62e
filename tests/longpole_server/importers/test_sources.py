"""A log comes from a file, a pipe or bytes; what cannot be opened is refused with its name."""

import os
import threading
from pathlib import Path

import pytest

from longpole_server.errors import UnreadableLogError
from longpole_server.importers import LogSource


def test_a_missing_file_and_a_directory_are_refused_with_their_name(tmp_path: Path) -> None:
    with pytest.raises(UnreadableLogError, match=r"absent\.log: no such file"):
        LogSource.of_file(tmp_path / "absent.log")
    with pytest.raises(UnreadableLogError, match="is a directory"):
        LogSource.of_file(tmp_path)
    with pytest.raises(UnreadableLogError, match="File name too long"):
        LogSource.of_file(tmp_path / ("x" * 300))


def test_a_loop_of_links_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "loop.log"
    path.symlink_to(path)
    with pytest.raises(UnreadableLogError, match="symbolic links"):
        LogSource.of_file(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "secret.log"
    path.touch(mode=0)
    with pytest.raises(UnreadableLogError, match="Permission denied"):
        LogSource.of_file(path)


def test_a_named_pipe_is_opened_once_so_that_its_writer_is_not_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(b"step:1",))
    writer.start()
    try:
        with LogSource.of_file(path).open() as stream:
            assert stream.read() == b"step:1"
    finally:
        writer.join(60)


def test_a_name_that_is_no_text_is_made_printable(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9.log")
    path.touch()
    assert LogSource.of_file(path).name == "caf?.log"
