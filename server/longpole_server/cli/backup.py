"""`longpole backup TO`: copies the embedded store while no server runs on it."""

import json
import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from longpole import __version__
from longpole_server.cli.acting import Caller, act_as_owner_of_data
from longpole_server.cli.complaints import describe
from longpole_server.config import Config, read_config_and_word
from longpole_server.data_dir import make_data_dir
from longpole_server.errors import ConfigError, ServerError, StoreError
from longpole_server.store import is_of_earlier_release
from longpole_server.store.backup import write_backup
from longpole_server.store.location import StoreConfig, locate_store

MANIFEST = "manifest.json"
FORMAT = "longpole.backup/1"
# What is beside the store and belongs to it: what was accepted, and which ids were seen.
BESIDE = ("journal", "journal-state")
# Who may sign in, and what was done; sessions end, since the key that signs them stays here.
FILES_BESIDE = ("access.json", "audit.jsonl")
# Without any progress for so long, what waits is copied as it is.
_PATIENCE_S = 30.0


def main(arguments: Sequence[str]) -> int:
    """Back up. Exit status: 0 done, 1 failed, 2 bad arguments."""
    try:
        config, target = read_config_and_word(Config, "backup", "TO", arguments, os.environ)
        caller = act_as_owner_of_data("backup", config.data_dir)
        rows = back_up(config, Path(target), caller=caller)
    except ConfigError as error:
        return _complain(error, 2)
    except ServerError as error:
        return _complain(error, 1)
    except SystemExit as end:
        return int(end.code or 0)
    total = sum(rows.values())
    print(f"{total:,} rows of {len(rows)} tables are in {target}.")
    print(f"Put back by: longpole restore {target} --data-dir NEW")
    return 0


def back_up(
    config: Config, target: Path, patience_s: float = _PATIENCE_S, caller: Caller | None = None
) -> Mapping[str, int]:
    """Write what is accepted into the store, copy it, and return its rows by table.

    What the store does not take, as on a full disk, is copied with the journal. The store stays
    what it was: tables of an earlier release, and the time that rows are kept for. The copy is the
    caller's, where this process acts for one.

    Raises:
        ConfigError: The store is no embedded one, or there is something at the target.
        StoreError: A server runs on the store, or the engine or the disk failed.
    """
    location = _find_store(config)
    if target.exists():
        raise ConfigError(f"{target} exists", hint="name a directory that does not")
    make_data_dir(config.data_dir)
    if is_of_earlier_release(location):
        # Its own program must be able to open what is put back: that is the way back of an upgrade.
        _note("the store is of an earlier release and is copied as it is, with its journal")
    elif not _write_what_waits(config, patience_s):
        _note(
            "the store does not take all that waits in the journal; it is copied with the journal,"
            " and written when a server is started on what is restored"
        )
    partial = target.with_name(target.name + ".partial")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(mode=0o700, parents=True)
        if caller is not None:
            caller.shut(partial)
        rows = write_backup(location, partial)
        # With the rights of a caller no links are followed: the owner may lack them.
        _copy_beside(config.data_dir, partial, follows_links=caller is None)
        (partial / MANIFEST).write_text(json.dumps(_describe(location, rows), indent=2))
        if caller is not None:
            caller.take(partial)
        # Its name says that it is whole: the disk has it before, whatever happens to the power.
        os.sync()
        partial.rename(target)
    except OSError as error:
        raise StoreError(f"cannot write {partial}: {_explain(error)}") from error
    return rows


def _copy_beside(data_dir: Path, target: Path, *, follows_links: bool) -> None:
    for name in BESIDE:
        if (data_dir / name).is_dir():
            shutil.copytree(data_dir / name, target / name, symlinks=not follows_links)
    for name in FILES_BESIDE:
        if (data_dir / name).is_file():
            shutil.copy2(data_dir / name, target / name, follow_symlinks=follows_links)


def _find_store(config: Config) -> StoreConfig:
    location = locate_store(config)
    if location.directory is None:
        raise ConfigError(
            "only the embedded store is backed up here", hint="use ClickHouse's own BACKUP"
        )
    if not location.directory.is_dir():
        raise ConfigError(f"there is no store in {config.data_dir}", hint="name it by --data-dir")
    return location


def _explain(error: OSError) -> str:
    """Return the reason in words; of many files that could not be copied the first one's."""
    if isinstance(error, shutil.Error) and error.args and error.args[0]:
        return str(error.args[0][0][2])
    return error.strerror or str(error)


def _write_what_waits(config: Config, patience_s: float) -> bool:
    """Write what is acknowledged and not stored, after a kill; return whether all of it is."""
    # Slow to load, and nothing that a restore, which knows this module, has to wait for.
    from longpole_server.app import open_application

    # This command is not told how long the server keeps its rows, and lets none go.
    with open_application(config, is_served=False) as application:
        application.closer.start()
        application.pipeline.start()
        waiting = sys.maxsize
        while not application.drain(patience_s):
            if application.pipeline.stats.num_pending >= waiting:
                return False
            waiting = application.pipeline.stats.num_pending
        return True


def _describe(location: StoreConfig, rows: Mapping[str, int]) -> Mapping[str, Any]:
    return {
        "format": FORMAT,
        "longpole": __version__,
        "database": location.database,
        "created_ns": time.time_ns(),
        "rows": dict(rows),
    }


def _note(text: str) -> None:
    print(f"longpole backup: {text}", file=sys.stderr)


def _complain(error: ServerError, status: int) -> int:
    print(f"longpole backup: {describe(error)}", file=sys.stderr)
    return status
