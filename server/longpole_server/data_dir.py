"""The directory in which a server keeps what is its own."""

from pathlib import Path

from longpole_server.errors import StoreError
from longpole_server.store.backup import is_half_restored


def make_data_dir(data_dir: Path) -> None:
    """Make the directory for its owner alone, or leave it as it is.

    Raises:
        StoreError: It cannot be made, or holds a store that is not whole.
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
