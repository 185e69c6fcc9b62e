"""The connections of a reader: at most so many queries at a time, a connection to itself each."""
# pyarrow carries no complete types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import queue
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from longpole_server.errors import StoreError
from longpole_server.store.client import Client

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    _Row = TypeVar("_Row", bound=DataclassInstance)
else:
    _Row = TypeVar("_Row")

_Answer = TypeVar("_Answer")
_WAIT_S = 30.0


class ClientPool:
    """Hands each query a connection that nobody else uses meanwhile. Thread-safe.

    Args:
        open_client: Opens a connection; called when one is needed first.
        size: Queries at a time. More wait, and fail after half a minute.
    """

    def __init__(self, open_client: Callable[[], Client], size: int) -> None:
        self._open_client = open_client
        self._size = size
        self._closed = threading.Event()
        # None stands for a connection that was not needed yet. The last used goes first.
        self._idle: queue.LifoQueue[Client | None] = queue.LifoQueue(size)
        for _ in range(size):
            self._idle.put(None)

    def query(self, sql: str, parameters: Mapping[str, object] | None = None) -> pa.Table:
        """Run a query.

        Raises:
            StoreError: The database failed, every connection stayed busy, or all are closed.
        """
        return self._run(lambda client: client.query(sql, parameters))

    def query_bytes(
        self, sql: str, parameters: Mapping[str, object] | None = None, form: str | None = None
    ) -> bytes:
        """Run a query and return its answer in one of the database's formats. Raises as `query`."""
        return self._run(lambda client: client.query_bytes(sql, parameters, form))

    def _run(self, work: Callable[[Client], _Answer]) -> _Answer:
        try:
            client = self._idle.get(timeout=_WAIT_S)
        except queue.Empty:
            raise StoreError("The store is busy: every connection is in use.") from None
        try:
            if self._closed.is_set():
                raise StoreError("The reader is closed.")
            client = client or self._open_client()
            return work(client)
        finally:
            self._idle.put(client)

    def select(
        self, kind: type[_Row], sql: str, parameters: Mapping[str, object] | None = None
    ) -> list[_Row]:
        """Run a query and return its rows as objects of a dataclass, columns matched by name."""
        names = [field.name for field in fields(kind)]
        return make_objects(kind, make_columns(self.query(sql, parameters).select(names)))

    def close(self) -> None:
        """Close every connection; queries in flight are waited for."""
        self._closed.set()
        for _ in range(self._size):
            with suppress(queue.Empty):
                client = self._idle.get(timeout=_WAIT_S)
                if client is not None:
                    client.close()
        for _ in range(self._size):
            with suppress(queue.Full):
                self._idle.put_nowait(None)


def make_rows(table: pa.Table) -> list[tuple[Any, ...]]:
    """Return rows as Python values: times as nanoseconds, decimals as floats, maps as dicts."""
    return list(zip(*(_make_values(column) for column in table.columns), strict=True))


def make_columns(table: pa.Table) -> dict[str, Sequence[Any]]:
    """Return columns as Python values, as `make_rows` has them, by name."""
    return {name: _make_values(table[name]) for name in table.column_names}


def make_objects(kind: type[_Row], columns: Mapping[str, Sequence[Any]]) -> list[_Row]:
    """Return objects of a dataclass with slots, from the values of all of its fields.

    Each field is set for all objects at once: half the time of calling the class for each, which
    a frozen one spends in a call of its own for every field.
    """
    named = fields(kind)
    count = len(columns[named[0].name])
    made = [object.__new__(kind) for _ in range(count)]
    for field in named:
        deque(map(kind.__dict__[field.name].__set__, made, columns[field.name]), 0)
    return made


def make_records(table: pa.Table) -> list[dict[str, Any]]:
    """Return rows as `make_rows`, with the columns' names."""
    return [dict(zip(table.column_names, row, strict=True)) for row in make_rows(table)]


def _make_values(column: "pa.ChunkedArray[Any]") -> Sequence[Any]:
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.int64()).to_pylist()
    if pa.types.is_decimal(column.type):
        return [None if value is None else float(value) for value in column.to_pylist()]
    if pa.types.is_map(column.type):
        return [dict(items or ()) for items in column.to_pylist()]
    if pa.types.is_list(column.type):
        return [tuple(items or ()) for items in column.to_pylist()]
    return column.to_pylist()
