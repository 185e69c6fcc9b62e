import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from longpole_server.errors import StoreError
from longpole_server.read.pool import ClientPool


@dataclass
class Counters:
    """Across all fake connections of a test."""

    num_open: int = 0
    num_closed: int = 0
    num_running: int = 0
    most_running: int = 0


class FakeClient:
    """Runs queries one at a time; `gate` holds them up."""

    def __init__(self, counters: Counters, lock: threading.Lock, gate: threading.Event) -> None:
        self._counters = counters
        self._lock = lock
        self._gate = gate
        counters.num_open += 1

    def query(self, sql: str, parameters: Mapping[str, object] | None = None) -> pa.Table:
        if sql == "fail":
            raise StoreError("refused")
        with self._lock:
            self._counters.num_running += 1
            self._counters.most_running = max(
                self._counters.most_running, self._counters.num_running
            )
        assert self._gate.wait(60)
        with self._lock:
            self._counters.num_running -= 1
        return pa.table({"sql": [sql]})

    def close(self) -> None:
        self._counters.num_closed += 1


class Pooled:
    def __init__(self, size: int) -> None:
        self.counters = Counters()
        self.gate = threading.Event()
        lock = threading.Lock()

        def open_client() -> Any:
            return FakeClient(self.counters, lock, self.gate)

        self.pool = ClientPool(open_client, size)


def wait_until_running(pooled: Pooled, count: int) -> None:
    deadline = threading.Event()
    for _ in range(6000):
        if pooled.counters.num_running == count:
            return
        deadline.wait(0.01)
    raise AssertionError(pooled.counters)


def test_queries_at_a_time_are_bounded() -> None:
    pooled = Pooled(2)
    threads = [threading.Thread(target=pooled.pool.query, args=("x",)) for _ in range(5)]
    for thread in threads:
        thread.start()
    wait_until_running(pooled, 2)
    pooled.gate.set()
    for thread in threads:
        thread.join(60)
    assert pooled.counters.most_running == 2
    assert pooled.counters.num_open == 2


def test_one_thread_needs_one_connection() -> None:
    pooled = Pooled(4)
    pooled.gate.set()
    for _ in range(3):
        pooled.pool.query("x")
    assert pooled.counters.num_open == 1


def test_a_failed_query_gives_its_connection_back() -> None:
    pooled = Pooled(1)
    pooled.gate.set()
    with pytest.raises(StoreError, match="refused"):
        pooled.pool.query("fail")
    assert pooled.pool.query("x").num_rows == 1
    assert pooled.counters.num_open == 1


def test_a_failed_opening_can_be_tried_again() -> None:
    attempts: list[int] = []

    def open_client() -> Any:
        attempts.append(1)
        raise StoreError("down")

    pool = ClientPool(open_client, 1)
    for _ in range(2):
        with pytest.raises(StoreError, match="down"):
            pool.query("x")
    assert len(attempts) == 2


def test_closing_waits_for_queries_and_refuses_new_ones() -> None:
    pooled = Pooled(2)
    query = threading.Thread(target=pooled.pool.query, args=("x",))
    query.start()
    wait_until_running(pooled, 1)
    closing = threading.Thread(target=pooled.pool.close)
    closing.start()
    assert pooled.counters.num_closed == 0
    pooled.gate.set()
    closing.join(60)
    query.join(60)
    assert pooled.counters.num_closed == 1
    with pytest.raises(StoreError, match="closed"):
        pooled.pool.query("x")
