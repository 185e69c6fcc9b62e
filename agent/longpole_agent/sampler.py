"""Samples all sources at a fixed phase of the wall clock: on the whole second at 1 Hz.

Every tick asks each source in a thread of its own and waits a part of the interval. A source that
takes longer misses the ticks it is busy for, and its points go out with a later tick, under the
time they were asked for. Nobody waits for it.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from longpole_agent.clock import Clock
from longpole_agent.counters import Counters
from longpole_agent.sources.source import Point, Source

_log = logging.getLogger(__name__)

# Part of the interval that a tick waits for its sources.
_PATIENCE_RATIO = 0.5


@dataclass(frozen=True, slots=True)
class SourceState:
    """How a source did lately, for the health page."""

    name: str
    num_points: int
    num_missed: int
    error: str


class Sampler:
    """One ticking thread, and one thread per source.

    Args:
        sources: What to sample.
        interval_s: Time between ticks.
        publish: Takes the points of one tick.
        counters: `missed_ticks` is counted: once per source that was busy, once per source for
            every tick that the ticking thread itself slept through.
        clock: The time.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        interval_s: float,
        publish: Callable[[list[Point]], None],
        counters: Counters,
        clock: Clock,
    ) -> None:
        self._workers = [_Worker(source) for source in sources]
        self._interval_ns = round(interval_s * 1e9)
        self._publish = publish
        self._counters = counters
        self._clock = clock
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    @property
    def states(self) -> list[SourceState]:
        """How each source does."""
        return [worker.state for worker in self._workers]

    def start(self) -> None:
        """Begin to tick."""
        for worker in self._workers:
            worker.start()
        self._thread.start()

    def close(self, timeout_s: float = 1.0) -> None:
        """Stop ticking and close the sources; one that hangs is left behind."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        for worker in self._workers:
            worker.close(timeout_s)

    def _run(self) -> None:
        last: tuple[int, int] | None = None
        while (tick_ns := self._wait_for_tick()) is not None:
            now_ns = self._clock.monotonic_ns()
            if last is not None:
                self._count_slept_through(tick_ns - last[0], now_ns - last[1])
            last = (tick_ns, now_ns)
            self._tick(tick_ns)

    def _wait_for_tick(self) -> int | None:
        """Return the time of the next tick once it has come, None when stopped.

        The wall clock may be set while waiting.
        """
        interval_ns = self._interval_ns
        tick_ns = (self._clock.now_ns() // interval_ns + 1) * interval_ns
        while (left_ns := tick_ns - self._clock.now_ns()) > 0:
            if left_ns > interval_ns:
                tick_ns = (self._clock.now_ns() // interval_ns + 1) * interval_ns
            elif self._clock.wait(self._stop, left_ns / 1e9):
                return None
        if self._stop.is_set():
            return None
        return max(tick_ns, self._clock.now_ns() // interval_ns * interval_ns)

    def _tick(self, tick_ns: int) -> None:
        asked = [worker for worker in self._workers if worker.ask(tick_ns)]
        self._counters.missed_ticks += len(self._workers) - len(asked)
        deadline_ns = self._clock.monotonic_ns() + int(self._interval_ns * _PATIENCE_RATIO)
        for worker in asked:
            worker.wait(max(0, deadline_ns - self._clock.monotonic_ns()) / 1e9)
        points = [point for worker in self._workers for point in worker.take()]
        if points:
            self._publish(points)

    def _count_slept_through(self, ticks_apart_ns: int, apart_ns: int) -> None:
        # By both clocks: setting the wall clock misses nothing, nor does waking up late.
        num_ticks = min(
            round(ticks_apart_ns / self._interval_ns), round(apart_ns / self._interval_ns)
        )
        self._counters.missed_ticks += max(0, num_ticks - 1) * len(self._workers)


class _Worker:
    """A source and the thread that calls it."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._changed = threading.Condition()
        self._asked_ns: int | None = None
        self._points: list[Point] = []
        self._closed = False
        self._state = SourceState(source.name, 0, 0, "")
        self._thread = threading.Thread(target=self._run, name=f"source {source.name}", daemon=True)

    @property
    def state(self) -> SourceState:
        return self._state

    def start(self) -> None:
        self._thread.start()

    def ask(self, tick_ns: int) -> bool:
        """Ask for a sample; False when the source is still busy with an earlier one."""
        with self._changed:
            if self._asked_ns is not None:
                self._state = replace(self._state, num_missed=self._state.num_missed + 1)
                return False
            self._asked_ns = tick_ns
            self._changed.notify_all()
            return True

    def wait(self, timeout_s: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._asked_ns is None, timeout_s)

    def take(self) -> list[Point]:
        with self._changed:
            points, self._points = self._points, []
            return points

    def close(self, timeout_s: float) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        if self._thread.is_alive():
            _log.warning("source %s hangs, left behind", self._source.name)
        else:
            self._source.close()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._asked_ns is not None or self._closed)
                if self._closed or self._asked_ns is None:
                    return
                tick_ns = self._asked_ns
            points, error = self._sample(tick_ns)
            with self._changed:
                self._points += points
                self._asked_ns = None
                self._state = replace(self._state, num_points=len(points), error=error)
                self._changed.notify_all()

    def _sample(self, tick_ns: int) -> tuple[Sequence[Point], str]:
        try:
            return self._source.sample(tick_ns), ""
        except Exception as error:  # noqa: BLE001 - one broken source must not stop the others
            if str(error) != self._state.error:
                _log.exception("source %s failed", self._source.name)
            return [], str(error) or type(error).__name__
