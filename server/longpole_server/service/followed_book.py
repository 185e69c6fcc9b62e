"""Alerts as another server stored them: read again each second, never written."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence

from longpole_server.alerts.book import AlertBook
from longpole_server.alerts.catalogue import BUILT_IN_RULES
from longpole_server.alerts.rule import Rule
from longpole_server.alerts.user_rules import make_rule
from longpole_server.model.alert import Alert, AlertEvent, Silence, UserRule
from longpole_server.read.alerts import AlertReader

# As far back as the server that judges remembers.
_REMEMBERED_NS = 14 * 86_400 * 10**9
# What is written late was decided before: so much is read again each time.
_OVERLAP_NS = 300 * 10**9
# And everything now and then: events apply in the order in which they were decided.
_WHOLE_EVERY_S = 600.0
_MAX_KNOWN = 20_000


class FollowedBook:
    """What the stored events add up to. Thread-safe.

    Args:
        reader: Reads the store.
    """

    def __init__(
        self,
        reader: AlertReader,
        now_ns: Callable[[], int] = time.time_ns,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reader = reader
        self._now_ns = now_ns
        self._now_s = now_s
        self._lock = threading.Lock()
        self._reading = threading.Lock()
        self._book = AlertBook()
        self._known: OrderedDict[str, None] = OrderedDict()
        self._read_whole_s: float | None = None
        self._silences: tuple[Silence, ...] = ()
        self._user_rules: tuple[UserRule, ...] = ()

    def refresh(self) -> bool:
        """Read what is new; tell whether anything was.

        Raises:
            StoreError: The database failed; what was known stays.
        """
        with self._reading:
            is_new = self._read_events()
            silences = tuple(self._reader.list_silences())
            rules = tuple(self._reader.list_user_rules())
            is_new = is_new or (silences, rules) != (self._silences, self._user_rules)
            self._silences, self._user_rules = silences, rules
        return is_new

    def _read_events(self) -> bool:
        """Apply the events that are new; from time to time begin anew."""
        now_s, now_ns = self._now_s(), self._now_ns()
        if self._read_whole_s is None or now_s - self._read_whole_s > _WHOLE_EVERY_S:
            events = self._reader.list_events_since(now_ns - _REMEMBERED_NS)
            news = [event for event in events if event.event_id not in self._known]
            book = AlertBook(events)
            with self._lock:
                self._book = book
            self._read_whole_s = now_s
        else:
            events = self._reader.list_decided_since(now_ns - _OVERLAP_NS)
            news = [event for event in events if event.event_id not in self._known]
            with self._lock:
                for event in news:
                    self._book.apply(event)
        self._remember(news)
        return bool(news)

    def _remember(self, events: Sequence[AlertEvent]) -> None:
        for event in events:
            self._known[event.event_id] = None
        while len(self._known) > _MAX_KNOWN:
            self._known.popitem(last=False)

    @property
    def silences(self) -> tuple[Silence, ...]:
        """All silences, also those that are over."""
        return self._silences

    @property
    def rules(self) -> tuple[Rule, ...]:
        """All rules."""
        return (*BUILT_IN_RULES, *map(make_rule, self._user_rules))

    def list_alerts(self) -> list[Alert]:
        """Return open alerts and those that were over not long ago, newest first."""
        with self._lock:
            return self._book.list_all()

    def count_firing(self, run_id: str) -> int:
        """Return how many alerts of a run are firing."""
        with self._lock:
            return self._book.count_firing(run_id)
