"""Opening the store: the lock, the database, its migrations, and the one writer."""

from collections.abc import Mapping

from longpole_server.errors import StoreError
from longpole_server.store import migrations
from longpole_server.store.alerts import AlertWriter
from longpole_server.store.client import (
    READ_SETTINGS,
    WRITE_SETTINGS,
    Client,
    Setting,
    StoreConfig,
    connect,
    create_database,
)
from longpole_server.store.lock import DirectoryLock
from longpole_server.store.writer import Writer


class Store:
    """An open store. One per process; `spawn`, never `fork`, while it is open.

    Args:
        config: Where it is.
        client: A connection that may write; closed with the store.
        lock: Of the data directory; None for an external database.
    """

    def __init__(self, config: StoreConfig, client: Client, lock: DirectoryLock | None) -> None:
        self._config = config
        self._client = client
        self._lock = lock
        self._writer = Writer(client)

    @property
    def writer(self) -> Writer:
        """The one writer."""
        return self._writer

    def new_reader_client(self) -> Client:
        """Open a connection that cannot write. Its owner closes it before the store.

        Raises:
            StoreError: The database failed.
        """
        return connect(self._config, READ_SETTINGS)

    @property
    def database(self) -> str:
        """Name of the database that holds the tables."""
        return self._config.database

    def new_limited_client(self, settings: Mapping[str, Setting]) -> Client:
        """Open a connection with settings of the caller's. Its owner closes it before the store.

        Raises:
            StoreError: The database failed, or does not accept a setting.
        """
        return connect(self._config, settings)

    def new_alert_writer(self) -> AlertWriter:
        """Open a writer of alerts. Its owner closes it before the store.

        Raises:
            StoreError: The database failed.
        """
        return AlertWriter(connect(self._config, WRITE_SETTINGS))

    def close(self) -> None:
        """Close the writer's connection and release the directory. It can be opened again."""
        try:
            self._client.close()
        finally:
            if self._lock is not None:
                self._lock.release()


def open_store(config: StoreConfig) -> Store:
    """Open a store, bring its schema up to date and return it.

    Raises:
        StoreLockedError: Another process holds the directory.
        StoreError: The database failed, or was written by a newer program.
    """
    lock = _lock_directory(config)
    try:
        create_database(config)
        client = connect(config, WRITE_SETTINGS)
        try:
            migrations.apply_pending(client)
        except BaseException:
            client.close()
            raise
        return Store(config, client, lock)
    except BaseException:
        if lock is not None:
            lock.release()
        raise


def _lock_directory(config: StoreConfig) -> DirectoryLock | None:
    if config.directory is None:
        return None
    try:
        config.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"Cannot create the data directory: {error}.") from error
    return DirectoryLock(config.directory)
