"""Delivers the spool to the server, in order, until the server has everything.

A batch that was delivered but not yet acknowledged to the spool when the agent died is sent
again under the same batch id, and the server knows it.
"""

import logging
import statistics
import threading
import time
from collections import deque
from collections.abc import Callable
from enum import Enum

from longpole.spool import Spool, SpoolError, SpoolRecord
from longpole_agent.batch import BatchDecodeError, decode_batch
from longpole_agent.counters import Counters
from longpole_agent.upstream import Answer, Upstream

_log = logging.getLogger(__name__)

_READ_RECORDS = 64
_READ_BYTES = 4 << 20
# Acknowledging costs an fsync, and a repeated batch costs nothing: once a second is enough.
_ACKNOWLEDGE_EVERY_S = 1.0
_MAX_RETRY_AFTER_S = 300.0
_LEAST_SPREAD_S = 1.0
# What says nothing of the batch: who asks, the address, and that it is the wrong moment.
_ABOUT_NO_BATCH = frozenset({401, 402, 403, 404, 405, 407, 408, 410, 421, 425, 426, 429, 451})
# OTLP says that 500 is final, yet a server in trouble answers so too: not at once, not for ever.
_MAX_ATTEMPTS_ON_SERVER_ERROR = 5
# Answers whose median tells how far the clocks are apart.
_CLOCK_ANSWERS = 15


class Outcome(Enum):
    """What to do with a batch after an answer."""

    DELIVERED = "delivered"
    RETRY = "retry"
    REJECTED = "rejected"


def judge(answer: Answer, attempt: int) -> Outcome:
    """Say what an answer means for its batch.

    Besides OTLP's retryable statuses, answers that would be the same for every batch (no answer,
    not authorised, redirected, no such path, nobody behind a proxy) keep the batch: the operator
    can mend them.

    Args:
        answer: What the server said.
        attempt: How often this batch was tried, from 1.
    """
    status = answer.status
    if status is None or status in _ABOUT_NO_BATCH or 300 <= status < 400 or status > 500:
        return Outcome.RETRY
    if 200 <= status < 300:
        return Outcome.DELIVERED
    if status == 500 and attempt < _MAX_ATTEMPTS_ON_SERVER_ERROR:
        return Outcome.RETRY
    return Outcome.REJECTED


class Forwarder:
    """Reads the spool and posts to the server, in one thread.

    Args:
        spool: What is to be delivered.
        upstream: The server.
        counters: `forwarded` and `rejected` are counted.
        first_delay_s: Delay after a first failure; doubles up to `max_delay_s`.
        max_delay_s: Bound of the delay.
        jitter: Gives numbers in 0..1; a delay is shortened by up to half, and one that the server
            asked for made longer by that, so that a cluster does not come back at once.
    """

    def __init__(
        self,
        spool: Spool,
        upstream: Upstream,
        counters: Counters,
        *,
        first_delay_s: float = 0.25,
        max_delay_s: float = 30.0,
        jitter: Callable[[], float],
    ) -> None:
        self._spool = spool
        self._upstream = upstream
        self._counters = counters
        self._first_delay_s = first_delay_s
        self._max_delay_s = max_delay_s
        self._jitter = jitter
        self._work = threading.Event()
        self._stop = threading.Event()
        self._draining = False
        self._delivered = spool.acknowledged
        self._acknowledged_at_s = time.monotonic()
        self._clocks: deque[float] = deque(maxlen=_CLOCK_ANSWERS)
        self._trouble = ""
        self._trouble_since_s = 0.0
        # Of the disk, one after the other.
        self._num_refusals = 0
        self._failure = ""
        self._on_failure: Callable[[], object] = _do_nothing
        self._thread = threading.Thread(target=self._run, name="forward", daemon=True)

    @property
    def trouble(self) -> str:
        """Why nothing is delivered at the moment, or an empty string."""
        return self._trouble

    @property
    def failure(self) -> str:
        """Why delivering ended for good (the disk refused), or an empty string."""
        return self._failure

    def start(self, on_failure: Callable[[], object]) -> None:
        """Begin to deliver; `on_failure` is called when that ends for good."""
        self._on_failure = on_failure
        self._thread.start()

    def wake(self) -> None:
        """Say that the spool has something new."""
        self._work.set()

    def close(self, timeout_s: float) -> None:
        """Deliver what the spool holds, at most for `timeout_s`, then stop.

        While the server is not reachable nothing is waited for: the spool keeps the data.
        """
        self._draining = True
        self._work.set()
        if self._trouble:
            self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        self._stop.set()
        self._upstream.close()
        if self._thread.is_alive():
            self._thread.join(1.0)

    def _run(self) -> None:
        while self._goes_on():
            pass

    def _goes_on(self) -> bool:
        """Do what is next; False when delivering has ended."""
        try:
            if self._stop.is_set() or not self._advance():
                self._acknowledge()
                return False
        except SpoolError as error:
            self._num_refusals += 1
            return self._survives(error)
        self._num_refusals = 0
        return True

    def _advance(self) -> bool:
        """Deliver what comes next, or wait for it; False when there is nothing more to do."""
        self._work.clear()
        records = self._spool.read(self._delivered, _READ_RECORDS, _READ_BYTES)
        if records:
            self._deliver_all(records)
        elif self._draining:
            return False
        else:
            self._rest()
        return True

    def _survives(self, error: SpoolError) -> bool:
        """Wait after a refusal of the disk that may pass; False when delivering ends with it."""
        if self._spool.failure or not self._spool.is_open:
            self._failure = str(error)
            self._on_failure()
            return False
        self._say_trouble(str(error))
        delay_s = self._delay_s(Answer(None), self._num_refusals)
        return not (self._draining or self._stop.wait(delay_s))

    def _rest(self) -> None:
        """Wait for work; acknowledge what was delivered when that is due first."""
        if self._delivered == self._spool.acknowledged:
            self._work.wait()
        elif not self._work.wait(self._acknowledge_in_s()):
            self._acknowledge()

    def _deliver_all(self, records: list[SpoolRecord]) -> None:
        for record in records:
            if not self._deliver(record):
                return
            self._delivered = record.sequence
            if self._acknowledge_in_s() <= 0:
                self._acknowledge()

    def _deliver(self, record: SpoolRecord) -> bool:
        """Deliver or reject one record; False when stopped before that was decided."""
        try:
            batch = decode_batch(record.payload)
        except BatchDecodeError as error:
            self._reject(record, str(error))
            return True
        batch_id = batch.make_id(record.sequence)
        attempt = 0
        while not self._stop.is_set():
            attempt += 1
            answer = self._upstream.post(batch, batch_id)
            self._note_clock(answer)
            outcome = judge(answer, attempt)
            if outcome is Outcome.RETRY:
                self._note_trouble(answer)
                if self._draining or self._stop.wait(self._delay_s(answer, attempt)):
                    self._stop.set()
                    return False
                continue
            self._note_recovery()
            if outcome is Outcome.DELIVERED:
                self._counters.forwarded += 1
            else:
                self._reject(record, f"{answer.status} {answer.reason}".strip())
            return True
        return False

    def _delay_s(self, answer: Answer, attempt: int) -> float:
        if answer.retry_after_s is not None:
            asked_s = min(answer.retry_after_s, _MAX_RETRY_AFTER_S)
            return asked_s + self._jitter() * max(_LEAST_SPREAD_S, asked_s / 2.0)
        delay_s = min(self._first_delay_s * 2.0 ** min(attempt - 1, 30), self._max_delay_s)
        return delay_s * (1.0 - self._jitter() / 2.0)

    def _acknowledge_in_s(self) -> float:
        return self._acknowledged_at_s + _ACKNOWLEDGE_EVERY_S - time.monotonic()

    def _acknowledge(self) -> None:
        self._spool.acknowledge(self._delivered)
        self._acknowledged_at_s = time.monotonic()

    def _reject(self, record: SpoolRecord, reason: str) -> None:
        self._counters.rejected += 1
        _log.warning("the server refused batch %d, dropped: %s", record.sequence, reason)

    def _note_clock(self, answer: Answer) -> None:
        if answer.clock_ahead_s is not None:
            self._clocks.append(answer.clock_ahead_s)
            self._counters.clock_ahead_s = statistics.median(self._clocks)

    def _note_trouble(self, answer: Answer) -> None:
        said = answer.reason if answer.status is None else f"{answer.status} {answer.reason}"
        if answer.status in {401, 403}:
            said = f"{said} (set LONGPOLE_TOKEN or --token-file)"
        elif answer.status in {404, 405}:
            said = f"{said} (is --server the address of a Longpole server?)"
        self._say_trouble(said)

    def _say_trouble(self, said: str) -> None:
        if not self._trouble:
            self._trouble_since_s = time.monotonic()
        if said != self._trouble:
            _log.warning("cannot deliver, data stays in the spool: %s", said)
        self._trouble = said

    def _note_recovery(self) -> None:
        if self._trouble:
            away_s = time.monotonic() - self._trouble_since_s
            _log.info("delivering again after %.0f s", away_s)
            self._trouble = ""


def _do_nothing() -> None:
    pass
