"""The directory in which a server keeps what is its own."""

from pathlib import Path

from longpole_server.errors import StoreError
from longpole_server.store.backup import is_half_restored
from longpole_server.store.changeable import check_beside

# What a server keeps beside the store, whose own directories are looked at when it is opened.
_WRITTEN = ("journal", "journal-state", "tmp", "audit.jsonl", "sessions.ended")
_READ = ("access.json", "session.key")


def make_data_dir(data_dir: Path) -> None:
    """Make the directory for its owner alone, or leave it as it is.

    Raises:
        StoreError: It cannot be made, holds a store that is not whole, or files that this user may
            not change.
    """
    try:
        # What runs send is for their owner's eyes.
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"cannot create the data directory {data_dir}: {error.strerror}"
        ) from error
    if is_half_restored(data_dir):
        raise StoreError(
            f"putting a backup back into {data_dir} was interrupted: the store is not whole",
            hint="run longpole restore again with the same --data-dir",
        )
    check_beside(data_dir / "store", _WRITTEN, _READ)
