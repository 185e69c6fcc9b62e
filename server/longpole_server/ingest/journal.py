"""The write-ahead log of the server: what is acknowledged to a sender is in here, synced."""

import logging
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from longpole.spool import Spool, SpoolError, SpoolFullError, SpoolRecord
from longpole_server.errors import BusyError, ServerError, StoreError
from longpole_server.ingest.batch_ids import BatchIds
from longpole_server.ingest.entry import JournalEntry, decode_entry, encode_entry
from longpole_server.ingest.ranges import FrozenRange, RangeLog
from longpole_server.ingest.sources import SourceShares

_log = logging.getLogger(__name__)

_MAX_RANGE_RECORDS = 10_000
_UNBOUNDED = 1 << 62
_FULL_RETRY_AFTER_S = 5.0


@dataclass(frozen=True, slots=True)
class Batch:
    """Journal entries that are inserted together. `is_cut`: more was there, over the bound."""

    frozen: FrozenRange
    entries: Sequence[JournalEntry]
    is_cut: bool


@dataclass(frozen=True, slots=True)
class _Waiting:
    entry: JournalEntry
    source: str
    num_bytes: int
    done: "Future[None]"


class Journal:
    """Appends requests with group commit, and gives them out in frozen ranges.

    Requests wait in memory only until the running sync ends; all that came meanwhile share the
    next one. Ranges are taken by one thread.

    Args:
        spool: Opened with `drop_oldest=False`: it must refuse rather than forget.
        state_dir: Directory for the ranges on record.
        max_waiting_bytes: Bound of the bodies that wait for their sync.
        num_batch_ids: How many batch ids are remembered.

    Raises:
        SpoolError: The state directory cannot be used.
    """

    def __init__(
        self, spool: Spool, state_dir: Path, max_waiting_bytes: int, num_batch_ids: int
    ) -> None:
        self._spool = spool
        self._ranges = RangeLog(state_dir / "ranges")
        if self._ranges.newest is not None:
            spool.skip_to(self._ranges.newest.last)
        self._ids = BatchIds(num_batch_ids, self._ranges.read_batch_ids())
        for record in spool:
            entry = _decode(record)
            if entry is not None and entry.batch_id is not None:
                self._ids.add(entry.batch_id)
        self._max_waiting_bytes = max_waiting_bytes
        self._changed = threading.Condition()
        self._waiting: list[_Waiting] = []
        self._waiting_bytes = 0
        self.shares = SourceShares(spool.max_bytes)
        self._closing = False
        self._written = threading.Event()
        self._thread = threading.Thread(target=self._commit_forever, name="longpole-journal")
        self.num_accepted = 0
        self.num_duplicates = 0
        self.num_refused = 0

    @property
    def num_pending(self) -> int:
        """Durable requests that are not acknowledged."""
        return self._spool.num_pending

    @property
    def is_empty(self) -> bool:
        """Whether everything accepted so far is acknowledged."""
        with self._changed:
            return not self._waiting_bytes and self._spool.num_pending == 0

    def start(self) -> None:
        """Start the committing thread."""
        self._thread.start()

    def append(self, entry: JournalEntry, source: str = "") -> "Future[None]":
        """Queue a request and return at once; the result comes when it is durable.

        The result is `BusyError` when the journal is full, `StoreError` when the disk refuses.

        Args:
            entry: The request.
            source: Who sends it, `sources.name_source`.

        Raises:
            BusyError: Too much waits already, of all or of this sender, or the journal is being
                closed.
        """
        done: Future[None] = Future()
        # Entries without a body take room too.
        num_bytes = max(1, len(entry.body))
        with self._changed:
            if self._closing:
                raise BusyError("The server is shutting down.")
            if self._waiting_bytes and self._waiting_bytes + num_bytes > self._max_waiting_bytes:
                self.num_refused += 1
                raise BusyError("The server cannot write as fast as data comes in.")
            try:
                self.shares.take(source, num_bytes)
            except BusyError:
                self.num_refused += 1
                raise
            self._waiting.append(_Waiting(entry, source, num_bytes, done))
            self._waiting_bytes += num_bytes
            self._changed.notify_all()
        return done

    def freeze_next(self, max_bytes: int) -> Batch | None:
        """Return the oldest unacknowledged entries as a batch, or None when there are none.

        Its range is durable before it is returned. One that was frozen and not acknowledged,
        in this process or one before it, comes again with the same entries and token.

        Raises:
            SpoolError: The disk refused.
        """
        after = self._spool.acknowledged
        frozen = self._ranges.newest
        if frozen is not None and frozen.last > after:
            return Batch(frozen, self._read_again(frozen), is_cut=True)
        durable = self._spool.durable_sequence
        records = self._spool.read(after, _MAX_RANGE_RECORDS, max_bytes)
        if not records:
            return None
        entries = _decode_all(records)
        batch_ids = [entry.batch_id for entry in entries if entry.batch_id is not None]
        last = records[-1].sequence
        frozen = self._ranges.freeze(records[0].sequence, last, batch_ids)
        return Batch(frozen, entries, is_cut=last < durable)

    def acknowledge(self, frozen: FrozenRange) -> None:
        """Record durably that a range is stored.

        Raises:
            SpoolError: The disk refused.
        """
        self._spool.acknowledge(frozen.last)
        with self._changed:
            self.shares.give_back_through(frozen.last)

    def wait_for_entries(self, timeout_s: float) -> None:
        """Return once something durable came since the last call, or at the timeout."""
        self._written.wait(timeout_s)
        self._written.clear()

    def wake(self) -> None:
        """Make a running `wait_for_entries` return."""
        self._written.set()

    def stop(self) -> None:
        """Refuse new requests, commit those that wait, and end the committing thread."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join()

    def close(self) -> None:
        """Stop and close the record of ranges. The spool stays open: its owner closes it."""
        self.stop()
        self._ranges.close()

    def _read_again(self, frozen: FrozenRange) -> Sequence[JournalEntry]:
        count = frozen.last - frozen.first + 1
        records = self._spool.read(frozen.first - 1, count, _UNBOUNDED)
        return _decode_all([record for record in records if record.sequence <= frozen.last])

    def _commit_forever(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._closing:
                    self._changed.wait()
                if not self._waiting:
                    return
                batch, self._waiting = self._waiting, []
                num_bytes = self._waiting_bytes
            try:
                outcomes = self._commit(batch)
            except Exception as error:  # noqa: BLE001 - every sender waits for this thread
                _log.exception("Committing %d requests failed", len(batch))
                outcomes = [
                    (one.done, StoreError(f"The journal failed: {error!r}."))
                    for one in batch
                    if not one.done.cancelled()
                ]
            # First the room, then the answer: whoever is answered finds the room.
            with self._changed:
                self._waiting_bytes -= num_bytes
            for done, error in outcomes:
                if error is None:
                    done.set_result(None)
                else:
                    done.set_exception(error)
            self._written.set()

    def _commit(
        self, batch: Sequence[_Waiting]
    ) -> "Sequence[tuple[Future[None], ServerError | None]]":
        """Append and sync; return what to tell each caller that still waits."""
        outcomes: list[tuple[Future[None], ServerError | None]] = []
        for waiting in batch:
            # A caller that went away before its turn is not stored.
            if waiting.done.set_running_or_notify_cancel():
                outcomes.append((waiting.done, self._append(waiting)))
            else:
                self._give_back(waiting)
        try:
            self._spool.sync()
        except SpoolError as error:
            _log.error("The journal cannot be synced: %s", error)
            outcomes = [(done, refusal or _disk_refused(error)) for done, refusal in outcomes]
        self.num_refused += sum(error is not None for _, error in outcomes)
        return outcomes

    def _append(self, waiting: _Waiting) -> ServerError | None:
        refusal, sequence = self._append_entry(waiting.entry)
        if sequence is None:
            self._give_back(waiting)
        else:
            with self._changed:
                self.shares.keep(sequence, waiting.source, waiting.num_bytes)
        return refusal

    def _give_back(self, waiting: _Waiting) -> None:
        with self._changed:
            self.shares.give_back(waiting.source, waiting.num_bytes)

    def _append_entry(self, entry: JournalEntry) -> tuple[ServerError | None, int | None]:
        """Append; return why it was refused, and the number under which it is kept."""
        if entry.batch_id is not None and entry.batch_id in self._ids:
            # Its first copy may wait for the coming sync, so it is answered after it too.
            self.num_duplicates += 1
            return None, None
        try:
            sequence = self._spool.append(encode_entry(entry))
        except SpoolFullError:
            full = BusyError("The journal is full: the store is behind.", _FULL_RETRY_AFTER_S)
            return full, None
        except SpoolError as error:
            _log.error("The journal cannot be written: %s", error)
            return _disk_refused(error), None
        self.num_accepted += 1
        if entry.batch_id is not None:
            self._ids.add(entry.batch_id)
        return None, sequence


def _disk_refused(error: SpoolError) -> StoreError:
    return StoreError(f"The journal cannot be written: {error}", hint="Free disk space; restart.")


def _decode_all(records: Sequence[SpoolRecord]) -> list[JournalEntry]:
    entries = (_decode(record) for record in records)
    return [entry for entry in entries if entry is not None]


def _decode(record: SpoolRecord) -> JournalEntry | None:
    try:
        return decode_entry(record.payload)
    except ValueError as error:
        _log.error("Journal entry %d is skipped: %s", record.sequence, error)
        return None
