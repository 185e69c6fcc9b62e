"""Evaluates alert rules: when steps close, and as time goes by. In a thread of its own.

It reads over connections of its own and nobody waits for it: a stuck evaluation delays alerts and
nothing else, and shows in `AlertingStats.age_s`: at `/api/v1/ready`, at `/metrics` and on the
page of alerts.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from longpole_server.alerts.history import History, Moment, OwnState, RunContext, StepPoint
from longpole_server.errors import NotFoundError
from longpole_server.model.run import RunSummary
from longpole_server.service.alert_book import StoredBook
from longpole_server.service.alert_histories import Hardware, HistoryReader
from longpole_server.service.revisions import Revisions
from longpole_server.service.runs import RunsReader

_logger = logging.getLogger(__name__)

_POLL_S = 0.5
_TICK_S = 10.0
# A step changes several times while its scalars and samples come in: not each is worth a look.
_STEPS_EVERY_S = 4.0
# After a start nothing is called silent before senders had time to come back.
GRACE_S = 60.0
# Steps and ends older than this are history: late data never pages.
LATE_NS = 15 * 60 * 10**9
# A run that has been gone for so long is no news any more.
_FORGOTTEN_NS = 86_400 * 10**9
# An evaluation that takes longer than this is stuck.
STUCK_AFTER_S = 120.0
_DROPPED_WINDOW_S = 300.0
_ALIVE = ("live", "stalled")
_OUTLIVES_ITS_RUN = frozenset({"trainer.gone"})
_Failed = TypeVar("_Failed", int, None)


@dataclass(frozen=True, slots=True)
class OwnReading:
    """The server's own figures, totals since its start.

    Attributes:
        lag_s: For how long what is stored next has been waiting.
    """

    num_pending: int
    num_dropped_total: int
    disk_used_ratio: float | None = None
    disk_free_bytes: int | None = None
    lag_s: float = 0.0


@dataclass(frozen=True, slots=True)
class AlertSources:
    """What tells the evaluator when and about what to judge.

    Attributes:
        runs: Answers for runs.
        revisions: Says which runs have new steps.
        read_own: Reads the server's own figures.
        may_act: Tells whether this server is the one of several on the database that acts.
    """

    runs: RunsReader
    revisions: Revisions
    read_own: Callable[[], OwnReading]
    may_act: Callable[[], bool] = lambda: True


@dataclass(frozen=True, slots=True)
class AlertingStats:
    """Counters since the start.

    Attributes:
        age_s: Seconds since a round ended last; it grows when one is stuck, and while none can be
            judged at all.
        round_s: How long the last round took that judged anything.
    """

    num_rounds: int
    num_failed: int
    age_s: float
    round_s: float


class AlertEvaluator:
    """Judges rules in its own thread, which never ends by itself.

    Args:
        book: Takes what comes of it.
        histories: Reads what is judged.
        sources: What there is to judge.
        on_change: Told after alerts changed.
        now_ns: Wall clock, UTC nanoseconds.
        now_s: Monotonic clock, seconds.
        grace_s: Seconds after the start in which nothing is judged by time.
    """

    def __init__(
        self,
        book: StoredBook,
        histories: HistoryReader,
        sources: AlertSources,
        on_change: Callable[[], None],
        now_ns: Callable[[], int] = time.time_ns,
        now_s: Callable[[], float] = time.monotonic,
        grace_s: float = GRACE_S,
    ) -> None:
        self._book = book
        self._histories = histories
        self._runs = sources.runs
        self._revisions = sources.revisions
        self._read_own = sources.read_own
        self._may_act = sources.may_act
        self._on_change = on_change
        self._now_ns = now_ns
        self._now_s = now_s
        self._grace_s = grace_s
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._started_s = now_s()
        self._next_tick_s = self._started_s
        self._seen_revisions: dict[str, int] = {}
        self._judged_s: dict[str, float] = {}
        # By run: attempt and the newest step that was judged.
        self._judged: dict[str, tuple[int, int]] = {}
        self._dropped: deque[tuple[float, int]] = deque()
        # By run: when its newest rows came from another server.
        self._arrived_ns: dict[str, int] = {}
        # By node: its newest data, and when that was first seen, on this server's clock.
        self._heard: dict[str, tuple[int, int]] = {}
        self._is_failing = False
        self._num_rounds = 0
        self._num_failed = 0
        self._ended_s = self._started_s
        self._round_s = 0.0

    @property
    def stats(self) -> AlertingStats:
        """The counters."""
        age_s = self._now_s() - self._ended_s if self._thread is not None else 0.0
        return AlertingStats(self._num_rounds, self._num_failed, age_s, self._round_s)

    @property
    def is_stuck(self) -> bool:
        """Whether a round has been running for far too long."""
        return self.stats.age_s > STUCK_AFTER_S

    def start(self) -> None:
        """Start the thread."""
        self._started_s = self._next_tick_s = self._ended_s = self._now_s()
        self._thread = threading.Thread(target=self._run, name="alerting", daemon=True)
        self._thread.start()

    def close(self, timeout_s: float = 5.0) -> None:
        """End the thread and write what is held back."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout_s)
            self._thread = None
        self._book.flush()

    def note_arrival(self, run_id: str) -> None:
        """Take a run that came from another server for history until a sender speaks of it here."""
        self._arrived_ns[run_id] = self._now_ns()

    def process(self) -> None:
        """Do what is due now. The thread calls it; tests may call it without a thread."""
        begun_s = self._now_s()
        if not self._may_act():
            self._ended_s = begun_s
            return
        num_events = 0
        for run_id in self._take_changed_runs():
            found = self._guard(lambda run_id=run_id: self._judge_steps(run_id), failed=None)
            if found is None:
                # Looked at again though nothing of it changes.
                self._seen_revisions.pop(run_id, None)
            num_events += found or 0
        if begun_s >= self._next_tick_s:
            self._next_tick_s = begun_s + _TICK_S
            found = self._guard(self._judge_time, failed=None)
            self._is_failing = found is None
            num_events += found or 0
            self._num_rounds += 1
            self._round_s = self._now_s() - begun_s
        if num_events:
            self._on_change()
        if not self._is_failing:
            self._ended_s = self._now_s()

    def _run(self) -> None:
        while not self._stop.wait(_POLL_S):
            self._guard(self._process, failed=None)

    def _process(self) -> int:
        self.process()
        return 0

    def _guard(self, work: Callable[[], int], failed: _Failed = 0) -> "int | _Failed":
        try:
            return work()
        except NotFoundError:
            return 0
        except Exception:
            # What is read is closed soon after the thread is told to end, or amid a round.
            if not self._stop.is_set():
                self._num_failed += 1
                _logger.exception("alert rules are judged again later")
            return failed

    def _take_changed_runs(self) -> list[str]:
        """Return runs that changed; one that was judged just now has its turn a little later."""
        revisions, now_s = self._revisions.snapshot(), self._now_s()
        changed = [
            run_id
            for run_id, revision in revisions.items()
            if self._seen_revisions.get(run_id) != revision
            and now_s - self._judged_s.get(run_id, -_STEPS_EVERY_S) >= _STEPS_EVERY_S
        ]
        for run_id in changed:
            self._seen_revisions[run_id] = revisions[run_id]
            self._judged_s[run_id] = now_s
        return changed

    def _judge_steps(self, run_id: str) -> int:
        row = self._runs.list_attempts(run_id)[-1]
        if row.start.imported or self._is_history(run_id, row.last_seen_ns):
            return 0
        kept = self._histories.update_steps(run_id, row.start.attempt)
        points = kept.points
        if not points:
            return 0
        run = self._histories.describe_attempt(row, kept)
        attempt, judged = self._judged.get(run_id, (row.start.attempt, -1))
        if attempt != row.start.attempt:
            judged = -1
        late_ns = self._now_ns() - LATE_NS
        num_events = 0
        for index, point in enumerate(points):
            # The newest judged step is judged again: its scalars and samples come in late.
            if point.step.step >= judged and (point.step.end_ns or 0) >= late_ns:
                num_events += self._judge_step(run, points[: index + 1], kept.opening)
        self._judged[run_id] = (row.start.attempt, points[-1].step.step)
        return num_events

    def _judge_step(
        self, run: RunContext, points: Sequence[StepPoint], opening: Sequence[StepPoint]
    ) -> int:
        step = points[-1].step
        end_ns = step.end_ns if step.end_ns is not None else step.start_ns
        moment = Moment(end_ns, self._book.next_decided_ns(), step.step)
        at_step = replace(run, last_progress_ns=max(end_ns, run.started_ns))
        history = History(moment, at_step, points, opening=opening)
        return len(self._book.evaluate(history, "step"))

    def _judge_time(self) -> int:
        own = self._measure_own()
        if own.up_s < self._grace_s:
            return 0
        # First what needs no database: it may be what is wrong.
        num_events = self._judge_server(own)
        # Runs and nodes are judged as of the time of which the store knows: what still waits to be
        # stored makes nobody silent.
        now_ns = self._now_ns() - round(own.lag_s * 1e9)
        known = self._runs.list_summaries()
        self._book.end_unknown_runs({run.run_id for run in known})
        summaries = [
            run
            for run in known
            if run.state != "imported" and not self._is_history(run.run_id, run.last_seen_ns)
        ]
        alive = [run for run in summaries if run.state in _ALIVE]
        hardware = self._histories.read_hardware(now_ns) if alive else None
        if hardware is not None:
            self._note_heard(hardware, now_ns)
        for run in summaries:
            # What cannot be judged of one run must not keep the others from it.
            if run.state in _ALIVE and hardware is not None:
                num_events += self._guard(
                    lambda run=run, seen=hardware: self._judge_alive(run, seen, own, now_ns)
                )
            elif self._book.has_open(run.run_id) or now_ns - run.last_seen_ns < LATE_NS:
                num_events += self._guard(lambda run=run: self._judge_over(run, now_ns))
        return num_events

    def _is_history(self, run_id: str, last_seen_ns: int) -> bool:
        return last_seen_ns <= self._arrived_ns.get(run_id, last_seen_ns - 1)

    def _note_heard(self, hardware: Hardware, now_ns: int) -> None:
        """Note whose data is newer than at the last look: whatever a node's clock says."""
        before, self._heard = self._heard, {}
        for host, newest_ns in hardware.hosts.items():
            known = before.get(host)
            is_news = known is None or known[0] != newest_ns
            self._heard[host] = (newest_ns, now_ns) if is_news or known is None else known

    def _judge_server(self, own: OwnState) -> int:
        history = History(self._at(self._now_ns()), own=own)
        return len(self._book.evaluate(history, "time"))

    def _judge_alive(
        self, summary: RunSummary, hardware: Hardware, own: OwnState, now_ns: int
    ) -> int:
        points = self._histories.list_steps(summary.run_id, summary.attempt).points
        run = self._histories.describe_run(summary, points)
        gpus = self._histories.list_gpus(summary.run_id, summary.attempt, hardware)
        hosts = [
            replace(host, heard_ns=self._heard[host.host][1])
            for host in self._histories.list_hosts(summary.run_id, summary.attempt, gpus, hardware)
        ]
        history = History(self._at(now_ns), run, points, gpus, hosts, own)
        return len(self._book.evaluate(history, "time"))

    def _judge_over(self, summary: RunSummary, now_ns: int) -> int:
        points = self._histories.list_steps(summary.run_id, summary.attempt).points
        run = self._histories.describe_run(summary, points)
        history = History(self._at(now_ns), run, points)
        silent_ns = now_ns - summary.last_seen_ns
        num_events = 0
        if silent_ns < LATE_NS:
            num_events = len(self._book.evaluate(history, "time"))
        keep = _OUTLIVES_ITS_RUN if silent_ns < _FORGOTTEN_NS else frozenset[str]()
        self._book.end_run(history, f"the run is {summary.state}", keep)
        return num_events + 1

    def _at(self, ts_ns: int) -> Moment:
        return Moment(ts_ns, self._book.next_decided_ns())

    def _measure_own(self) -> OwnState:
        reading, now_s = self._read_own(), self._now_s()
        self._dropped.append((now_s, reading.num_dropped_total))
        while now_s - self._dropped[0][0] > _DROPPED_WINDOW_S:
            self._dropped.popleft()
        return OwnState(
            up_s=now_s - self._started_s,
            num_pending=reading.num_pending,
            num_dropped=reading.num_dropped_total - self._dropped[0][1],
            dropped_window_s=_DROPPED_WINDOW_S,
            disk_used_ratio=reading.disk_used_ratio,
            disk_free_bytes=reading.disk_free_bytes,
            lag_s=reading.lag_s,
        )
