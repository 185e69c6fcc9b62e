"""An embedded store with its reader, opened once for a test module: opening takes a second."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from longpole_server.read import Reader
from longpole_server.read.pool import ClientPool
from longpole_server.store import Client, Store, StoreConfig, Writer, open_store


@dataclass(frozen=True)
class OpenedStore:
    """Everything a test needs of one store. `client` reads; `pool` is the reader's."""

    store: Store
    client: Client
    pool: ClientPool
    reader: Reader

    @property
    def writer(self) -> Writer:
        return self.store.writer

    def count(self, table: str, condition: str = "1", final: bool = True) -> int:
        """Rows of a table, replaced ones left out unless asked for."""
        final_clause = " FINAL" if final else ""
        answer = self.client.query(f"SELECT count() FROM {table}{final_clause} WHERE {condition}")
        return int(answer.column(0)[0].as_py())


@contextmanager
def opened_store(directory: Path) -> Generator[OpenedStore]:
    store = open_store(StoreConfig(directory=directory))
    client = store.new_reader_client()
    pool = ClientPool(store.new_reader_client, 4)
    try:
        yield OpenedStore(store, client, pool, Reader(pool))
    finally:
        pool.close()
        client.close()
        store.close()
