"""Runs queries in threads of their own, and waits for each only so long.

The database looks at a query's limit of time between two of its steps, and one step may take as
long as it likes: whoever asks is answered all the same, and the server can end.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import Executor

from longpole_server.errors import BusyError, StoreError
from longpole_server.read.free_queries import FreeAnswer, FreeQuery, QueryLimits

_log = logging.getLogger(__name__)

_MAX_WAITING = 16
_TIMEOUT_EXCEEDED = 159
_LOGGED_CHARACTERS = 200


class QueryRunner:
    """Runs queries for one event loop.

    Args:
        answer: Answers a query; blocks.
        executor: As many threads as queries run at a time, kept from other requests.
        limits: Of each query.
        grace_s: How much longer than its limit a query is waited for.
        turn_s: How long it may wait for its turn.

    Attributes:
        num_overdue: Queries that were given up and still run.
    """

    def __init__(
        self,
        answer: Callable[[FreeQuery], FreeAnswer],
        executor: Executor,
        limits: QueryLimits,
        grace_s: float,
        turn_s: float = 10.0,
    ) -> None:
        self._answer = answer
        self._executor = executor
        self._limits = limits
        self._grace_s = grace_s
        self._turn_s = turn_s
        self._num_waiting = 0
        self.num_overdue = 0

    async def run(self, query: FreeQuery) -> FreeAnswer:
        """Run a query.

        Raises:
            QueryRefusedError: It does more than read what it may.
            BusyError: Too many run or wait, or others that were given up take every thread.
            StoreError: The database refused or failed, or a limit was reached.
        """
        if self._num_waiting >= _MAX_WAITING:
            raise BusyError("Too many queries wait already.", 5.0)
        if self.num_overdue >= self._limits.max_queries:
            raise BusyError("Queries that did not keep their limit of time still run.", 30.0)
        self._num_waiting += 1
        try:
            return await self._run_in_time(query)
        finally:
            self._num_waiting -= 1

    async def _run_in_time(self, query: FreeQuery) -> FreeAnswer:
        began_s: list[float] = []

        def work() -> FreeAnswer:
            began_s.append(time.monotonic())
            return self._answer(query)

        running = self._executor.submit(work)
        ended = asyncio.wrap_future(running)
        longest_s = self._limits.max_s + self._grace_s
        await asyncio.wait({ended}, timeout=min(self._turn_s, longest_s))
        if not ended.done() and running.cancel():
            raise BusyError("Too many queries run already.", 5.0)
        if not ended.done():
            # One that is about to begin has not said so yet.
            until_s = (began_s[0] if began_s else time.monotonic()) + longest_s
            await asyncio.wait({ended}, timeout=max(0.0, until_s - time.monotonic()))
        if ended.done():
            return ended.result()
        self.num_overdue += 1
        ended.add_done_callback(self._note_end)
        _log.warning(
            "a query on /clickhouse/ goes on past its limit of %g s: %s",
            self._limits.max_s,
            query.sql[:_LOGGED_CHARACTERS],
        )
        raise StoreError(
            f"Code: {_TIMEOUT_EXCEEDED}. DB::Exception: Timeout exceeded: the query computes in one"
            f" step for longer than {self._limits.max_s:g} s.",
            hint="Ask for less at a time.",
        )

    def _note_end(self, ended: "asyncio.Future[FreeAnswer]") -> None:
        self.num_overdue -= 1
        # Nobody waits for what it was.
        if not ended.cancelled():
            ended.exception()
