import tempfile
from pathlib import Path

from longpole_server.store.scratch import own_scratch


def test_what_a_killed_process_left_is_gone_and_new_files_go_there(tmp_path: Path) -> None:
    directory = tmp_path / "tmp"
    directory.mkdir()
    (directory / "left.raw").write_bytes(b"x")
    before = tempfile.gettempdir()
    with own_scratch(directory):
        assert list(directory.iterdir()) == []
        with tempfile.NamedTemporaryFile(suffix=".raw") as file:
            assert Path(file.name).parent == directory
    assert tempfile.gettempdir() == before
    assert not directory.exists()
