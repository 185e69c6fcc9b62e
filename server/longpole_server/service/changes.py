"""The change feed: tells readers that something new can be seen, without polling the store."""

import asyncio
import threading
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Change:
    """The state of the feed. `version` grows by one with every published change."""

    version: int
    ts_ns: int


class ChangeFeed:
    """Publishes from any thread, waits in any event loop. Keeps only the newest change."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._change = Change(version=0, ts_ns=0)
        self._waiters: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()

    @property
    def current(self) -> Change:
        """The newest change."""
        return self._change

    def publish(self, ts_ns: int) -> None:
        """Announce that data as of `ts_ns` (UTC nanoseconds) can be read. Callable anywhere."""
        with self._lock:
            self._change = Change(self._change.version + 1, ts_ns)
            waiters = tuple(self._waiters)
        for loop, event in waiters:
            if not loop.is_closed():
                loop.call_soon_threadsafe(event.set)

    async def wait(self, after_version: int, timeout_s: float) -> Change:
        """Return the newest change once its version exceeds `after_version`, or at the timeout."""
        event = asyncio.Event()
        waiter = (asyncio.get_running_loop(), event)
        with self._lock:
            if self._change.version > after_version:
                return self._change
            self._waiters.add(waiter)
        try:
            await asyncio.wait_for(event.wait(), timeout_s)
        except TimeoutError:
            pass
        finally:
            with self._lock:
                self._waiters.discard(waiter)
        return self._change
