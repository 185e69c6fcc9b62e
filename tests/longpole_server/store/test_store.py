from pathlib import Path

import pytest

from longpole_server.errors import StoreError, StoreLockedError
from longpole_server.store import StoreConfig, open_store
from support.store_opening import opened_store
from support.store_records import make_batch


def test_what_was_written_is_there_after_reopening(tmp_path: Path) -> None:
    with opened_store(tmp_path / "made" / "on the way") as opened:
        opened.writer.write(make_batch(0), "batch")
    with opened_store(tmp_path / "made" / "on the way") as opened:
        assert opened.count("trajectories") == 8
        opened.writer.write(make_batch(0), "batch")
        assert opened.count("gpu_samples", final=False) == 8


def test_an_open_store_is_locked(tmp_path: Path) -> None:
    config = StoreConfig(directory=tmp_path)
    store = open_store(config)
    with pytest.raises(StoreLockedError):
        open_store(config)
    store.close()
    open_store(config).close()


def test_a_failed_opening_releases_the_lock(tmp_path: Path) -> None:
    blocker = tmp_path / "chdb"
    blocker.write_text("not a directory")
    with pytest.raises(StoreError, match="opening failed"):
        open_store(StoreConfig(directory=tmp_path))
    blocker.unlink()
    open_store(StoreConfig(directory=tmp_path)).close()


def test_a_directory_that_cannot_be_made_is_a_store_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="Cannot create"):
        open_store(StoreConfig(directory=tmp_path / "file" / "below"))
