"""Time as an argument."""

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """What the sampler knows of time."""

    def now_ns(self) -> int:
        """Return the wall clock, UTC nanoseconds."""
        ...

    def monotonic_ns(self) -> int:
        """Return a clock that never jumps, nanoseconds."""
        ...

    def wait(self, stop: threading.Event, seconds: float) -> bool:
        """Wait until `seconds` have passed (False) or `stop` is set (True)."""
        ...


class SystemClock:
    """`Clock` of this machine."""

    def now_ns(self) -> int:
        """Return the wall clock, UTC nanoseconds."""
        return time.time_ns()

    def monotonic_ns(self) -> int:
        """Return a clock that never jumps, nanoseconds."""
        return time.monotonic_ns()

    def wait(self, stop: threading.Event, seconds: float) -> bool:
        """Wait until `seconds` have passed (False) or `stop` is set (True)."""
        return stop.wait(seconds)
