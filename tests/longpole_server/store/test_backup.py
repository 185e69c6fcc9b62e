"""A copy of the embedded store is whole, or it is none."""

from collections.abc import Generator
from pathlib import Path

import pytest

from longpole_server.errors import StoreError
from longpole_server.store import StoreConfig
from longpole_server.store.backup import write_backup
from support.fault_disk import fill, small_disk
from support.store_opening import opened_store


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Generator[StoreConfig]:
    directory = tmp_path_factory.mktemp("store")
    with opened_store(directory):
        pass
    yield StoreConfig(directory=directory)


def test_every_file_of_a_copy_is_as_long_as_the_engine_says(config: StoreConfig, tmp_path: Path):
    assert write_backup(config, tmp_path)["schema_migrations"] > 0
    assert (tmp_path / "database").is_dir()


@pytest.mark.parametrize("num_bytes", [64 << 10, 256 << 10])
def test_a_copy_on_a_disk_that_got_full_is_none(
    config: StoreConfig, tmp_path: Path, num_bytes: int
):
    with small_disk(tmp_path / "disk", num_bytes) as disk:
        filler = fill(disk)
        with filler.open("rb+") as opened:
            opened.truncate(num_bytes // 2)
        (disk / "copy").mkdir()
        with pytest.raises(StoreError, match=r"not whole|No space left"):
            write_backup(config, disk / "copy")
