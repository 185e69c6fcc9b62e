"""The clocks the SDK reads, as an argument so that tests can turn the hands."""

import time
from collections.abc import Callable
from typing import NamedTuple


class Clock(NamedTuple):
    """`wall_ns` is UTC nanoseconds; `monotonic_ns` never jumps and measures durations."""

    wall_ns: Callable[[], int] = time.time_ns
    monotonic_ns: Callable[[], int] = time.monotonic_ns
