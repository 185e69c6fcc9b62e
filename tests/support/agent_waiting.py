"""Waiting for a condition, with a deadline that only a broken program reaches."""

import time
from collections.abc import Callable

_DEADLINE_S = 60.0


def wait_until(condition: Callable[[], bool], deadline_s: float = _DEADLINE_S) -> None:
    """Return once `condition` holds; fail when it does not within the deadline."""
    ends_s = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < ends_s, "waited in vain"
        time.sleep(0.01)
