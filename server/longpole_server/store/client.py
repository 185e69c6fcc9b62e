"""Talking to ClickHouse, embedded or external: the one place that names its driver.

Foreign errors become `StoreError` here and nowhere else.
"""
# The driver and pyarrow carry no complete types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import os
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import clickhouse_connect
import pyarrow as pa
from clickhouse_connect.driver.binding import DT64Param
from clickhouse_connect.driver.exceptions import ClickHouseError

from longpole_server.errors import ConfigError, StoreError

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

# An insert is one block with one token, so that a retry is recognised, also behind the
# materialised views. Data with wild times may touch any number of partitions.
WRITE_SETTINGS: Mapping[str, Setting] = {
    "async_insert": 0,
    "deduplicate_blocks_in_dependent_materialized_views": 1,
    "max_insert_threads": 1,
    "max_partitions_per_insert_block": 0,
    "output_format_arrow_string_as_string": 1,
}

# `readonly` comes last: it forbids changing settings, itself included.
READ_SETTINGS: Mapping[str, Setting] = {
    "max_threads": 2,
    "max_execution_time": 30,
    "max_memory_usage": 1 << 30,
    "output_format_arrow_string_as_string": 1,
    "readonly": 1,
}


_MAX_DRAINS = 10


class EscapedText(DT64Param):
    """A parameter's value as ClickHouse's own HTTP interface takes it.

    The driver quotes text a second time, which arrays do not survive; this class it asks instead.
    """

    def __init__(self, text: str) -> None:
        self._text = text

    def format(self, tz: object, top_level: bool) -> str:  # noqa: ARG002 - the driver's signature
        """Return the text as it is."""
        return self._text


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

    def __post_init__(self) -> None:
        if (self.directory is None) == (self.url is None):
            raise ConfigError(
                "The store needs either a data directory or a ClickHouse address.",
                hint="Give one of them, not both.",
            )


class Client:
    """A connection of its own. Calls on one client wait for each other: take one per thread.

    Args:
        driver: The driver's client, opened in this process; closed with this one.
    """

    def __init__(self, driver: "Driver") -> None:
        self._driver = driver
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
            StoreError: The database refused or failed. Some partitions, or the tables behind
                materialised views, may lack the rows: the same call again completes them.
        """
        settings: dict[str, Any] = {"insert_deduplication_token": token}
        with self._translating(f"insert into {table}"):
            self._driver.insert_arrow(table, rows, settings=settings)

    def close(self) -> None:
        """Close the connection; a call in flight on it is waited for."""
        with translating("close"):
            self._driver.close()

    @contextmanager
    def _translating(self, what: str) -> Generator[None]:
        if os.getpid() != self._process:
            # The embedded engine's threads do not survive a fork: a query would hang for ever.
            raise StoreError("The store was opened before this process was forked from its opener.")
        with self._lock:
            if self._is_dirty:
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
    except (ClickHouseError, pa.ArrowException, OSError, RuntimeError, ImportError) as error:
        reason = str(error).split(". Stack trace")[0].strip()
        raise StoreError(f"The store's {what} failed: {reason}") from error


def connect(config: StoreConfig, settings: Mapping[str, Setting]) -> Client:
    """Open a connection to the store's database, which must exist.

    Raises:
        StoreError: No connection, or a setting the database does not accept.
    """
    with translating("opening"):
        driver = _open_driver(config, settings)
        driver.database = config.database
        return Client(driver)


def create_database(config: StoreConfig) -> None:
    """Create the store's database when it is missing.

    Raises:
        StoreError: No connection, or the database refused.
    """
    with translating("opening"):
        driver = _open_driver(config, {})
        try:
            driver.command(
                "CREATE DATABASE IF NOT EXISTS {database:Identifier} ENGINE = Atomic",
                {"database": config.database},
            )
        finally:
            driver.close()


def _open_driver(config: StoreConfig, settings: Mapping[str, Setting]) -> "Driver":
    if config.url is not None:
        return clickhouse_connect.get_client(dsn=config.url, settings=dict(settings))
    assert config.directory is not None  # noqa: S101 - the configuration checked it
    options = {**EMBEDDED_OPTIONS, "max_server_memory_usage": config.max_memory_bytes}
    return clickhouse_connect.get_client(
        interface="chdb",
        path=str(config.directory / "chdb"),
        chdb_options=options,
        settings=dict(settings),
    )
