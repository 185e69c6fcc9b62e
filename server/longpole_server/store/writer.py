"""Writes records and derived steps into the store: one writer, idempotent by token."""

from collections.abc import Sequence

from longpole_server.model.gpu import RunGpu
from longpole_server.model.records import Records
from longpole_server.model.step import Step


class Writer:
    """The one writer of a store. Not thread-safe: its owner calls it from one thread at a time."""

    def write(self, records: Records, token: str) -> None:
        """Insert a batch. The same token again changes nothing, whatever the batch holds.

        Raises:
            StoreError: The database refused or failed; the caller retries with the same token.
        """
        raise NotImplementedError

    def write_steps(self, steps: Sequence[tuple[Step, str]], version: int) -> None:
        """Replace derived steps. Each comes with its diagnosis as JSON ("" for none).

        Args:
            steps: The steps with their `longpole.diagnosis/1` document.
            version: Grows with every call for the same step (UTC nanoseconds of the decision).
        """
        raise NotImplementedError

    def write_run_gpus(self, run_gpus: Sequence[RunGpu]) -> None:
        """Replace which run holds which GPU (key: run, attempt, gpu, since)."""
        raise NotImplementedError
