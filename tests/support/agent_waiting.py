"""Waiting for a condition, with a deadline that only a broken program reaches."""

import time
from collections.abc import Callable

import psutil

_DEADLINE_S = 120.0


def wait_until(condition: Callable[[], bool], deadline_s: float = _DEADLINE_S) -> None:
    """Return once `condition` holds; fail when it does not within the deadline."""
    ends_s = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < ends_s, "waited in vain"
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    """Tell whether a process runs; one that has ended may stay a zombie of whoever inherited it."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
