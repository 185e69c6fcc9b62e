"""From accepted requests to written records: journal, one ingest thread, retries.

accept ─> journal (synced, then acknowledged to the sender)
             └─ ingest thread: frozen range ─> normalise ─> write ─> acknowledge ─> on_written
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Protocol

from longpole.conventions import attributes
from longpole.spool import Spool, SpoolError
from longpole_server.errors import StoreError
from longpole_server.ingest.entry import JournalEntry, check_batch_id
from longpole_server.ingest.journal import Batch, Journal
from longpole_server.ingest.signals import Signal
from longpole_server.ingest.sources import name_source
from longpole_server.model.records import Records

_log = logging.getLogger(__name__)

_IDLE_WAIT_S = 1.0
_FIRST_RETRY_S = 0.1
_MAX_RETRY_S = 5.0
_DEFECT_RETRY_S = 1.0
# A failure that is not the database's is a defect: it would stop the queue for ever.
_MAX_DEFECT_TRIES = 3


class Normalizes(Protocol):
    """Turns one request into records."""

    def normalize(self, signal: Signal, body: bytes, received_ns: int, into: Records) -> None:
        """Add the records of one request in protobuf. What cannot be read is left out."""
        ...

    def normalize_many(
        self, signal: Signal, requests: Sequence[tuple[bytes, int]], into: Records
    ) -> bool:
        """Add the records of requests, body and time of receipt; False if that is not done here."""
        ...


@dataclass(frozen=True, slots=True)
class PipelineStats:
    """Counts since the pipeline was made, except for `num_pending`.

    Attributes:
        num_accepted: Requests made durable.
        num_duplicates: Requests whose batch id was known: answered as success, not kept.
        num_refused: Requests refused because a bound was reached or the disk failed.
        num_over_share: Those of them refused because their sender held its share already.
        num_pending: Durable requests not yet in the store.
        num_batches: Ranges written.
        num_records: Records written.
        num_write_failures: Tries that failed and were, or will be, repeated.
        num_lost_requests: Requests left out after a defect.
        num_callback_failures: Times `on_written` raised.
        num_known_elsewhere: Requests left out because another server stored them.
        lag_s: For how long what is written next has been waiting; 0 while nothing waits.
    """

    num_accepted: int
    num_duplicates: int
    num_refused: int
    num_over_share: int
    num_pending: int
    num_batches: int
    num_records: int
    num_write_failures: int
    num_lost_requests: int
    num_callback_failures: int
    num_known_elsewhere: int = 0
    lag_s: float = 0.0


# The name of a span (field 5 of `Span`, length 7) that ends a step.
_LOOP_SPAN_NAME = b"\x2a\x07" + attributes.SPAN_LOOP.encode()


def is_urgent(signal: Signal, body: bytes) -> bool:
    """Tell whether a request holds what people watch for: a step that ends, a window that opens.

    Judged by the bytes, since a false alarm only costs an early write.
    """
    return signal == "logs" or (signal == "traces" and _LOOP_SPAN_NAME in body)


class Pipeline:
    """Accepts OTLP requests durably and writes their records in the background.

    Args:
        spool: The journal's spool, opened with `drop_oldest=False`: its `max_bytes` bounds what
            waits for the store. Its owner closes it, after the pipeline.
        normalizer: Called by the ingest thread only.
        write: `Writer.write`: raises `StoreError` when a retry with the same token makes sense.
        on_written: Told of each batch once it is stored and acknowledged. A crash in between
            skips it: it is news, not a record.
        state_dir: Directory for the record of frozen ranges, beside the spool's.
        batch_interval_s: Least time between the starts of two writes.
        bulk_interval_s: The same while nothing waits that people watch for (`is_urgent`): a write
            costs about the same however small it is.
        max_batch_bytes: A range ends when its requests exceed this size.
        max_waiting_bytes: Bound of request bodies waiting in memory for their sync.
        num_batch_ids: How many batch ids are remembered to refuse a second copy.
        claim: Told the batch ids of a range and its token before it is written; returns those that
            another server's insert has, which are left out. Raises `StoreError` when a retry makes
            sense. None where no other server writes.
        clock_ns: UTC nanoseconds.

    Raises:
        StoreError: `state_dir` cannot be used.
    """

    def __init__(
        self,
        spool: Spool,
        normalizer: Normalizes,
        write: Callable[[Records, str], None],
        on_written: Callable[[Records], None],
        *,
        state_dir: Path,
        batch_interval_s: float = 0.2,
        bulk_interval_s: float = 1.0,
        max_batch_bytes: int = 8 << 20,
        max_waiting_bytes: int = 128 << 20,
        num_batch_ids: int = 65_536,
        claim: Callable[[Sequence[str], str], Collection[str]] | None = None,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        try:
            self._journal = Journal(spool, state_dir, max_waiting_bytes, num_batch_ids)
        except SpoolError as error:
            raise StoreError(f"The journal's state cannot be used: {error}") from error
        self._normalizer = normalizer
        self._write_records = write
        self._on_written = on_written
        self._claim = claim
        self._batch_interval_s = batch_interval_s
        self._bulk_interval_s = bulk_interval_s
        self._urgent = threading.Event()
        self._max_batch_bytes = max_batch_bytes
        self._clock_ns = clock_ns
        self._stopping = threading.Event()
        self._idle = threading.Condition()
        self._is_writing = False
        self._thread = threading.Thread(target=self._ingest_forever, name="longpole-ingest")
        # Receipt of what is being written, or of what was written last while more waits.
        self._reached_ns: int | None = None
        self._num_batches = 0
        self._num_records = 0
        self._num_write_failures = 0
        self._num_lost_requests = 0
        self._num_callback_failures = 0
        self._num_known_elsewhere = 0

    @property
    def stats(self) -> PipelineStats:
        """Counts so far."""
        return PipelineStats(
            num_accepted=self._journal.num_accepted,
            num_duplicates=self._journal.num_duplicates,
            num_refused=self._journal.num_refused,
            num_over_share=self._journal.shares.num_refused,
            num_pending=self._journal.num_pending,
            num_batches=self._num_batches,
            num_records=self._num_records,
            num_write_failures=self._num_write_failures,
            num_lost_requests=self._num_lost_requests,
            num_callback_failures=self._num_callback_failures,
            num_known_elsewhere=self._num_known_elsewhere,
            lag_s=self.lag_s,
        )

    @property
    def lag_s(self) -> float:
        """For how many seconds what is written next has been waiting; 0 while nothing waits."""
        reached_ns = self._reached_ns
        if reached_ns is None or self._journal.num_pending == 0:
            return 0.0
        return max(0.0, (self._clock_ns() - reached_ns) / 1e9)

    def start(self) -> None:
        """Start both threads. What an earlier process accepted and did not write comes first."""
        self._journal.start()
        self._thread.start()

    def accept(
        self, signal: Signal, body: bytes, batch_id: str | None = None, peer: str | None = None
    ) -> None:
        """Make a request durable; return when it is. Thread-safe.

        Args:
            signal: What the body is.
            body: A valid request in protobuf.
            batch_id: Id of the batch. One that was seen is dropped, which counts as success.
            peer: Address that it was sent from.

        Raises:
            BadRequestError: The batch id makes no sense.
            BusyError: A bound is reached; nothing was kept.
            StoreError: The disk refused.
        """
        entry = self._receive(signal, body, batch_id)
        self._journal.append(entry, name_source(batch_id, peer)).result()
        self._hurry(signal, body)

    async def accept_async(
        self, signal: Signal, body: bytes, batch_id: str | None = None, peer: str | None = None
    ) -> None:
        """`accept` without blocking the event loop.

        Raises:
            BadRequestError: The batch id makes no sense.
            BusyError: A bound is reached; nothing was kept.
            StoreError: The disk refused.
        """
        entry = self._receive(signal, body, batch_id)
        await asyncio.wrap_future(self._journal.append(entry, name_source(batch_id, peer)))
        self._hurry(signal, body)

    def drain(self, timeout_s: float) -> bool:
        """Wait until everything accepted so far is written; tell whether it is."""
        self._urgent.set()
        with self._idle:
            return self._idle.wait_for(
                lambda: not self._is_writing and self._journal.is_empty, timeout_s
            )

    def close(self) -> None:
        """Refuse new requests and end both threads. What is not written stays in the journal."""
        self._journal.stop()
        self._stopping.set()
        self._urgent.set()
        self._journal.wake()
        if self._thread.is_alive():
            self._thread.join()
        self._journal.close()

    def _receive(self, signal: Signal, body: bytes, batch_id: str | None) -> JournalEntry:
        return JournalEntry(signal, self._clock_ns(), check_batch_id(batch_id), body)

    def _hurry(self, signal: Signal, body: bytes) -> None:
        if is_urgent(signal, body):
            self._urgent.set()

    def _ingest_forever(self) -> None:
        while not self._stopping.is_set():
            started_s = time.monotonic()
            self._urgent.clear()
            try:
                batch = self._ingest_next()
            except SpoolError as error:
                _log.error("The journal cannot be used: %s", error)
                self._stopping.wait(_MAX_RETRY_S)
                continue
            except Exception:  # noqa: BLE001 - a defect must not end the only thread that writes
                _log.exception("Ingesting failed, trying again")
                self._num_write_failures += 1
                self._stopping.wait(_DEFECT_RETRY_S)
                continue
            if batch is None:
                self._journal.wait_for_entries(_IDLE_WAIT_S)
            elif not batch.is_cut:
                self._pause(started_s)

    def _pause(self, started_s: float) -> None:
        elapsed_s = time.monotonic() - started_s
        self._stopping.wait(max(0.0, self._batch_interval_s - elapsed_s))
        elapsed_s = time.monotonic() - started_s
        self._urgent.wait(max(0.0, self._bulk_interval_s - elapsed_s))

    def _ingest_next(self) -> Batch | None:
        self._set_writing(True)
        try:
            batch = self._journal.freeze_next(self._max_batch_bytes)
            if batch is None:
                return None
            self._reached_ns = batch.entries[0].received_ns if batch.entries else None
            entries = self._leave_out_known(batch)
            if entries is None:
                return batch
            records = self._normalize(entries)
            if self._write(records, batch):
                self._journal.acknowledge(batch.frozen)
                # Of what follows it is known to have come later.
                self._reached_ns = batch.entries[-1].received_ns if batch.is_cut else None
                self._tell(records)
            return batch
        finally:
            self._set_writing(False)

    def _leave_out_known(self, batch: Batch) -> Sequence[JournalEntry] | None:
        """Return what no other server has stored; None when closed before that is known."""
        ids = [entry.batch_id for entry in batch.entries if entry.batch_id is not None]
        if self._claim is None or not ids:
            return batch.entries
        retry_s = _FIRST_RETRY_S
        while True:
            try:
                known = self._claim(ids, batch.frozen.token)
                break
            except StoreError as error:
                _log.warning("Claiming %s failed, trying again: %s", batch.frozen.token, error)
            self._num_write_failures += 1
            if self._stopping.wait(retry_s):
                return None
            retry_s = min(retry_s * 2, _MAX_RETRY_S)
        self._num_known_elsewhere += len(known)
        return [entry for entry in batch.entries if entry.batch_id not in known]

    def _set_writing(self, is_writing: bool) -> None:
        with self._idle:
            self._is_writing = is_writing
            self._idle.notify_all()

    def _normalize(self, entries: Sequence[JournalEntry]) -> Records:
        records = Records()
        for signal, neighbours in groupby(entries, key=attrgetter("signal")):
            self._normalize_neighbours(signal, list(neighbours), records)
        return records

    def _normalize_neighbours(
        self, signal: Signal, entries: Sequence[JournalEntry], records: Records
    ) -> None:
        if self._normalize_together(signal, entries, records):
            return
        for entry in entries:
            # What stopped all of them together may concern one.
            if len(entries) == 1 or not self._normalize_together(signal, [entry], records):
                self._normalize_entry(entry, records)

    def _normalize_together(
        self, signal: Signal, entries: Sequence[JournalEntry], records: Records
    ) -> bool:
        together = Records()
        try:
            requests = [(entry.body, entry.received_ns) for entry in entries]
            if not self._normalizer.normalize_many(signal, requests, together):
                return False
        except Exception:  # noqa: BLE001 - what cannot be read together may be one by one
            _log.exception("%d requests cannot be read together", len(entries))
            return False
        records.extend(together)
        return True

    def _normalize_entry(self, entry: JournalEntry, records: Records) -> None:
        try:
            self._normalizer.normalize(entry.signal, entry.body, entry.received_ns, records)
        except Exception:  # noqa: BLE001 - one unreadable request must not stop the queue
            if not self._num_lost_requests:
                _log.exception("A request of %d bytes cannot be read", len(entry.body))
            self._num_lost_requests += 1

    def _write(self, records: Records, batch: Batch) -> bool:
        """Write until it works; False when the pipeline is closed before that."""
        token = batch.frozen.token
        retry_s = _FIRST_RETRY_S
        num_defects = 0
        while len(records):
            try:
                self._write_records(records, token)
                break
            except StoreError as error:
                _log.warning("Writing %s failed, trying again: %s", token, error)
            except Exception:  # noqa: BLE001 - a defect in one batch must not stop the queue
                _log.exception("Writing %s failed", token)
                num_defects += 1
                if num_defects >= _MAX_DEFECT_TRIES:
                    self._num_lost_requests += len(batch.entries)
                    return True
            self._num_write_failures += 1
            if self._stopping.wait(retry_s):
                return False
            retry_s = min(retry_s * 2, _MAX_RETRY_S)
        self._num_batches += 1
        self._num_records += len(records)
        return True

    def _tell(self, records: Records) -> None:
        try:
            self._on_written(records)
        except Exception:  # noqa: BLE001 - what listens must not stop the queue
            self._num_callback_failures += 1
            _log.exception("A listener failed on a written batch")
