"""The connections of a reader: at most so many queries at a time, a connection to itself each.

The database looks at a query's limit of time between two of its steps, and one step may take as
long as it likes, without anybody being able to interrupt it. So queries run in threads of their
own, and who asks waits no longer than the limit and a little.
"""
# pyarrow carries no complete types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pyarrow as pa

from longpole_server.errors import StoreError, StoreLimitError
from longpole_server.store.client import READ_LIMIT_S, Client

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    _Row = TypeVar("_Row", bound=DataclassInstance)
else:
    _Row = TypeVar("_Row")

_log = logging.getLogger(__name__)

# What the threads of a reader's queries are called.
READ_THREADS = "longpole-read"
_Answer = TypeVar("_Answer")
_WAIT_S = 30.0
# How much longer than its limit a query is waited for.
_GRACE_S = 5.0
_CLOSE_S = 10.0


@dataclass(frozen=True, slots=True)
class PoolStats:
    """How queries do that keep no limit.

    Attributes:
        num_given_up: Queries that were waited for no longer, since the pool was made.
        num_overdue: Those of them that still run.
    """

    num_given_up: int
    num_overdue: int


class ClientPool:
    """Hands each query a connection that nobody else uses meanwhile. Thread-safe.

    Args:
        open_client: Opens a connection; called when one is needed first.
        size: Queries at a time. More wait, and fail after half a minute. As many again may go on
            without anybody waiting for them; beyond that they take the others' places.
        patience_s: How long a query is waited for.
    """

    def __init__(
        self,
        open_client: Callable[[], Client],
        size: int,
        patience_s: float = READ_LIMIT_S + _GRACE_S,
    ) -> None:
        self._open_client = open_client
        self._size = size
        self._patience_s = patience_s
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._num_given_up = 0
        self._num_overdue = 0
        # None stands for a lane that was not needed yet. The last used goes first.
        self._idle: queue.LifoQueue[_Lane | None] = queue.LifoQueue()
        for _ in range(size):
            self._idle.put(None)

    @property
    def stats(self) -> PoolStats:
        """Counts so far."""
        with self._lock:
            return PoolStats(self._num_given_up, self._num_overdue)

    def query(self, sql: str, parameters: Mapping[str, object] | None = None) -> pa.Table:
        """Run a query.

        Raises:
            StoreError: The database failed or took too long, every connection stayed busy, or all
                are closed.
        """
        return self._run(lambda client: client.query(sql, parameters), sql)

    def query_bytes(
        self, sql: str, parameters: Mapping[str, object] | None = None, form: str | None = None
    ) -> bytes:
        """Run a query and return its answer in one of the database's formats. Raises as `query`."""
        return self._run(lambda client: client.query_bytes(sql, parameters, form), sql)

    def select(
        self, kind: type[_Row], sql: str, parameters: Mapping[str, object] | None = None
    ) -> list[_Row]:
        """Run a query and return its rows as objects of a dataclass, columns matched by name."""
        names = [field.name for field in fields(kind)]
        return make_objects(kind, make_columns(self.query(sql, parameters).select(names)))

    def close(self) -> None:
        """Close every connection; queries in flight are waited for, but not for long."""
        self._closed.set()
        until_s = time.monotonic() + _CLOSE_S
        with self._lock:
            num_lanes = self._count_lanes()
        for _ in range(num_lanes):
            with suppress(queue.Empty):
                lane = self._idle.get(timeout=max(0.0, until_s - time.monotonic()))
                if lane is not None:
                    lane.end()
        for _ in range(self._size):
            self._idle.put(None)

    def _run(self, work: "Callable[[Client], _Answer]", sql: str) -> _Answer:
        lane = self._take_lane()
        job = _Job(cast("Callable[[Client], object]", work), lane)
        lane.start(job, self._note_end)
        if not job.wait(self._patience_s) and self._give_up(job):
            _log.warning("a query goes on past its limit: %s", " ".join(sql.split())[:200])
            raise StoreLimitError(
                f"The store computes for longer than {self._patience_s:g} s.",
                hint="Ask for less at a time: fewer steps, or a shorter time.",
            )
        if job.error is not None:
            try:
                raise job.error
            finally:
                # An error knows the frames it passed, and they would know it.
                del job
        return cast("_Answer", job.answer)

    def _take_lane(self) -> "_Lane":
        with self._lock:
            is_stuck = self._count_lanes() == 0
        if is_stuck:
            raise StoreError(
                "Queries that did not keep their limit of time still run in every place.",
                hint="Try again later.",
            )
        try:
            lane = self._idle.get(timeout=_WAIT_S)
        except queue.Empty:
            raise StoreError("The store is busy: every connection is in use.") from None
        if self._closed.is_set():
            self._idle.put(lane)
            raise StoreError("The reader is closed.")
        try:
            return lane or _Lane(self._open_client)
        except RuntimeError as error:
            self._idle.put(None)
            raise StoreError(f"No thread can be started for a query: {error}.") from error

    def _count_lanes(self) -> int:
        """Return how many queries may run that are waited for."""
        return self._size - max(0, self._num_overdue - self._size)

    def _give_up(self, job: "_Job") -> bool:
        """Wait for a query no longer; False when it has just ended."""
        with self._lock:
            if job.has_ended:
                return False
            job.is_given_up = True
            num_before = self._count_lanes()
            self._num_given_up += 1
            self._num_overdue += 1
            if self._count_lanes() == num_before:
                self._idle.put(None)
        return True

    def _note_end(self, job: "_Job") -> None:
        """Take back a lane, in its thread."""
        with self._lock:
            job.has_ended = True
            is_needed = True
            if job.is_given_up:
                num_before = self._count_lanes()
                self._num_overdue -= 1
                is_needed = self._count_lanes() > num_before
        if is_needed and not (job.is_given_up and self._closed.is_set()):
            self._idle.put(job.lane)
        else:
            job.lane.end()


class _Job:
    """A query under way."""

    def __init__(self, work: Callable[[Client], object], lane: "_Lane") -> None:
        self.lane = lane
        self.answer: object = None
        self.error: BaseException | None = None
        self.has_ended = False
        self.is_given_up = False
        self._work = work
        # The cheapest thing that one thread can wait for another with.
        self._running = threading.Lock()
        self._running.acquire()

    def do(self, open_client: Callable[[], Client]) -> None:
        """Run, in the lane's thread."""
        try:
            self.answer = self._work(open_client())
        except BaseException as error:  # noqa: BLE001 - raised where the answer is waited for
            self.error = error

    def say_done(self) -> None:
        """Let go on who waits."""
        self._running.release()

    def wait(self, timeout_s: float) -> bool:
        """Wait until it has ended; tell whether it has."""
        return self._running.acquire(timeout=timeout_s)


class _Lane:
    """A connection and the thread that uses it."""

    def __init__(self, open_client: Callable[[], Client]) -> None:
        self._open_client = open_client
        self._client: Client | None = None
        self._jobs: queue.SimpleQueue[tuple[_Job, Callable[[_Job], None]] | None] = (
            queue.SimpleQueue()
        )
        self._thread = threading.Thread(target=self._run, name=READ_THREADS, daemon=True)
        self._thread.start()

    def start(self, job: _Job, on_end: Callable[[_Job], None]) -> None:
        """Begin a query; `on_end` is told of its end before who waits for it."""
        self._jobs.put((job, on_end))

    def end(self) -> None:
        """Close the connection when what was begun has ended."""
        self._jobs.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join(_CLOSE_S)

    def _run(self) -> None:
        while (given := self._jobs.get()) is not None:
            job, on_end = given
            job.do(self._get_client)
            on_end(job)
            job.say_done()
            del given, job, on_end
        if self._client is not None:
            with suppress(StoreError):
                self._client.close()

    def _get_client(self) -> Client:
        if self._client is None:
            self._client = self._open_client()
        return self._client


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
