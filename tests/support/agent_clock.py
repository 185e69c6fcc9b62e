"""A clock that a test moves."""

import threading


class FakeClock:
    """`Clock` whose waits move time at once, unless `paused`.

    Attributes:
        now: Wall clock, nanoseconds.
        monotonic: The other one, nanoseconds.
        waits: Seconds of each wait.
        oversleep_s: Each wait takes so much longer than asked.
        on_wait: Called at the beginning of each wait.
    """

    def __init__(self, now_s: float) -> None:
        self.now = round(now_s * 1e9)
        self.monotonic = 77_000_000_000
        self.waits: list[float] = []
        self.oversleep_s: list[float] = []
        self.wall_steps_s: list[float] = []

    def now_ns(self) -> int:
        return self.now

    def monotonic_ns(self) -> int:
        return self.monotonic

    def advance(self, seconds: float) -> None:
        self.now += round(seconds * 1e9)
        self.monotonic += round(seconds * 1e9)

    def wait(self, stop: threading.Event, seconds: float) -> bool:
        self.waits.append(seconds)
        if not stop.is_set():
            self.advance(seconds + (self.oversleep_s.pop(0) if self.oversleep_s else 0.0))
            self.now += round((self.wall_steps_s.pop(0) if self.wall_steps_s else 0.0) * 1e9)
        return stop.is_set()
