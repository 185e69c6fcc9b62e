"""Queries that do not keep their limit: who asks is answered, and who comes next is told."""

import asyncio
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette

from longpole_server.errors import BusyError, StoreError
from longpole_server.read.free_queries import FreeAnswer, FreeQuery, QueryLimits
from longpole_server.sql_door.routes import create_sql_routes
from longpole_server.sql_door.running import QueryRunner

LIMITS = QueryLimits(max_s=0.01, max_queries=2)


class StuckQueries:
    """Answers at once, but for what is to be stuck until it is let go."""

    database = "longpole"
    limits = LIMITS

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.num_stuck = 0
        self._lock = threading.Lock()

    def answer(self, asked: FreeQuery) -> FreeAnswer:
        if "stuck" in asked.sql:
            self._count(1)
            self.let_go.wait(60)
            self._count(-1)
        return FreeAnswer(b"26.9\tUTC\n", "TabSeparated")

    def _count(self, more: int) -> None:
        with self._lock:
            self.num_stuck += more


class PromptExecutor(ThreadPoolExecutor):
    """Hands a query back when it has ended or is stuck: no limit depends on a thread's pace."""

    def __init__(self, max_workers: int, queries: StuckQueries) -> None:
        super().__init__(max_workers)
        self._num_threads = max_workers
        self._queries = queries

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        num_stuck = self._queries.num_stuck
        future = super().submit(fn, *args, **kwargs)
        if num_stuck < self._num_threads:
            while not future.done() and self._queries.num_stuck == num_stuck:
                time.sleep(0.001)
        return future


@pytest.fixture
def queries() -> Generator[StuckQueries]:
    made = StuckQueries()
    yield made
    made.let_go.set()


async def test_a_query_past_its_limit_is_answered_and_keeps_its_thread(queries: StuckQueries):
    stuck, other = FreeQuery("SELECT stuck"), FreeQuery("SELECT 1")
    with PromptExecutor(2, queries) as executor:
        runner = QueryRunner(queries.answer, executor, LIMITS, grace_s=0.01, turn_s=0.01)
        with pytest.raises(StoreError, match="Code: 159"):
            await runner.run(stuck)
        assert (await runner.run(other)).form == "TabSeparated"
        with pytest.raises(StoreError, match="Code: 159"):
            await runner.run(stuck)
        with pytest.raises(BusyError, match="did not keep"):
            await runner.run(other)
        queries.let_go.set()
        while runner.num_overdue:
            await asyncio.sleep(0.01)
        assert (await runner.run(other)).form == "TabSeparated"


async def test_a_query_whose_turn_does_not_come_is_told_to_come_back(queries: StuckQueries):
    stuck = FreeQuery("SELECT stuck")
    patient = QueryLimits(max_s=60.0, max_queries=2)
    with PromptExecutor(1, queries) as executor:
        runner = QueryRunner(queries.answer, executor, patient, grace_s=0.0, turn_s=0.01)
        first = asyncio.create_task(runner.run(stuck))
        await asyncio.sleep(0)
        with pytest.raises(BusyError, match="run already"):
            await runner.run(FreeQuery("SELECT 1"))
        queries.let_go.set()
        await first


async def test_the_asker_reads_the_databases_number(queries: StuckQueries):
    with ThreadPoolExecutor(2) as executor:
        app = Starlette(
            routes=list(create_sql_routes(queries, executor, lambda _: True, grace_s=0.01))
        )
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://door"
        ) as client:
            answer = await client.post("/clickhouse/", content="SELECT stuck", timeout=60)
        queries.let_go.set()
    assert answer.headers["X-ClickHouse-Exception-Code"] == "159"
    assert "Timeout exceeded" in answer.text
