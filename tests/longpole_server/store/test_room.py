"""Disks that fill up while the engine writes, which it takes for done."""
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from longpole_server.errors import StoreError
from longpole_server.store.client import WRITE_SETTINGS, Client
from longpole_server.store.room import Room
from support.store_opening import OpenedStore, opened_store

DISK_BYTES = 64 << 20
# An eighth of it is kept free.
RESERVE_BYTES = 8 << 20


class Disk:
    """A disk whose free bytes tests set: in turn, the last of them stays."""

    def __init__(self) -> None:
        self.free: list[int] = [DISK_BYTES]

    def measure(self, _: Path) -> tuple[int, int]:
        return (self.free.pop(0) if len(self.free) > 1 else self.free[0]), DISK_BYTES


@contextmanager
def opened(tmp_path: Path) -> Generator[tuple[OpenedStore, Client, Disk]]:
    disk = Disk()
    with opened_store(tmp_path) as store:
        client = store.store.new_limited_client(WRITE_SETTINGS)
        client.command(
            "CREATE TABLE kept (n UInt32) ENGINE = MergeTree ORDER BY n"
            " SETTINGS non_replicated_deduplication_window = 100"
        )
        yield store, client, disk
        client.close()


def insert(client: Client, room: Room, number: int) -> None:
    with room.kept(client):
        client.insert("kept", pa.table({"n": pa.array([number], pa.uint32())}), f"token-{number}")


def hollow_out(client: Client, name: str) -> None:
    """Leave of a part what the engine leaves where there was no room."""
    (path,) = _column(client, f"SELECT path FROM system.parts WHERE name = '{name}' AND active")
    for file in Path(str(path)).iterdir():
        file.write_bytes(b"")


def read(client: Client) -> list[int]:
    return sorted(_column(client, "SELECT n FROM kept"))


def _column(client: Client, sql: str) -> list[Any]:
    return client.query(sql).column(0).to_pylist()


def test_nothing_is_written_to_a_disk_that_is_nearly_full(tmp_path: Path):
    with opened(tmp_path) as (_, client, disk):
        room = Room(tmp_path, disk.measure)
        insert(client, room, 1)
        disk.free = [RESERVE_BYTES - 1]
        with pytest.raises(StoreError, match="7 MiB are free, and the store keeps 8 MiB"):
            insert(client, room, 2)
        assert read(client) == [1]
        disk.free = [RESERVE_BYTES]
        insert(client, room, 2)
        assert read(client) == [1, 2]


def test_an_insert_that_left_empty_files_is_made_again(tmp_path: Path):
    with opened(tmp_path) as (_, client, disk):
        room = Room(tmp_path, disk.measure)
        insert(client, room, 1)
        disk.free = [DISK_BYTES, 0]
        with pytest.raises(StoreError, match="filled up"), room.kept(client):
            rows = pa.table({"n": pa.array([2], pa.uint32())})
            client.insert("kept", rows, "token-2")
            hollow_out(client, "all_2_2_0")
        with pytest.raises(StoreError, match="nearly full"):
            insert(client, room, 2)
        disk.free = [DISK_BYTES]
        insert(client, room, 2)
        insert(client, room, 2)
        assert read(client) == [1, 2]


def test_an_insert_that_failed_amid_a_full_disk_is_made_again(tmp_path: Path):
    with opened(tmp_path) as (_, client, disk):
        room = Room(tmp_path, disk.measure)
        with pytest.raises(StoreError, match="a view behind it"), room.kept(client):
            client.insert("kept", pa.table({"n": pa.array([1], pa.uint32())}), "token-1")
            hollow_out(client, "all_1_1_0")
            raise StoreError("a view behind it found no room")
        insert(client, room, 1)
        assert read(client) == [1]


def test_a_merge_that_left_empty_files_loses_nothing(tmp_path: Path):
    with opened(tmp_path) as (_, client, disk):
        room = Room(tmp_path, disk.measure)
        for number in (1, 2, 3):
            insert(client, room, number)
        client.command("OPTIMIZE TABLE kept FINAL")
        hollow_out(client, "all_1_3_1")
        disk.free = [0]
        with pytest.raises(StoreError, match="nearly full"):
            insert(client, room, 4)
        assert read(client) == [1, 2, 3]
        disk.free = [DISK_BYTES]
        insert(client, room, 4)
        insert(client, room, 3)
        assert read(client) == [1, 2, 3, 4]


def test_what_is_whole_stays(tmp_path: Path):
    with opened(tmp_path) as (_, client, disk):
        room = Room(tmp_path, disk.measure)
        insert(client, room, 1)
        disk.free = [0]
        with pytest.raises(StoreError):
            insert(client, room, 2)
        disk.free = [DISK_BYTES]
        insert(client, room, 2)
        client.command("OPTIMIZE TABLE kept FINAL")
        assert read(client) == [1, 2]
        assert _column(client, "SELECT count() FROM system.detached_parts") == [0]
