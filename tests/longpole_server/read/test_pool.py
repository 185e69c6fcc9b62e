import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from longpole_server.errors import StoreError
from longpole_server.read.pool import ClientPool, PoolStats
from support.agent_waiting import wait_until
from support.store_opening import opened_store


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
    def __init__(self, size: int, patience_s: float = 60.0) -> None:
        self.counters = Counters()
        self.gate = threading.Event()
        lock = threading.Lock()

        def open_client() -> Any:
            return FakeClient(self.counters, lock, self.gate)

        self.pool = ClientPool(open_client, size, patience_s)


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


def give_up(pooled: Pooled, count: int) -> None:
    """Ask queries that do not end; who asks after that is patient, as a busy machine needs it."""

    def ask() -> None:
        with pytest.raises(StoreError, match="computes for longer"):
            pooled.pool.query("stuck")

    threads = [threading.Thread(target=ask) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pooled.pool._patience_s = 60.0


def test_who_asks_is_answered_though_the_query_goes_on() -> None:
    pooled = Pooled(1, patience_s=0.1)
    give_up(pooled, 1)
    assert pooled.pool.stats == PoolStats(num_given_up=1, num_overdue=1)
    pooled.gate.set()
    # The place was taken over by another connection, and the first one is not kept.
    assert pooled.pool.query("x").num_rows == 1
    wait_until(lambda: pooled.pool.stats.num_overdue == 0 and pooled.counters.num_closed == 1)
    assert pooled.counters.num_open == 2
    pooled.pool.close()
    assert pooled.counters.num_closed == 2


def test_stuck_queries_fill_the_pool_only_when_there_are_many() -> None:
    pooled = Pooled(2, patience_s=0.1)
    give_up(pooled, 4)
    with pytest.raises(StoreError, match="in every place"):
        pooled.pool.query("x")
    assert pooled.pool.stats == PoolStats(num_given_up=4, num_overdue=4)
    pooled.gate.set()
    wait_until(lambda: pooled.pool.stats.num_overdue == 0)
    assert pooled.pool.query("x").num_rows == 1
    wait_until(lambda: pooled.counters.num_closed == 2)
    pooled.pool.close()
    assert pooled.counters.num_closed == pooled.counters.num_open == 4


def test_closing_does_not_wait_for_what_was_given_up() -> None:
    pooled = Pooled(1, patience_s=0.1)
    give_up(pooled, 1)
    pooled.pool.close()
    pooled.gate.set()
    wait_until(lambda: pooled.counters.num_closed == 1)


def test_a_step_of_the_engine_that_does_not_end_holds_nobody_up(tmp_path: Path) -> None:
    with opened_store(tmp_path) as opened:
        pool = ClientPool(opened.store.new_reader_client, 1, 0.2)
        with pytest.raises(StoreError, match="computes for longer"):
            pool.query("SELECT sleep(2)")
        wait_until(lambda: pool.stats.num_overdue == 0)
        pool.close()
