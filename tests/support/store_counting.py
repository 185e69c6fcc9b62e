"""What a store at rest holds, table by table."""

from collections.abc import Mapping
from pathlib import Path

from longpole_server.store import StoreConfig, open_store
from longpole_server.store.backup import count_rows


def count_stored_rows(data_dir: Path) -> Mapping[str, int]:
    """Return the rows of each table of the store in a data directory that no server uses."""
    store = open_store(StoreConfig(directory=data_dir / "store"))
    client = store.new_reader_client()
    try:
        return count_rows(client, "longpole")
    finally:
        client.close()
        store.close()
