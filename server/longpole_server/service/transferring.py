"""Runs that leave for another server, and those that arrive."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from longpole_server.errors import BadRequestError, NotFoundError
from longpole_server.read.pool import ClientPool
from longpole_server.read.run_rows import RUN_TABLES, Slice, list_slices, read_slice
from longpole_server.service.importing import check_run_id

_LAST = RUN_TABLES[-1]


class TakesRows(Protocol):
    """Where rows of exported runs go."""

    def store(self, table: str, file: Path, run_id: str) -> int:
        """Store the rows of a Parquet file as the run's, and return how many were new."""
        ...


@dataclass(frozen=True, slots=True)
class RunTransfer:
    """Exports and imports whole runs. Thread-safe.

    Attributes:
        pool: Connections to read by; their owner closes them.
        arrivals: Stores what comes.
        on_arriving: Told of a run before any of its tables is stored.
        on_arrived: Told of a run once its last table is there.
    """

    pool: ClientPool
    arrivals: TakesRows
    on_arriving: Callable[[str], None]
    on_arrived: Callable[[str], None]

    def list_slices(self, run_id: str) -> list[Slice]:
        """Return what a run is made of, in the order in which it is put back.

        Raises:
            NotFoundError: There is no such run.
            StoreError: The database failed.
        """
        slices = list_slices(self.pool, run_id)
        if not slices:
            raise NotFoundError(f"there is no run {run_id!r}")
        return slices

    def read_slice(self, run_id: str, piece: Slice) -> bytes:
        """Return the rows of a slice as a Parquet file.

        Raises:
            BadRequestError: The table is none of a run's.
            StoreError: The database failed.
        """
        return read_slice(self.pool, run_id, piece)

    def take(self, run_id: str, table: str, file: Path) -> int:
        """Store the rows of an exported file, and return how many were new here.

        Raises:
            BadRequestError: No run may have this id, or the file does not fit the table.
            StoreError: The database failed; the same call again completes it.
        """
        check_run_id(run_id)
        if table not in RUN_TABLES:
            raise BadRequestError(f"{table!r} is no table of a run")
        self.on_arriving(run_id)
        num_new = self.arrivals.store(table, file, run_id)
        if table == _LAST:
            self.on_arrived(run_id)
        return num_new
