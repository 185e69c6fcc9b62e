"""Opening the store: the lock, the database, its migrations, and the one writer."""

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass

from longpole_server.errors import StoreError
from longpole_server.store import migrations
from longpole_server.store.alerts import AlertWriter
from longpole_server.store.changeable import check_changeable, check_openable
from longpole_server.store.client import (
    ANSWER_TIMEOUT_S,
    MIGRATION_TIMEOUT_S,
    READ_SETTINGS,
    WRITE_SETTINGS,
    Client,
    Connector,
    Setting,
    find_error_number,
)
from longpole_server.store.cluster import (
    check_macros,
    choose_dialect,
    choose_settings,
    distribute,
    render_database,
)
from longpole_server.store.known_samples import KnownSamples
from longpole_server.store.location import StoreConfig
from longpole_server.store.lock import DirectoryLock
from longpole_server.store.writer import Writer

_log = logging.getLogger(__name__)
_RETRY_S = 1.0
# In errors that ClickHouse itself reports, and in those of certificates.
_FINAL = ("DB::Exception", "CERTIFICATE_VERIFY_FAILED")
# Of ClickHouse's errors those that stay until somebody changes something: users, passwords, rights.
_REFUSALS = frozenset({192, 193, 194, 195, 291, 497, 516})
# Seconds that one look at a store that is waited for gives each of its questions.
_LOOK_TIMEOUT_S = 5
_NO_TABLES = ("UNKNOWN_DATABASE", "UNKNOWN_TABLE")


class Store:
    """An open store. One per process; `spawn`, never `fork`, while it is open.

    Args:
        config: Where it is.
        connector: Opens connections to it.
        client: A connection that may write; closed with the store.
        lock: Of the data directory; None for an external database.
    """

    def __init__(
        self,
        config: StoreConfig,
        connector: Connector,
        client: Client,
        lock: DirectoryLock | None,
    ) -> None:
        self._config = config
        self._connector = connector
        self._client = client
        self._lock = lock
        self._writer = Writer(client, KnownSamples(client))

    @property
    def writer(self) -> Writer:
        """The one writer."""
        return self._writer

    @property
    def config(self) -> StoreConfig:
        """Where it is."""
        return self._config

    @property
    def database(self) -> str:
        """Name of the database that queries read."""
        return self._config.database

    def new_reader_client(self) -> Client:
        """Open a connection that cannot write. Its owner closes it before the store.

        Raises:
            StoreError: The database failed.
        """
        return self._connector.connect(READ_SETTINGS)

    def new_limited_client(self, settings: Mapping[str, Setting]) -> Client:
        """Open a connection with settings of the caller's. Its owner closes it before the store.

        Raises:
            StoreError: The database failed, or does not accept a setting.
        """
        return self._connector.connect(settings)

    def new_schema_client(self) -> Client:
        """Open a connection that may change the tables that hold the rows; its owner closes it.

        Raises:
            StoreError: The database failed.
        """
        return self._connector.connect(WRITE_SETTINGS, self._config.tables_database)

    def new_alert_writer(self) -> AlertWriter:
        """Open a writer of alerts. Its owner closes it before the store.

        Raises:
            StoreError: The database failed.
        """
        return AlertWriter(self._connector.connect(WRITE_SETTINGS))

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
        StoreError: The database failed, or was written by a newer program, or parts of an embedded
            one cannot be changed by this user.
    """
    lock = _lock_directory(config)
    try:
        if config.directory is not None:
            check_changeable(config.directory)
        connector = Connector(config, choose_settings(config))
        _prepare_schema(config, connector)
        return Store(config, connector, connector.connect(WRITE_SETTINGS), lock)
    except BaseException:
        if lock is not None:
            lock.release()
        raise


def open_store_to_read(config: StoreConfig) -> Store:
    """Open an external store that another server writes: nothing of it is changed.

    Raises:
        StoreError: The database failed, lacks tables or has older ones (`find_missing` says when it
            does no longer), or was written by a newer program.
    """
    connector = Connector(config, choose_settings(config))
    missing = _explain_schema(config, connector)
    if missing is not None:
        raise StoreError(
            missing, hint="the server that takes data makes them when it starts: is it up?"
        )
    return Store(config, connector, connector.connect(READ_SETTINGS), None)


@dataclass(frozen=True, slots=True)
class Missing:
    """What an external store lacks before this program can read it.

    Attributes:
        what: For anybody.
        detail: For operators: what the database's driver says, with its place; may be empty.
    """

    what: str
    detail: str = ""


def find_missing(config: StoreConfig, timeout_s: int = _LOOK_TIMEOUT_S) -> Missing | None:
    """Look once whether an external store can be read; return None when it can.

    Args:
        config: Where it is.
        timeout_s: How long each answer is waited for; who takes a connection may never answer.

    Raises:
        StoreError: What time does not mend: the database does not let this server in, or a newer
            program wrote it.
    """
    try:
        what = _explain_schema(config, Connector(config, choose_settings(config)), timeout_s)
    except StoreError as error:
        # What the driver did not say was found in the tables.
        if error.__cause__ is None or _is_refusal(error):
            raise
        if "DB::Exception" in error.message:
            return Missing("ClickHouse answers with an error", error.message)
        return Missing("ClickHouse does not answer", error.message)
    return None if what is None else Missing(what)


def _is_refusal(error: StoreError) -> bool:
    """Tell whether the database does not know this server, or its certificate is not trusted."""
    is_locked_out = find_error_number(error.message) in _REFUSALS
    return is_locked_out or "CERTIFICATE_VERIFY_FAILED" in error.message


def is_of_earlier_release(config: StoreConfig) -> bool:
    """Tell whether an embedded store lacks migrations of this program; nothing of it is changed.

    Raises:
        StoreLockedError: A process has the store open.
        StoreError: The engine failed, or the store was written by a newer program.
    """
    lock = _lock_directory(config)
    try:
        client = _connect_patiently(Connector(config, choose_settings(config)))
        try:
            client.use(config.tables_database)
            return bool(migrations.find_pending(client))
        except StoreError as error:
            if any(word in error.message for word in _NO_TABLES):
                return False
            raise
        finally:
            client.close()
    finally:
        if lock is not None:
            lock.release()


def _explain_schema(
    config: StoreConfig, connector: Connector, timeout_s: int = ANSWER_TIMEOUT_S
) -> str | None:
    """Return what the tables lack, None when nothing."""
    client = connector.connect_bare(READ_SETTINGS, timeout_s)
    try:
        client.use(config.tables_database)
        pending = migrations.find_pending(client)
    except StoreError as error:
        if any(word in error.message for word in _NO_TABLES):
            return "there are no tables yet"
        raise
    finally:
        client.close()
    if not pending:
        return None
    newest = pending[-1]
    return f"its tables lack migration {newest.number:04}_{newest.name}"


def _prepare_schema(config: StoreConfig, connector: Connector) -> None:
    dialect = choose_dialect(config)
    client = _connect_first(config, connector)
    try:
        if dialect.replicated:
            check_macros(client)
        for database in {config.tables_database: None, config.database: None}:
            client.command(render_database(database, dialect))
        client.use(config.tables_database)
        applied = migrations.apply_pending(client, dialect=dialect)
        if config.cluster is not None:
            distribute(client, config, dialect, renew=bool(applied))
    finally:
        client.close()


def _connect_first(config: StoreConfig, connector: Connector) -> Client:
    """Connect; an external database that is not there yet is waited for."""
    if config.url is None:
        return _connect_patiently(connector)
    deadline_s = time.monotonic() + config.start_timeout_s
    while (client := _try_to_connect(connector)) is None:
        if time.monotonic() + _RETRY_S > deadline_s:
            return _connect_patiently(connector)
        time.sleep(_RETRY_S)
    return client


def _connect_patiently(connector: Connector) -> Client:
    return connector.connect_bare(WRITE_SETTINGS, MIGRATION_TIMEOUT_S)


def _try_to_connect(connector: Connector) -> Client | None:
    """Return None when nobody answers; an answer that is a refusal is final."""
    try:
        return _connect_patiently(connector)
    except StoreError as error:
        if any(word in error.message for word in _FINAL):
            raise
        _log.warning("ClickHouse is waited for: %s", error.message)
        return None


def _lock_directory(config: StoreConfig) -> DirectoryLock | None:
    if config.directory is None:
        return None
    try:
        config.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"Cannot create the data directory: {error}.") from error
    check_openable(config.directory)
    return DirectoryLock(config.directory)
