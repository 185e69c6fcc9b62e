"""A copy of the embedded store that can be put back: the engine's own BACKUP and RESTORE."""
# pyarrow carries no complete types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import os
import re
import xml.etree.ElementTree as ET
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from longpole.spool.durable import sync_directory
from longpole_server.errors import StoreError
from longpole_server.store.client import WRITE_SETTINGS, Client, Connector
from longpole_server.store.location import StoreConfig
from longpole_server.store.lock import DirectoryLock

_CONTENT = "database"
# The engine's list of the files of a copy, with their sizes.
_LIST = ".backup"
# Stands in a data directory while a backup is put back into it.
_UNFINISHED = "restore-unfinished"
_NOT_EMBEDDED = "Only the embedded store is backed up here; use ClickHouse's own BACKUP."
_REPLACES = re.compile(r"(Replacing|Aggregating)MergeTree")


@contextmanager
def restoring(data_dir: Path) -> Generator[None]:
    """Mark a data directory while a backup is put back into it.

    When that fails, or the process is killed, the mark stays: half a store is none.

    Raises:
        StoreError: The mark cannot be made or taken away.
    """
    mark = data_dir / _UNFINISHED
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        mark.touch(mode=0o600)
        sync_directory(data_dir)
    except OSError as error:
        raise StoreError(f"cannot write {mark}: {error.strerror}") from error
    yield
    os.sync()
    try:
        mark.unlink()
    except OSError as error:
        raise StoreError(f"cannot remove {mark}: {error.strerror}") from error


def is_half_restored(data_dir: Path) -> bool:
    """Tell whether a backup was being put back there and that never ended."""
    return (data_dir / _UNFINISHED).exists()


def write_backup(config: StoreConfig, directory: Path) -> Mapping[str, int]:
    """Copy a store that no process has open, and return its rows by table.

    Args:
        config: Of an embedded store.
        directory: Exists; gets a folder for the copy.

    Raises:
        StoreLockedError: A process has the store open.
        StoreError: The engine or the disk failed.
    """
    rows = _work(config, directory, "BACKUP", "TO")
    _check_whole(directory / _CONTENT)
    return rows


def _check_whole(copy: Path) -> None:
    """Hold every file of a copy against the engine's list: a full disk is no failure to the engine.

    Raises:
        StoreError: Files are missing or short.
    """
    try:
        # The engine of this process wrote it just now.
        listed = ET.parse(copy / _LIST).getroot().findall("contents/file")  # noqa: S314 - see above
        short = [name for name, size in map(_read_entry, listed) if size != _measure(copy / name)]
    except (OSError, ET.ParseError, ValueError) as error:
        raise StoreError(f"the copy in {copy} is not whole; is its disk full?") from error
    if short or not listed:
        raise StoreError(
            f"the copy in {copy} is not whole, {len(short):,} of {len(listed):,} files are short;"
            " is its disk full?"
        )


def _read_entry(file: ET.Element) -> tuple[str, int]:
    """Return where the content of a listed file lies, and its size; equal ones lie there once."""
    return file.findtext("data_file") or file.findtext("name", ""), int(file.findtext("size", ""))


def _measure(path: Path) -> int:
    """Return the size of a file; one without content is not written."""
    return path.stat().st_size if path.is_file() else 0


def read_backup(config: StoreConfig, directory: Path) -> Mapping[str, int]:
    """Put a copy back where no store is yet, and return its rows by table.

    Args:
        config: Of an embedded store that does not exist yet.
        directory: That `write_backup` filled.

    Raises:
        StoreLockedError: A process has the store open.
        StoreError: There is a store already, or the engine or the disk failed.
    """
    return _work(config, directory, "RESTORE", "FROM")


def count_rows(client: Client, database: str) -> Mapping[str, int]:
    """Return the rows of every table, each version of a row counted once.

    Raises:
        StoreError: The database failed.
    """
    engines = client.query(
        "SELECT name, engine FROM system.tables"
        " WHERE database = {database:String} AND engine LIKE '%MergeTree' ORDER BY name",
        {"database": database},
    )
    counts: dict[str, int] = {}
    for row in engines.to_pylist():
        final = " FINAL" if _REPLACES.search(str(row["engine"])) else ""
        # The names are those that the database itself listed.
        answer = client.query(f"SELECT count() FROM {database}.{row['name']}{final}")  # noqa: S608
        counts[str(row["name"])] = int(answer.column(0)[0].as_py())
    return counts


def _work(config: StoreConfig, directory: Path, verb: str, preposition: str) -> Mapping[str, int]:
    path = directory.resolve()
    if config.directory is None or any(char in str(path) for char in "'\\"):
        raise StoreError(f"A backup cannot be in {path}." if config.directory else _NOT_EMBEDDED)
    _prepare(config.directory)
    lock = DirectoryLock(config.directory)
    try:
        # The engine writes and reads copies nowhere else.
        options = {**config.engine_options, "backups.allowed_path": str(path)}
        client = Connector(replace(config, engine_options=options)).connect_bare(WRITE_SETTINGS)
        try:
            # What is counted is what was copied: nothing grows too old in between.
            client.command("SYSTEM STOP MERGES")
            client.command(
                f"{verb} DATABASE {config.database} {preposition} File('{path / _CONTENT}')"
            )
            return count_rows(client, config.database)
        finally:
            client.close()
    finally:
        lock.release()


def _prepare(directory: Path) -> None:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"Cannot create the data directory: {error}.") from error
