"""A growing file is read once and whole, across truncation and rotation."""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from longpole_server.importers.lines import read_lines
from longpole_server.importers.logged import LogSummary
from longpole_server.importers.tailing import Tail


def read_all(path: Path, happenings: Sequence[Callable[[], object]]) -> list[bytes]:
    """Follow a file; each time that nothing is new, the next thing happens to it."""
    waiting = iter(happenings)

    def wait() -> bool:
        happening = next(waiting, None)
        if happening is None:
            return False
        happening()
        return True

    return list(read_lines(Tail(path, wait).read_blocks(), LogSummary()))


def append(path: Path, body: bytes) -> Callable[[], None]:
    def happen() -> None:
        with path.open("ab") as stream:
            stream.write(body)

    return happen


def test_what_is_added_is_read(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"a\n")
    found = read_all(path, [append(path, b"b\nc"), append(path, b"d\n")])
    assert found == [b"a\n", b"b\n", b"cd\n"]


def test_a_file_that_does_not_exist_yet_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "log"
    assert read_all(path, [lambda: None, append(path, b"a\n")]) == [b"a\n"]


def test_a_file_that_was_emptied_is_read_from_its_start(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"first one\nsecond\n")
    found = read_all(path, [lambda: path.write_bytes(b"third\n")])
    assert [line for line in found if line.strip()] == [b"first one\n", b"second\n", b"third\n"]


def test_a_file_that_was_emptied_and_has_grown_beyond_is_told_by_its_beginning(
    tmp_path: Path,
) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"first\n")
    found = read_all(path, [lambda: path.write_bytes(b"other and much longer\n")])
    assert [line for line in found if line.strip()] == [b"first\n", b"other and much longer\n"]


def test_a_file_that_was_renamed_is_read_to_its_end_first(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"a\n")

    def rotate() -> None:
        append(path, b"late\n")()
        path.rename(tmp_path / "log.1")
        path.write_bytes(b"b\n")

    found = read_all(path, [rotate])
    assert [line for line in found if line.strip()] == [b"a\n", b"late\n", b"b\n"]


def test_a_line_cut_by_a_restart_is_not_glued_to_the_next(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"step:3 - timing_s/st")
    found = read_all(path, [lambda: path.write_bytes(b"step:1 - a\n")])
    assert [line.strip() for line in found if line.strip()] == [
        b"step:3 - timing_s/st",
        b"step:1 - a",
    ]


@given(parts=st.lists(st.binary(max_size=40).filter(lambda part: b"\r" not in part), max_size=8))
def test_however_it_is_written_the_same_is_read(parts: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        path.touch()
        found = read_all(path, [append(path, part) for part in parts])
    assert b"".join(found) == b"".join(parts)
