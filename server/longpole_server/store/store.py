"""Opening the store: the lock, the database, its migrations, and the one writer."""

from dataclasses import dataclass
from pathlib import Path

from longpole_server.store.writer import Writer


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """Where the store is. Exactly one of `directory` and `url` is given.

    Attributes:
        directory: Embedded store: created when missing, one process at a time.
        url: External ClickHouse, e.g. `http://user:password@host:8123`.
        database: Created when missing.
        max_memory_bytes: Bound on what the embedded engine may use.
    """

    directory: Path | None = None
    url: str | None = None
    database: str = "longpole"
    max_memory_bytes: int = 3 << 30


class Store:
    """An open store. One per process; `spawn`, never `fork`, while it is open."""

    @property
    def writer(self) -> Writer:
        """The one writer."""
        raise NotImplementedError

    def close(self) -> None:
        """Close every client and release the directory. The store can be opened again."""
        raise NotImplementedError


def open_store(config: StoreConfig) -> Store:
    """Open a store, bring its schema up to date and return it.

    Raises:
        StoreLockedError: Another process holds the directory.
        StoreError: The database failed, or was written by a newer program.
        ConfigError: Neither or both of directory and address were given.
    """
    raise NotImplementedError
