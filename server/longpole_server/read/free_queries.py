"""Runs people's own SQL: checked, read-only, few at a time, limited in time, memory and rows."""

import queue
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from longpole_server.errors import BusyError, QueryRefusedError, StoreError
from longpole_server.read.guard.guard import Guard, bind, load_functions
from longpole_server.store import Client, Store
from longpole_server.store.client import EscapedText, Setting

UNKNOWN_FORMAT = 73
DEFAULT_FORM = "TabSeparated"
# What the database can write without reading or writing anything else.
FORMS = frozenset(
    {
        "Arrow", "ArrowStream", "CSV", "CSVWithNames", "CSVWithNamesAndTypes", "JSON",
        "JSONColumns", "JSONColumnsWithMetadata", "JSONCompact", "JSONCompactColumns",
        "JSONCompactEachRow", "JSONCompactEachRowWithNames", "JSONCompactEachRowWithNamesAndTypes",
        "JSONCompactStrings", "JSONCompactStringsEachRow", "JSONEachRow", "JSONEachRowWithProgress",
        "JSONLines", "JSONObjectEachRow", "JSONStrings", "JSONStringsEachRow", "LineAsString",
        "Markdown", "Native", "NDJSON", "Null", "Parquet", "Pretty", "PrettyCompact",
        "PrettyCompactMonoBlock", "PrettySpace", "RawBLOB", "RowBinary", "RowBinaryWithNames",
        "RowBinaryWithNamesAndTypes", "TabSeparated", "TabSeparatedRaw", "TabSeparatedWithNames",
        "TabSeparatedWithNamesAndTypes", "TSKV", "TSV", "TSVRaw", "TSVWithNames",
        "TSVWithNamesAndTypes", "Values", "Vertical", "XML",
    }
)  # fmt: skip

_MAX_RESULT_BYTES = 256 << 20
_MAX_QUERY_BYTES = 256 << 10
_WAIT_S = 10.0
_CLOSE_S = 3.0
# By which running queries are told from the product's own.
_MARK = "longpole-sql-door"
_PARAMETER_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """What one query may use, and how many run at a time.

    Attributes:
        max_s: Seconds of running.
        max_memory_bytes: Memory in the database.
        max_rows: Rows of the answer.
        max_queries: Queries at a time.
    """

    max_s: float = 30.0
    max_memory_bytes: int = 1 << 30
    max_rows: int = 1_000_000
    max_queries: int = 2


@dataclass(frozen=True, slots=True)
class FreeQuery:
    """What somebody asks.

    Attributes:
        sql: One statement.
        parameters: Values of its `{name:Type}` placeholders, as ClickHouse's HTTP interface takes
            them.
        form: Format of the answer when the statement names none.
        max_rows: The asker's own limit: more rows are cut off, not refused. None for no limit.
    """

    sql: str
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])
    form: str = DEFAULT_FORM
    max_rows: int | None = None


@dataclass(frozen=True, slots=True)
class FreeAnswer:
    """What the database answered, in the format `form`."""

    body: bytes
    form: str


class FreeQueries:
    """Answers people's own queries. Thread-safe.

    Args:
        open_client: Opens a connection with the given settings.
        database: Whose tables may be read.
        limits: For each query.
    """

    def __init__(
        self,
        open_client: Callable[[Mapping[str, Setting]], Client],
        database: str,
        limits: QueryLimits,
    ) -> None:
        self._open_client = open_client
        self._database = database
        self._limits = limits
        self._settings = make_settings(limits)
        self._guard: Guard | None = None
        self._idle: queue.LifoQueue[Client | None] = queue.LifoQueue(limits.max_queries)
        self._num_clients = limits.max_queries
        self._is_closed = False
        for _ in range(limits.max_queries):
            self._idle.put(None)

    @property
    def database(self) -> str:
        """The database whose tables may be read."""
        return self._database

    @property
    def limits(self) -> QueryLimits:
        """Of each query."""
        return self._limits

    def answer(self, asked: FreeQuery) -> FreeAnswer:
        """Run a query.

        Raises:
            QueryRefusedError: It does more than read what it may.
            BusyError: Too many queries run already.
            StoreError: The database refused or failed, or a limit was reached.
        """
        _check_size(asked)
        try:
            client = self._idle.get(timeout=_WAIT_S)
        except queue.Empty:
            raise BusyError("Too many queries run already.", 5.0) from None
        try:
            if self._is_closed:
                raise StoreError("The server is about to end.")
            client = client or self._open_client(self._settings)
            return self._answer(client, asked)
        finally:
            self._idle.put(client)

    def close(self) -> None:
        """End the queries in flight and close the connections; what does not end is left."""
        self._is_closed = True
        if self._idle.qsize() < self._num_clients:
            self._stop_running()
        until_s = time.monotonic() + _CLOSE_S
        for _ in range(self._num_clients):
            with suppress(queue.Empty):
                client = self._idle.get(timeout=max(0.0, until_s - time.monotonic()))
                if client is not None:
                    client.close()

    def _stop_running(self) -> None:
        with suppress(StoreError):
            client = self._open_client({})
            try:
                client.command(f"KILL QUERY WHERE Settings['log_comment'] = '{_MARK}' ASYNC")
            finally:
                client.close()

    def _answer(self, client: Client, asked: FreeQuery) -> FreeAnswer:
        # Two that come first at once both read the functions, which does no harm.
        guard = self._guard or Guard(self._database, load_functions(client))
        self._guard = guard
        parameters = {name: EscapedText(text) for name, text in asked.parameters.items()}
        checked = guard.check(client, asked.sql, parameters)
        form = checked.form or asked.form
        if form not in FORMS:
            raise QueryRefusedError(f"Unknown format {form}.", UNKNOWN_FORMAT)
        sql = checked.sql
        if checked.is_select and asked.max_rows is not None:
            sql = f"SELECT * FROM ({sql}) LIMIT {asked.max_rows:d}"  # noqa: S608 - checked, a number
        return FreeAnswer(client.query_bytes(sql, bind(sql, parameters), form), form)


def open_free_queries(store: Store, limits: QueryLimits) -> FreeQueries:
    """Return what answers queries on a store; its owner closes it before the store."""
    return FreeQueries(store.new_limited_client, store.database, limits)


def make_settings(limits: QueryLimits) -> Mapping[str, Setting]:
    """Return a connection's settings. `readonly` comes last: it forbids changing any."""
    return {
        "max_threads": 2,
        # Where the process may say so, what else the machine does goes first.
        "os_thread_priority": 10,
        "max_execution_time": limits.max_s,
        # Time is looked at between blocks: the fewer rows, the sooner.
        "max_block_size": 8_192,
        "timeout_overflow_mode": "throw",
        "max_memory_usage": limits.max_memory_bytes,
        "max_result_rows": limits.max_rows,
        "max_result_bytes": _MAX_RESULT_BYTES,
        "result_overflow_mode": "throw",
        # No spilling to disk.
        "max_bytes_before_external_group_by": 0,
        "max_bytes_ratio_before_external_group_by": 0,
        "max_bytes_before_external_sort": 0,
        "max_bytes_ratio_before_external_sort": 0,
        "max_ast_depth": 500,
        "max_ast_elements": 20_000,
        "max_expanded_ast_elements": 100_000,
        "max_query_size": 4 * _MAX_QUERY_BYTES,
        "allow_ddl": 0,
        "log_comment": _MARK,
        "allow_introspection_functions": 0,
        # A row counts once however often it was sent, whether or not `FINAL` was asked for.
        "final": 1,
        "output_format_arrow_string_as_string": 1,
        "readonly": 1,
    }


def _check_size(asked: FreeQuery) -> None:
    num_bytes = len(asked.sql.encode("utf-8", "replace"))
    num_bytes += sum(len(value.encode("utf-8", "replace")) for value in asked.parameters.values())
    if num_bytes > _MAX_QUERY_BYTES:
        raise QueryRefusedError(f"The query is larger than {_MAX_QUERY_BYTES:,} bytes.", 62)
    for name in asked.parameters:
        if not _PARAMETER_NAME.fullmatch(name):
            raise QueryRefusedError(f"{name!r} is no name of a parameter.", 36)
