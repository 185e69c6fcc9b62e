"""One writer shared by several threads, one call at a time."""

import threading
from collections.abc import Callable, Sequence

from longpole_server.model.discovery import ScrapeTarget
from longpole_server.model.gpu import RunGpu
from longpole_server.model.records import Records
from longpole_server.model.step import Step
from longpole_server.store import Writer


class SerialWriter:
    """Serialises calls to a `Writer`: the pipeline, step closing and GPU joining share it.

    Args:
        writer: The store's one writer.
        check: Raises `StoreError` while this server may not write; None where it always may.
    """

    def __init__(self, writer: Writer, check: Callable[[], None] | None = None) -> None:
        self._writer = writer
        self._check = check
        self._lock = threading.Lock()

    @property
    def num_left_out(self) -> int:
        """Samples that were stored already, as `Writer.num_left_out`."""
        return self._writer.num_left_out

    def write(self, records: Records, token: str) -> None:
        """Insert a batch as `Writer.write` does.

        Raises:
            StoreError: The database refused or failed.
        """
        with self._lock:
            self._make_sure()
            self._writer.write(records, token)

    def write_steps(self, steps: Sequence[tuple[Step, str]], version: int) -> None:
        """Replace derived steps as `Writer.write_steps` does.

        Raises:
            StoreError: The database refused or failed.
        """
        with self._lock:
            self._make_sure()
            self._writer.write_steps(steps, version)

    def write_run_gpus(self, run_gpus: Sequence[RunGpu]) -> None:
        """Replace which run holds which GPU as `Writer.write_run_gpus` does.

        Raises:
            StoreError: The database refused or failed.
        """
        with self._lock:
            self._make_sure()
            self._writer.write_run_gpus(run_gpus)

    def write_scrape_targets(self, targets: Sequence[ScrapeTarget]) -> None:
        """Replace registered Prometheus pages as `Writer.write_scrape_targets` does.

        Raises:
            StoreError: The database refused or failed.
        """
        with self._lock:
            self._make_sure()
            self._writer.write_scrape_targets(targets)

    def _make_sure(self) -> None:
        if self._check is not None:
            self._check()
