"""Follows the server that writes, for one that only shows: feeds its change feed and revisions."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from longpole_server.errors import ServerError, StoreError
from longpole_server.service.changes import ChangeFeed
from longpole_server.service.news import News, Seen
from longpole_server.service.revisions import Revisions

_logger = logging.getLogger(__name__)

# The other server answers at once when something changed, and else after this long.
WAIT_S = 1.0
_RETRY_S = 1.0
# Without it, runs that may be alive are read again this often: it may be there for others.
_BLIND_LOOK_S = 5.0
# How often what lies in the store alone is looked at.
_ROUND_S = 1.0


class NewsSource(Protocol):
    """Where news come from."""

    def ask(self, seen: Seen, wait_s: float) -> News:
        """Return what changed since. Raises `ServerError` where nobody answers."""
        ...


@dataclass(frozen=True, slots=True)
class Clocks:
    """Wall clock in UTC nanoseconds, and a monotonic one in seconds."""

    now_ns: Callable[[], int] = time.time_ns
    now_s: Callable[[], float] = time.monotonic


class Follower:
    """Asks for news again and again, on a thread of its own.

    Args:
        source: Answers.
        changes: Told when something new can be read.
        revisions: Told of which runs.
        list_live: Returns the runs that may change although nobody tells.
        settle_s: A replica of the database may show what was written so much later; 0: never.
    """

    def __init__(
        self,
        source: NewsSource,
        changes: ChangeFeed,
        revisions: Revisions,
        list_live: Callable[[], Sequence[str]],
        settle_s: float = 0.0,
        clocks: Clocks | None = None,
    ) -> None:
        self._source = source
        self._changes = changes
        self._revisions = revisions
        self._list_live = list_live
        self._settle_s = settle_s
        self._clocks = clocks or Clocks()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._seen = Seen()
        self._news: News | None = None
        # When a run is to be read once more.
        self._unsettled: dict[str, float] = {}
        self._looked_s = 0.0
        self._away_since_s: float | None = self._clocks.now_s()
        self._failure = "it was not reached yet"
        self.num_failed = 0

    @property
    def away_s(self) -> float:
        """For how many seconds the other server has not answered, 0 while it does."""
        since_s = self._away_since_s
        return 0.0 if since_s is None else max(0.001, self._clocks.now_s() - since_s)

    @property
    def lag_s(self) -> float:
        """How far the other server was behind with what it takes, as it said last."""
        return 0.0 if self._news is None else self._news.lag_s

    def list_notes(self, run_id: str) -> Sequence[str]:
        """Return why GPUs of a run's nodes were not joined to it, as it was told last."""
        return () if self._news is None else self._news.notes.get(run_id, ())

    def explain_blindness(self) -> str | None:
        """Return why nothing new can fire, as far as is known here."""
        if self._away_since_s is not None:
            return (
                "The server that takes data and judges rules does not answer: what is shown was"
                f" stored before, and what fires now is not known. ({self._failure})"
            )
        return self._news.blind if self._news is not None else None

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="following", daemon=True)
        self._thread.start()

    def close(self, timeout_s: float = 2.0) -> None:
        """End the thread; one that waits for an answer is left behind."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout_s)
            self._thread = None

    def follow(self) -> bool:
        """Ask once, and take in what is answered; tell whether anybody did."""
        try:
            news = self._source.ask(self._seen, WAIT_S)
        except ServerError as error:
            self._note_silence(error)
            self._look_blindly()
            return False
        if self._away_since_s is not None:
            _logger.info("the server that writes answers")
            self._away_since_s = None
        self._take(news)
        self._settle()
        return True

    def _take(self, news: News) -> None:
        is_new = news.is_everything or news.version != self._seen.version
        if news.is_everything:
            self._revisions.bump_every()
        self._bump(news.runs)
        if self._settle_s:
            due_s = self._clocks.now_s() + self._settle_s
            self._unsettled.update(dict.fromkeys(news.runs, due_s))
        self._news = news
        self._seen = Seen(news.epoch, news.version, news.writes)
        if is_new:
            self._changes.publish(news.ts_ns or self._clocks.now_ns())

    def _settle(self) -> None:
        now_s = self._clocks.now_s()
        due = [run_id for run_id, due_s in self._unsettled.items() if due_s <= now_s]
        for run_id in due:
            del self._unsettled[run_id]
        self._bump(due)
        if due:
            self._changes.publish(self._clocks.now_ns())

    def _bump(self, run_ids: Sequence[str]) -> None:
        for run_id in run_ids:
            self._revisions.bump(run_id)

    def _note_silence(self, error: ServerError) -> None:
        self.num_failed += 1
        if self._away_since_s is None or self.num_failed == 1:
            _logger.warning("the server that writes does not answer: %s", error.message)
        if self._away_since_s is None:
            self._away_since_s = self._clocks.now_s()
        self._failure = error.message

    def _look_blindly(self) -> None:
        now_s = self._clocks.now_s()
        if self._looked_s and now_s - self._looked_s < _BLIND_LOOK_S:
            return
        self._looked_s = now_s
        try:
            self._bump(self._list_live())
        except StoreError as error:
            _logger.warning("neither does the store: %s", error.message)
            return
        self._changes.publish(self._clocks.now_ns())

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                has_answered = self.follow()
            except Exception:
                _logger.exception("the server that writes is asked again")
                has_answered = False
            if not has_answered:
                self._stop.wait(_RETRY_S)


class StoreRounds:
    """Looks at the store each second, on a thread of its own.

    Args:
        look: Reads, and tells whether anything is new. Raises `StoreError`.
        on_news: Called when there is.
    """

    def __init__(self, look: Callable[[], bool], on_news: Callable[[], None]) -> None:
        self._look = look
        self._on_news = on_news
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._is_failing = False

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="store-rounds", daemon=True)
        self._thread.start()

    def close(self, timeout_s: float = 2.0) -> None:
        """End the thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout_s)
            self._thread = None

    def _run(self) -> None:
        while not self._stop.wait(_ROUND_S):
            try:
                is_new = self._look()
            except StoreError as error:
                if not self._is_failing:
                    _logger.warning("the store is looked at later: %s", error.message)
                self._is_failing = True
                continue
            except Exception:
                _logger.exception("the store is looked at later")
                continue
            self._is_failing = False
            if is_new:
                self._on_news()
