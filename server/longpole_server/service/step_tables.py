"""The steps of whole runs as columns, kept and brought up to date.

A long range needs the ledger of every step. It is read once; after that the store is asked for the
few steps that were written since, and a checksum tells that nothing is missed: rows of another
server with an older clock, or of an import.
"""

import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from longpole_server.analysis.step_table import Rows, StepColumns, StepTable
from longpole_server.read.step_columns import StepsState, VersionedColumns

# Steps that are kept of all runs together, about half a kilobyte each; the run asked for last stays
# in any case.
_MAX_KEPT_STEPS = 100_000
_CHECKSUM_MODULUS = 1 << 64


@dataclass(frozen=True, slots=True)
class _Kept:
    """What was read of a run.

    Attributes:
        token: As long as it is the caller's, nothing has changed.
        all: Steps of every attempt, by attempt and step.
        latest: The latest attempt of each step, in order.
    """

    token: Hashable
    state: StepsState
    all: VersionedColumns
    latest: StepTable


class StoredTables(Protocol):
    """Where steps are read, as `longpole_server.read.Reader` does it."""

    def get_steps_state(self, run_id: str) -> StepsState:
        """Return what tells whether a run's steps are still those that were read."""
        ...

    def list_step_columns(self, run_id: str, after: int = 0) -> VersionedColumns:
        """Return a run's steps of all attempts written after a version."""
        ...


class StepTables:
    """Reads and keeps tables of steps. Thread-safe.

    Args:
        reader: Reads the store.
    """

    def __init__(self, reader: StoredTables) -> None:
        self._reader = reader
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    def read(self, run_id: str, token: Hashable) -> StepTable:
        """Return the steps of a run in order, the latest attempt of each.

        Args:
            run_id: The run.
            token: Changes whenever the run's steps may have.

        Raises:
            StoreError: The database failed.
        """
        with self._lock:
            known = self._kept.get(run_id)
        if known is not None and known.token == token:
            return known.latest
        found = self._read(run_id, token, known)
        with self._lock:
            self._kept[run_id] = found
            self._kept.move_to_end(run_id)
            total = sum(map(_count, self._kept.values()))
            while len(self._kept) > 1 and total > _MAX_KEPT_STEPS:
                total -= _count(self._kept.popitem(last=False)[1])
        return found.latest

    def _read(self, run_id: str, token: Hashable, known: _Kept | None) -> _Kept:
        state = self._reader.get_steps_state(run_id)
        if known is not None:
            if state == known.state:
                return _Kept(token, state, known.all, known.latest)
            news = self._reader.list_step_columns(run_id, known.state.newest)
            whole = _merge(known.all, news)
            # What was written after the state was read is taken in too: the next state tells.
            if _state_of(whole) == state:
                return _Kept(token, state, whole, _choose_latest(whole.columns))
        whole = self._reader.list_step_columns(run_id)
        return _Kept(token, _state_of(whole), whole, _choose_latest(whole.columns))


def select(table: StepTable, first: int | None, last: int | None) -> StepTable:
    """Return the steps of an inclusive range; None is open."""
    begin, end = 0, len(table)
    if first is not None:
        begin = int(np.searchsorted(table.numbers, first, "left"))
    if last is not None:
        end = int(np.searchsorted(table.numbers, last, "right"))
    return table if (begin, end) == (0, len(table)) else table[begin : max(begin, end)]


def _count(kept: _Kept) -> int:
    return len(kept.all.versions)


def _state_of(steps: VersionedColumns) -> StepsState:
    versions: list[int] = steps.versions.tolist()
    return StepsState(len(versions), sum(versions) % _CHECKSUM_MODULUS, max(versions, default=0))


def _merge(old: VersionedColumns, new: VersionedColumns) -> VersionedColumns:
    """Return the steps of both; the newer of two versions stands."""
    if not len(new.versions):
        return old
    both = old.columns.extended(new.columns)
    versions = np.concatenate([old.versions, new.versions])
    order = np.lexsort((versions, both.steps, both.attempts))
    kept = order[_last_of_each(both.attempts[order], both.steps[order])]
    return VersionedColumns(both.take(kept), versions[kept])


def _choose_latest(columns: StepColumns) -> StepTable:
    order = np.lexsort((columns.attempts, columns.steps))
    return StepTable(columns.take(order[_last_of_each(columns.steps[order])]))


def _last_of_each(*keys: "NDArray[np.int64]") -> Rows:
    """Return the places after which one of the sorted keys changes."""
    count = len(keys[0])
    changes = np.zeros(max(0, count - 1), dtype=np.bool_)
    for key in keys:
        changes |= key[1:] != key[:-1]
    return np.flatnonzero(np.append(changes, np.ones(min(count, 1), dtype=np.bool_)))
