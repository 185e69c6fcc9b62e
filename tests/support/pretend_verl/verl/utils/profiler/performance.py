import time
from contextlib import contextmanager


@contextmanager
def simple_timer(name, timing_raw):
    begun = time.perf_counter()
    yield
    timing_raw[name] = timing_raw.get(name, 0.0) + time.perf_counter() - begun


@contextmanager
def marked_timer(name, timing_raw, color=None):
    begun = time.perf_counter()
    yield
    timing_raw[name] = timing_raw.get(name, 0.0) + time.perf_counter() - begun
