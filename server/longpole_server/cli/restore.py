"""`longpole restore FROM`: puts a backup into a data directory that holds no store yet."""

import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from longpole_server.cli.acting import act_as_owner_of_data
from longpole_server.cli.backup import BESIDE, FILES_BESIDE, FORMAT, MANIFEST
from longpole_server.cli.complaints import describe
from longpole_server.config import Config, read_config_and_word
from longpole_server.errors import ConfigError, ServerError, StoreError
from longpole_server.store.backup import is_half_restored, read_backup, restoring
from longpole_server.store.location import locate_store
from longpole_server.store.lock import DirectoryLock


def main(arguments: Sequence[str]) -> int:
    """Restore. Exit status: 0 done, 1 failed, 2 bad arguments."""
    try:
        config, source = read_config_and_word(Config, "restore", "FROM", arguments, os.environ)
        act_as_owner_of_data("restore", config.data_dir)
        rows = restore(config, Path(source))
    except ConfigError as error:
        return _complain(error, 2)
    except ServerError as error:
        return _complain(error, 1)
    except SystemExit as end:
        return int(end.code or 0)
    print(f"{sum(rows.values()):,} rows of {len(rows)} tables are in {config.data_dir}.")
    return 0


def restore(config: Config, source: Path) -> Mapping[str, int]:
    """Put a backup back and return its rows by table, each compared with what was backed up.

    Raises:
        ConfigError: There is no backup, or there is a store already.
        StoreError: The engine or the disk failed, or rows are missing.
    """
    manifest = _read_manifest(source)
    location = locate_store(config)
    if location.directory is None:
        raise ConfigError(
            "only the embedded store is restored here", hint="use ClickHouse's own RESTORE"
        )
    brought = [name for name in FILES_BESIDE if (source / name).is_file()]
    paths = [location.directory, *(config.data_dir / name for name in (*BESIDE, *brought))]
    if is_half_restored(config.data_dir):
        if location.directory.is_dir():
            # Another one may be at it just now.
            DirectoryLock(location.directory).release()
        _remove(paths)
    for path in paths:
        if path.exists():
            raise ConfigError(
                f"{path} exists", hint="name a --data-dir that holds nothing of Longpole's"
            )
    with restoring(config.data_dir):
        rows = read_backup(location, source)
        if rows != manifest["rows"]:
            raise StoreError(
                f"the backup in {source} is not whole: {_compare(manifest['rows'], rows)}"
            )
        _copy_beside(config, source)
    return rows


def _remove(paths: Sequence[Path]) -> None:
    """Take away what an earlier restore brought before it was interrupted."""
    try:
        for path in paths:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(f"cannot remove {error.filename}: {error.strerror}") from error


def _copy_beside(config: Config, source: Path) -> None:
    try:
        for name in BESIDE:
            if (source / name).is_dir():
                shutil.copytree(source / name, config.data_dir / name)
        for name in FILES_BESIDE:
            if (source / name).is_file():
                shutil.copy2(source / name, config.data_dir / name)
    except OSError as error:
        raise StoreError(f"cannot copy journal and users: {error.strerror}") from error


def _read_manifest(source: Path) -> dict[str, Any]:
    try:
        document: object = json.loads((source / MANIFEST).read_text())
    except OSError as error:
        raise ConfigError(f"{source} is no backup: {MANIFEST}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{source} is no backup: {MANIFEST} is no JSON") from error
    manifest = cast("dict[str, Any]", document) if isinstance(document, dict) else {}
    if manifest.get("format") != FORMAT or not isinstance(manifest.get("rows"), dict):
        raise ConfigError(f"{source} is no backup of this kind: {FORMAT} is expected")
    return manifest


def _compare(expected: Mapping[str, int], found: Mapping[str, int]) -> str:
    differing = [
        f"{table} has {found.get(table, 0):,} rows of {expected.get(table, 0):,}"
        for table in sorted(expected.keys() | found.keys())
        if expected.get(table) != found.get(table)
    ]
    return ", ".join(differing)


def _complain(error: ServerError, status: int) -> int:
    print(f"longpole restore: {describe(error)}", file=sys.stderr)
    return status
