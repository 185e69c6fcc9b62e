"""The store: every fact and every derived step, in ClickHouse, embedded or external."""

from longpole_server.store.store import Store, StoreConfig, open_store
from longpole_server.store.writer import Writer

__all__ = ["Store", "StoreConfig", "Writer", "open_store"]
