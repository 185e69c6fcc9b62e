"""The store: every fact and every derived step, in ClickHouse, embedded or external."""

from longpole_server.store.client import Client
from longpole_server.store.location import StoreConfig
from longpole_server.store.store import (
    Missing,
    Store,
    find_missing,
    is_of_earlier_release,
    open_store,
    open_store_to_read,
)
from longpole_server.store.writer import Writer

__all__ = [
    "Client",
    "Missing",
    "Store",
    "StoreConfig",
    "Writer",
    "find_missing",
    "is_of_earlier_release",
    "open_store",
    "open_store_to_read",
]
