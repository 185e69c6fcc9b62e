"""Step closing: derives steps as their data arrives, and says when there is something to see."""

import logging
import math
import threading
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from longpole_server.errors import StoreError
from longpole_server.model.records import Records
from longpole_server.read import AttemptRow, Reader
from longpole_server.service.agenda import Agenda
from longpole_server.service.changes import ChangeFeed
from longpole_server.service.facts import FactsReader
from longpole_server.service.progress import AttemptProgress
from longpole_server.service.revisions import Revisions
from longpole_server.service.serial_writer import SerialWriter
from longpole_server.service.step_assembly import StepAssembler
from longpole_server.service.touched import AttemptKey, StepKey, Touched, find_touched

_logger = logging.getLogger(__name__)

# Seconds in which what arrives for a step is taken together.
_GATHER_S = 0.05
# The same for what arrives for a step that is closed. A step that closes just now is shown with its
# ledger first; its verdict follows by then, when its scalars and samples are there.
_LATE_S = 0.6
# Least seconds between two announcements of samples and heartbeats.
_PULSE_S = 1.0
_FIRST_RETRY_S = 0.5
_LONGEST_RETRY_S = 60.0
# Steps of one attempt that are derived before others, and what came in meanwhile, have their turn.
_CHUNK_STEPS = 25
_MAX_ATTEMPTS_KEPT = 32
# More steps at once are no live run: they are judged in one go.
_MAX_LIVE_STEPS = 3
# Steps that are derived again when the GPUs of their run change.
_REJOINED_STEPS = 20
# Runs heard from this recently are looked at again after a restart, and in any case this many:
# data may be older than the clock says.
_RECOVER_NS = 3_600 * 10**9
_RECOVER_RUNS = 10
# Of these the newest derived steps, whose last data may have come in right before the end.
_RECOVER_STEPS = 2


@dataclass(frozen=True, slots=True)
class ClosingStats:
    """Counters since the start.

    Attributes:
        num_derived: Times a step was derived and written.
        num_failed: Times a step could not be assembled, judged or written.
        num_waiting: Steps that wait for their turn.
    """

    num_derived: int
    num_failed: int
    num_waiting: int


class StepCloser:
    """Derives steps in its own thread, which never ends by itself.

    What fails is logged, counted and tried again later.

    Args:
        reader: Reads what arrived.
        writer: Takes the derived steps.
        changes: Told when derived data can be read.
        revisions: Bumped for every run whose derived data changed.
        facts: Keeps the facts of the steps judged here.
        now_ns: Wall clock, UTC nanoseconds.
        now_s: Monotonic clock, seconds.
    """

    def __init__(
        self,
        reader: Reader,
        writer: SerialWriter,
        changes: ChangeFeed,
        revisions: Revisions,
        facts: FactsReader,
        now_ns: Callable[[], int] = time.time_ns,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._changes = changes
        self._revisions = revisions
        self._stopping = threading.Event()
        self._assembler = StepAssembler(reader, facts, self._stopping.is_set)
        self._now_ns = now_ns
        self._now_s = now_s
        self._thread: threading.Thread | None = None
        self._condition = threading.Condition()
        # Shared under the condition.
        self._inbox = Touched()
        self._hurry = False
        self._busy = False
        # Of the closing thread alone.
        self._agenda: Agenda[StepKey] = Agenda()
        self._progress: OrderedDict[AttemptKey, AttemptProgress] = OrderedDict()
        self._num_tries: defaultdict[StepKey, int] = defaultdict(int)
        self._publish_due_s: float | None = None
        self._published_s = -_PULSE_S
        self._last_version: int | None = None
        self._num_derived = 0
        self._num_failed = 0

    @property
    def stats(self) -> ClosingStats:
        """The counters."""
        return ClosingStats(
            num_derived=self._num_derived,
            num_failed=self._num_failed + self._assembler.num_failed,
            num_waiting=len(self._agenda),
        )

    def start(self) -> None:
        """Start the thread; it first looks again at the runs heard from last."""
        self._thread = threading.Thread(target=self._run, name="step-closing", daemon=True)
        self._thread.start()

    def on_written(self, records: Records) -> None:
        """Take note of records that the store holds now. Cheap; callable from any thread."""
        touched = find_touched(records)
        self._revisions.touch()
        for run_id in touched.runs:
            self._revisions.bump(run_id)
        with self._condition:
            self._inbox.merge(touched)
            self._condition.notify_all()

    def on_joined(self, run_id: str) -> None:
        """Take note that a run holds other GPUs than before: its newest steps change."""
        with self._condition:
            self._inbox.merge(Touched(joined={run_id}, pulse=True))
            self._condition.notify_all()

    def drain(self, timeout_s: float) -> bool:
        """Derive everything noted so far without delay; tell whether it was tried in time."""
        with self._condition:
            self._hurry = True
            self._condition.notify_all()
            return self._condition.wait_for(
                lambda: not (self._hurry or self._busy or self._inbox), timeout_s
            )

    def close(self, timeout_s: float = 2.0) -> None:
        """Derive what was noted, within `timeout_s`, and end the thread.

        What is left is derived after the next start.
        """
        thread = self._thread
        if thread is None:
            return
        self.drain(timeout_s)
        with self._condition:
            self._stopping.set()
            self._condition.notify_all()
        thread.join()
        self._thread = None

    def recover(self) -> None:
        """Put the newest steps of the runs heard from last on the agenda.

        Raises:
            StoreError: The database failed.
        """
        since_ns = self._now_ns() - _RECOVER_NS
        # Rows come by run and attempt: what stays is the newest attempt of each run.
        rows = {row.start.run_id: row for row in self._reader.list_attempts()}
        newest = sorted(rows.values(), key=lambda row: -row.last_seen_ns)
        for index, row in enumerate(newest):
            if index < _RECOVER_RUNS or row.last_seen_ns >= since_ns:
                self._recover_attempt(row)

    def process(self) -> None:
        """Do what is due now. The thread calls it; tests may call it without a thread."""
        with self._condition:
            touched, self._inbox = self._inbox, Touched()
            hurry = self._hurry
            self._busy = True
        num_left = 0
        try:
            self._take_in(touched)
            due = self._agenda.take(math.inf if hurry else self._now_s())
            num_left = self._close_steps(due, judge_at_once=hurry)
            self._publish_when_due()
        finally:
            with self._condition:
                self._busy = False
                if hurry and not num_left and not self._inbox:
                    self._hurry = False
                self._condition.notify_all()

    def _run(self) -> None:
        self._guard(self.recover)
        while self._wait():
            self._guard(self.process)

    def _guard(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception:
            self._num_failed += 1
            _logger.exception("step closing stumbled and goes on")
            time.sleep(_FIRST_RETRY_S)

    def _wait(self) -> bool:
        """Wait until something is due; tell whether to go on."""
        times_s = [t for t in (self._agenda.next_due_s, self._publish_due_s) if t is not None]
        wait_s = max(0.0, min(times_s) - self._now_s()) if times_s else None
        with self._condition:
            self._condition.wait_for(
                lambda: self._inbox or self._hurry or self._stopping.is_set(), timeout=wait_s
            )
            return not self._stopping.is_set()

    def _take_in(self, touched: Touched) -> None:
        soon_s = self._now_s() + _GATHER_S
        if touched.opened:
            self._want_publish(0.0)
        elif touched.pulse:
            self._want_publish(_PULSE_S)
        try:
            self._take_in_windows(touched, soon_s)
            self._take_in_announcements(touched, soon_s)
            self._take_in_samples(touched)
            self._take_in_joined(touched, soon_s)
        except StoreError:
            self._num_failed += 1
            _logger.exception("what arrived waits for the store")
            with self._condition:
                self._inbox.merge(touched)
            time.sleep(_FIRST_RETRY_S)

    def _take_in_windows(self, touched: Touched, soon_s: float) -> None:
        for key in touched.windows:
            is_closed = self._progress_of(key.owner).is_closed(key.step)
            self._agenda.add(key, soon_s - _GATHER_S + _LATE_S if is_closed else soon_s)

    def _take_in_announcements(self, touched: Touched, due_s: float) -> None:
        for key, start_ns in touched.announced_ns.items():
            progress = self._progress_of(key.owner)
            if progress.announce(key.step, start_ns):
                before = progress.before(key.step)
                if before is not None:
                    self._agenda.add(StepKey(key.run_id, key.attempt, before), due_s)

    def _take_in_samples(self, touched: Touched) -> None:
        late_s = self._now_s() + _LATE_S
        for key in touched.samples:
            if self._progress_of(key.owner).is_closed(key.step):
                self._agenda.add(key, late_s)
        for owner, ends_ns in touched.loose_ends_ns.items():
            progress = self._progress_of(owner)
            for step in set(map(progress.closed_at, ends_ns)):
                if step is not None:
                    self._agenda.add(StepKey(owner.run_id, owner.attempt, step), late_s)

    def _take_in_joined(self, touched: Touched, due_s: float) -> None:
        for owner, progress in self._progress.items():
            if owner.run_id in touched.joined:
                for number in progress.newest(_REJOINED_STEPS):
                    self._agenda.add(StepKey(owner.run_id, owner.attempt, number), due_s)

    def _close_steps(self, keys: Iterable[StepKey], *, judge_at_once: bool) -> int:
        """Derive steps, the oldest of each attempt; return how many are left for the next turn."""
        by_attempt: defaultdict[AttemptKey, list[int]] = defaultdict(list)
        for key in keys:
            by_attempt[key.owner].append(key.step)
        num_left = 0
        for owner, numbers in by_attempt.items():
            # The oldest first: they are the baseline of those after them.
            numbers.sort()
            for number in numbers[_CHUNK_STEPS:]:
                self._agenda.add(StepKey(owner.run_id, owner.attempt, number), self._now_s())
                num_left += 1
            ledger_first = not judge_at_once and len(numbers) <= _MAX_LIVE_STEPS
            self._try_close_attempt(owner, numbers[:_CHUNK_STEPS], ledger_first=ledger_first)
        return num_left

    def _try_close_attempt(
        self, owner: AttemptKey, numbers: Sequence[int], *, ledger_first: bool
    ) -> None:
        try:
            failed = self._close_attempt(owner, numbers, ledger_first=ledger_first)
        except Exception:
            self._num_failed += 1
            _logger.exception("steps of run %s are derived later", owner.run_id)
            failed = numbers
        self._retry_later(owner, failed, numbers)

    def _close_attempt(
        self, owner: AttemptKey, numbers: Iterable[int], *, ledger_first: bool
    ) -> Sequence[int]:
        assembled = self._assembler.assemble(
            owner, self._progress_of(owner), numbers, ledger_first=ledger_first
        )
        if assembled.derived:
            self._writer.write_steps(assembled.derived, self._next_version())
            self._num_derived += len(assembled.derived)
            self._revisions.bump(owner.run_id)
            self._want_publish(0.0)
        for number in assembled.unjudged:
            key = StepKey(owner.run_id, owner.attempt, number)
            self._agenda.add(key, self._now_s() + _LATE_S)
        return assembled.failed

    def _retry_later(self, owner: AttemptKey, failed: Iterable[int], tried: Iterable[int]) -> None:
        failing = {StepKey(owner.run_id, owner.attempt, number) for number in failed}
        for number in tried:
            key = StepKey(owner.run_id, owner.attempt, number)
            if key not in failing:
                self._num_tries.pop(key, None)
        for key in failing:
            delay_s = min(_LONGEST_RETRY_S, _FIRST_RETRY_S * 2 ** self._num_tries[key])
            self._num_tries[key] += 1
            self._agenda.add(key, self._now_s() + delay_s)

    def _recover_attempt(self, row: AttemptRow) -> None:
        owner = AttemptKey(row.start.run_id, row.start.attempt)
        progress = self._progress_of(owner)
        recorded = self._reader.list_recorded_steps(owner.run_id, owner.attempt)
        numbers = {number for number in recorded if number not in progress}
        numbers.update(recorded[-_RECOVER_STEPS:])
        for number in numbers:
            self._agenda.add(StepKey(owner.run_id, owner.attempt, number), self._now_s())

    def _progress_of(self, owner: AttemptKey) -> AttemptProgress:
        progress = self._progress.get(owner)
        if progress is None:
            progress = AttemptProgress(
                (number, closed)
                for number, attempt, closed in self._reader.list_step_numbers(owner.run_id)
                if attempt == owner.attempt
            )
            self._progress[owner] = progress
            if len(self._progress) > _MAX_ATTEMPTS_KEPT:
                self._progress.popitem(last=False)
        self._progress.move_to_end(owner)
        return progress

    def _next_version(self) -> int:
        if self._last_version is None:
            # The clock may have been set back since, and the highest version is the valid one.
            self._last_version = self._reader.get_newest_step_version()
        self._last_version = max(self._last_version + 1, self._now_ns())
        return self._last_version

    def _want_publish(self, spacing_s: float) -> None:
        due_s = max(self._now_s(), self._published_s + spacing_s)
        if self._publish_due_s is None or due_s < self._publish_due_s:
            self._publish_due_s = due_s

    def _publish_when_due(self) -> None:
        now_s = self._now_s()
        if self._publish_due_s is not None and self._publish_due_s <= now_s:
            self._changes.publish(self._now_ns())
            self._publish_due_s = None
            self._published_s = now_s
