"""How often somebody may try a password."""

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable

_MAX_KEYS = 10_000


class FailedAttempts:
    """Counts failures by address and by name in a window that slides.

    Bounded: of more than 10,000 keys the one whose failure is oldest is forgotten.

    Args:
        max_failures: In the window, by one key, before it has to wait.
        window_s: How long a failure counts.
    """

    def __init__(
        self,
        max_failures: int = 10,
        window_s: float = 300.0,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_failures = max_failures
        self._window_s = window_s
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._failures: OrderedDict[str, deque[float]] = OrderedDict()
        # When one that has to wait was last told of.
        self._told: OrderedDict[str, float] = OrderedDict()

    def wait_s(self, *keys: str) -> float:
        """Return how long these have to wait before another attempt; 0 for not at all."""
        with self._lock:
            return max((self._wait_of(key) for key in keys), default=0.0)

    def add(self, *keys: str) -> None:
        """Count a failure of each of these."""
        now_s = self._clock_s()
        with self._lock:
            for key in keys:
                failures = self._failures.setdefault(key, deque(maxlen=self._max_failures))
                failures.append(now_s)
                self._failures.move_to_end(key)
            while len(self._failures) > _MAX_KEYS:
                self._failures.popitem(last=False)

    def is_news(self, *keys: str) -> bool:
        """Tell whether it is worth a word that these have to wait: once in a window.

        Who is refused may go on asking as fast as the network carries it, and must not fill with
        it what others are written down in.
        """
        now_s = self._clock_s()
        with self._lock:
            waiting = [key for key in keys if self._wait_of(key) > 0]
            news = [
                key
                for key in waiting
                if now_s - self._told.get(key, -self._window_s) >= self._window_s
            ]
            for key in news:
                self._told[key] = now_s
                self._told.move_to_end(key)
            while len(self._told) > _MAX_KEYS:
                self._told.popitem(last=False)
            return bool(news)

    def forget(self, *keys: str) -> None:
        """Forget the failures of these: they proved who they are."""
        with self._lock:
            for key in keys:
                self._failures.pop(key, None)

    def _wait_of(self, key: str) -> float:
        failures = self._failures.get(key)
        if failures is None or len(failures) < self._max_failures:
            return 0.0
        return max(0.0, failures[0] + self._window_s - self._clock_s())
