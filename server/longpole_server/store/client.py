"""Talking to ClickHouse, embedded or external: the one place that names its driver.

Foreign errors become `StoreError` here and nowhere else.
"""
# The driver and pyarrow carry no complete types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import os
import re
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager, nullcontext
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import clickhouse_connect
import pyarrow as pa
from clickhouse_connect.driver import httputil
from clickhouse_connect.driver.binding import DT64Param
from clickhouse_connect.driver.exceptions import ClickHouseError
from urllib3 import PoolManager
from urllib3.exceptions import HTTPError

from longpole_server.errors import StoreError, StoreLimitError
from longpole_server.store.location import StoreConfig
from longpole_server.store.room import Room

if TYPE_CHECKING:
    from clickhouse_connect.driver import Client as Driver

# Value of one of the database's settings.
Setting = str | int | float

# How the embedded engine shares a machine with everything else: its own defaults would take
# nine tenths of the memory and more than a hundred threads.
EMBEDDED_OPTIONS: Mapping[str, int] = {
    "mark_cache_size": 128 << 20,
    "index_mark_cache_size": 64 << 20,
    "uncompressed_cache_size": 0,
    "background_pool_size": 2,
    "background_common_pool_size": 2,
    "background_schedule_pool_size": 2,
    "background_move_pool_size": 1,
    "background_fetches_pool_size": 1,
}

# Of every connection: hours begin where UTC's do, in whatever zone this machine or the database is.
_ZONE: Mapping[str, Setting] = {"session_timezone": "UTC"}

# An insert is one block with one token, so that a retry is recognised, also behind the
# materialised views. Data with wild times may touch any number of partitions.
WRITE_SETTINGS: Mapping[str, Setting] = {
    "async_insert": 0,
    "deduplicate_blocks_in_dependent_materialized_views": 1,
    "max_insert_threads": 1,
    "max_partitions_per_insert_block": 0,
    # Few rows of a block replace each other: looking for them costs more than the insert.
    "optimize_on_insert": 0,
    "output_format_arrow_string_as_string": 1,
}

# Seconds that one of the product's own queries may take.
READ_LIMIT_S = 30
# `readonly` comes last: it forbids changing settings, itself included.
READ_SETTINGS: Mapping[str, Setting] = {
    "max_threads": 2,
    "max_execution_time": READ_LIMIT_S,
    "max_memory_usage": 1 << 30,
    "output_format_arrow_string_as_string": 1,
    "readonly": 1,
}


_ERROR_NUMBER = re.compile(r"Code: (\d+)\.")
# What a query may take: its time, found out or foreseen, and its memory.
_LIMITS = frozenset({159, 160, 241})
_MAX_DRAINS = 10
_NO_SETTINGS: Mapping[str, Setting] = MappingProxyType({})
_MAX_SOCKETS = 16
_PORTS: Mapping[str, int] = MappingProxyType({"http": 8123, "https": 8443})
_CONNECT_TIMEOUT_S = 5
# Longer than any query may run.
ANSWER_TIMEOUT_S = 60
# Longer than a migration takes that makes a large table anew.
MIGRATION_TIMEOUT_S = 6 * 3_600


class EscapedText(DT64Param):
    """A parameter's value as ClickHouse's own HTTP interface takes it.

    The driver quotes text a second time, which arrays do not survive; this class it asks instead.
    """

    def __init__(self, text: str) -> None:
        self._text = text

    def format(self, tz: object, top_level: bool) -> str:  # noqa: ARG002 - the driver's signature
        """Return the text as it is."""
        return self._text


class Client:
    """A connection of its own. Calls on one client wait for each other: take one per thread.

    Args:
        driver: The driver's client, opened in this process; closed with this one.
        is_embedded: Whether the engine runs in this process.
        room: Keeps inserts from a full disk; None where the engine does that itself.
    """

    def __init__(
        self, driver: "Driver", is_embedded: bool = True, room: Room | None = None
    ) -> None:
        self._driver = driver
        self._is_embedded = is_embedded
        self._room = room
        self._process = os.getpid()
        self._lock = threading.Lock()
        # Whether the last call failed.
        self._is_dirty = False

    def query(self, sql: str, parameters: Mapping[str, object] | None = None) -> pa.Table:
        """Run a query whose `{name:Type}` placeholders are bound by the database.

        Raises:
            StoreError: The database refused, failed, or took longer than allowed.
        """
        with self._translating("query"):
            answer = self._driver.raw_query(sql, dict(parameters or {}), fmt="Arrow")
            return pa.ipc.open_file(answer).read_all()

    def query_bytes(
        self, sql: str, parameters: Mapping[str, object] | None = None, form: str | None = None
    ) -> bytes:
        """Run a query and return its answer in one of the database's formats.

        Args:
            sql: One statement without a `FORMAT` clause.
            parameters: Of its `{name:Type}` placeholders.
            form: Name of the format; None leaves it to the database (tab separated).

        Raises:
            StoreError: The database refused, failed, or took longer than allowed.
        """
        with self._translating("query"):
            bound = dict(parameters) if parameters else None
            return self._driver.raw_query(sql, bound, fmt=form)

    def command(self, sql: str) -> None:
        """Run a statement without a result.

        Raises:
            StoreError: The database refused or failed.
        """
        with self._translating("statement"):
            self._driver.command(sql)

    def insert(self, table: str, rows: pa.Table, token: str) -> None:
        """Insert rows as one block; the same token on the same table again inserts nothing.

        Raises:
            StoreError: The database refused or failed, or the disk is nearly full. Some partitions,
                or the tables behind materialised views, may lack the rows: the same call again
                completes them.
        """
        settings: dict[str, Any] = {"insert_deduplication_token": token}
        with (
            self._room.kept(self) if self._room is not None else nullcontext(),
            self._translating(f"insert into {table}"),
        ):
            self._driver.insert_arrow(table, rows, settings=settings)

    def use(self, database: str) -> None:
        """Let names without a database mean those of this one, which must exist."""
        with self._translating("opening"):
            self._driver.database = database

    def close(self) -> None:
        """Close the connection; a call in flight on it is waited for."""
        with translating("close"):
            self._driver.close()

    @contextmanager
    def _translating(self, what: str) -> Generator[None]:
        if self._is_embedded and os.getpid() != self._process:
            # The embedded engine's threads do not survive a fork: a query would hang for ever.
            raise StoreError("The store was opened before this process was forked from its opener.")
        with self._lock:
            if self._is_dirty and self._is_embedded:
                self._drain()
            self._is_dirty = True
            with translating(what):
                yield
            self._is_dirty = False

    def _drain(self) -> None:
        """Throw away what a failed call left: the engine puts its output before the next answer."""
        with translating("recovery"):
            for _ in range(_MAX_DRAINS):
                if self._driver.raw_query("SELECT 1", fmt="TabSeparated") == b"1\n":
                    return
        raise StoreError("The store's connection does not recover from an earlier failure.")


@contextmanager
def translating(what: str) -> Generator[None]:
    """Turn the driver's errors into `StoreError`. `what` names the attempt."""
    try:
        yield
    except (
        ClickHouseError,
        HTTPError,
        pa.ArrowException,
        OSError,
        RuntimeError,
        ImportError,
    ) as error:
        reason = str(error).split(". Stack trace")[0].strip()
        number = find_error_number(reason)
        kind = StoreLimitError if number in _LIMITS else StoreError
        raise kind(f"The store's {what} failed: {reason}") from error


def find_error_number(text: str) -> int | None:
    """Return ClickHouse's number of the error that a text tells, None where it tells none."""
    found = _ERROR_NUMBER.search(text)
    return None if found is None else int(found[1])


class Connector:
    """Opens connections to one place; those over HTTP share a pool of sockets.

    Args:
        config: Where it is.
        settings: That every connection sets, before its own.
    """

    def __init__(self, config: StoreConfig, settings: Mapping[str, Setting] = _NO_SETTINGS) -> None:
        self._config = config
        self._settings = settings
        self._sockets = _open_sockets(config) if config.url is not None else None
        self._room = Room(config.directory) if config.directory is not None else None

    def connect(self, settings: Mapping[str, Setting], database: str | None = None) -> Client:
        """Open a connection to a database that exists, the store's own unless said otherwise.

        Raises:
            StoreError: No connection, or a setting the database does not accept.
        """
        client = self.connect_bare(settings)
        client.use(database or self._config.database)
        return client

    def connect_bare(
        self, settings: Mapping[str, Setting], answer_timeout_s: int = ANSWER_TIMEOUT_S
    ) -> Client:
        """Open a connection to no database in particular. Raises as `connect`."""
        with translating("opening"):
            driver = _open_driver(
                self._config,
                {**_ZONE, **self._settings, **settings},
                self._sockets,
                answer_timeout_s,
            )
            return Client(driver, is_embedded=self._config.url is None, room=self._room)


def connect(config: StoreConfig, settings: Mapping[str, Setting]) -> Client:
    """Open one connection to the store's database, which must exist.

    Raises:
        StoreError: No connection, or a setting the database does not accept.
    """
    return Connector(config).connect(settings)


def create_database(config: StoreConfig) -> None:
    """Create the store's database when it is missing.

    Raises:
        StoreError: No connection, or the database refused.
    """
    client = Connector(config).connect_bare({})
    try:
        client.command(f"CREATE DATABASE IF NOT EXISTS {config.database} ENGINE = Atomic")
    finally:
        client.close()


def _read_address(url: str, user: str | None, password: str | None) -> dict[str, Any]:
    """Return the parts of an address as the driver wants them: from a whole one it drops some."""
    parts = urlsplit(url)
    return {
        "interface": parts.scheme,
        "host": parts.hostname,
        "port": parts.port or _PORTS[parts.scheme],
        "username": user or (unquote(parts.username) if parts.username else "default"),
        "password": password or unquote(parts.password or ""),
        "proxy_path": parts.path.rstrip("/"),
    }


def _open_sockets(config: StoreConfig) -> PoolManager:
    tls = config.tls
    with translating("opening"):
        return httputil.get_pool_manager(
            maxsize=_MAX_SOCKETS,
            verify=tls.verify,
            ca_cert=str(tls.ca_file) if tls.ca_file else None,
            client_cert=str(tls.certificate_file) if tls.certificate_file else None,
            client_cert_key=str(tls.key_file) if tls.key_file else None,
        )


def _open_driver(
    config: StoreConfig,
    settings: Mapping[str, Setting],
    sockets: PoolManager | None,
    answer_timeout_s: int,
) -> "Driver":
    if config.url is not None:
        return clickhouse_connect.get_client(
            **_read_address(config.url, config.user, config.password),
            settings=dict(settings),
            pool_mgr=sockets,
            # A session would make concurrent queries of one client fail, and tie it to one node.
            autogenerate_session_id=False,
            connect_timeout=_CONNECT_TIMEOUT_S,
            send_receive_timeout=answer_timeout_s,
        )
    assert config.directory is not None  # noqa: S101 - the configuration checked it
    options = {
        **EMBEDDED_OPTIONS,
        "max_server_memory_usage": config.max_memory_bytes,
        **config.engine_options,
    }
    return clickhouse_connect.get_client(
        interface="chdb",
        path=str(config.directory / "chdb"),
        chdb_options=options,
        settings=dict(settings),
    )
