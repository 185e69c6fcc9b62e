"""Makes batches durable: many requests at once share one fsync."""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future

from longpole.spool import Spool, SpoolError
from longpole_agent.batch import Batch

_log = logging.getLogger(__name__)


class Intake:
    """The only writer of the spool.

    Receivers bound the bytes that they hand in; how many batches wait is bounded here, for a disk
    that hangs.

    Args:
        spool: Where batches go.
        on_stored: Called after each group of batches became durable.
        max_waiting: Most batches that wait for their sync; further ones are refused.
    """

    def __init__(
        self, spool: Spool, on_stored: Callable[[], None], max_waiting: int = 2048
    ) -> None:
        self._max_waiting = max_waiting
        self._spool = spool
        self._on_stored = on_stored
        self._changed = threading.Condition()
        self._waiting: list[tuple[bytes, Future[int]]] = []
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="intake", daemon=True)

    def start(self) -> None:
        """Begin to store."""
        self._thread.start()

    def store(self, batch: Batch) -> "Future[int]":
        """Return a future of the batch's sequence, done when the batch is durable.

        The future fails with `SpoolError` when the disk refuses.
        """
        future: Future[int] = Future()
        with self._changed:
            if self._closed:
                future.set_exception(SpoolError("the agent is shutting down"))
                return future
            if len(self._waiting) >= self._max_waiting:
                future.set_exception(SpoolError("the disk does not keep up"))
                return future
            self._waiting.append((batch.encode(), future))
            self._changed.notify()
        return future

    def close(self) -> None:
        """Store what is waiting, then stop."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                group, self._waiting = self._waiting, []
                if not group:
                    return
            try:
                self._store(group)
            except Exception as error:  # noqa: BLE001 - every sender waits for this thread
                _log.exception("storing %d batches failed", len(group))
                for _, future in group:
                    if not future.done():
                        future.set_exception(SpoolError(f"storing failed: {error!r}"))

    def _store(self, group: list[tuple[bytes, "Future[int]"]]) -> None:
        appended: list[tuple[int, Future[int]]] = []
        for record, future in group:
            # A caller may have gone; what it sent is not acknowledged, so it is not kept either.
            if not future.set_running_or_notify_cancel():
                continue
            try:
                appended.append((self._spool.append(record), future))
            except SpoolError as error:
                future.set_exception(error)
        try:
            self._spool.sync()
        except SpoolError as error:
            _log.error("cannot keep data: %s", error)
            for _, future in appended:
                future.set_exception(error)
            return
        for sequence, future in appended:
            future.set_result(sequence)
        if appended:
            self._on_stored()
