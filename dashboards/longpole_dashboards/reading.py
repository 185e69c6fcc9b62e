"""Reads from the service outside the event loop, in a bounded pool of threads.

Browsers ask often and mostly for what has not changed: what was read is shared between them, so
that ten open tabs cost about as much as one.
"""

import asyncio
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import ParamSpec, TypeVar

from longpole_server.service import Memory, Service, what_is_seen

P = ParamSpec("P")
T = TypeVar("T")

# Readers wait for the store most of the time; more of them would only queue up there.
MAX_READERS = 4
# A step's samples or GPUs are some megabytes.
MAX_LARGE_ANSWERS = 12


class Reader:
    """The service, what is remembered of it, and the threads in which reading and drawing run.

    At most `max_readers` calls run at once, and as many of those that were begun ahead; further
    ones wait in the pool's queue, whose length is bounded by the open browsers: each has one
    refresh under way per panel group.

    Attributes:
        memory: Answers that are shared.
        large: Those of which only a few are kept.
        num_acts: How many things people did on the pages: what is remembered of what they can
            change holds for one number only.
    """

    def __init__(self, service: Service, max_readers: int = MAX_READERS) -> None:
        self.service = service
        self.memory: Memory = _MemoryOfSeen()
        self.large: Memory = _MemoryOfSeen(MAX_LARGE_ANSWERS)
        self.num_acts = 0
        self._pool = ThreadPoolExecutor(max_readers, thread_name_prefix="dashboard")
        # Of its own: what waits in the pool above for what it begins here never waits for itself.
        self._ahead = ThreadPoolExecutor(max_readers, thread_name_prefix="dashboard-ahead")

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run blocking work in the pool, as asked by who asks here, and return its result."""
        loop = asyncio.get_running_loop()
        asked = partial(copy_context().run, work, *args, **kwargs)
        return await loop.run_in_executor(self._pool, asked)

    def begin(self, ask: Callable[[], object]) -> None:
        """Let a memory be asked in another thread; who asks it the same then waits for that answer.

        A failure is told to who asks.
        """
        self._ahead.submit(copy_context().run, ask)

    async def act(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run what changes something; who looks afterwards sees it changed."""
        try:
            return await self.run(work, *args, **kwargs)
        finally:
            self.num_acts += 1


class _MemoryOfSeen(Memory):
    """What was read is shared by those who may see the same."""

    def ask(self, question: Hashable, token: Hashable, read: Callable[[], T]) -> T:
        return super().ask((what_is_seen(), question), token, read)
