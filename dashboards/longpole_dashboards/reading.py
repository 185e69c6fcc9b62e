"""Reads from the service outside the event loop, in a bounded pool of threads.

Browsers ask often and mostly for what has not changed. `Memory` keeps answers as long as a cheap
token says that they hold, so that ten open tabs cost about as much as one.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Any, ParamSpec, TypeVar

from longpole_server.service import Service

P = ParamSpec("P")
T = TypeVar("T")

# Readers wait for the store most of the time; more of them would only queue up there.
MAX_READERS = 4
MAX_ANSWERS = 256


class Memory:
    """Answers by question, each valid for one token. Bounded: the longest unused goes first."""

    def __init__(self, max_answers: int = MAX_ANSWERS) -> None:
        self._max_answers = max_answers
        self._lock = Lock()
        self._answers: OrderedDict[Hashable, tuple[Hashable, Future[Any]]] = OrderedDict()

    def ask(self, question: Hashable, token: Hashable, read: Callable[[], T]) -> T:
        """Return the answer known for `token`, else read it and keep it.

        Who asks while it is being read waits for that answer. A failure is told to all of them and
        not kept. `read` must not ask.
        """
        with self._lock:
            known = self._answers.get(question)
            mine = known is None or known[0] != token
            answer: Future[Any] = Future() if known is None or mine else known[1]
            self._answers[question] = (token, answer)
            self._answers.move_to_end(question)
            while len(self._answers) > self._max_answers:
                self._answers.popitem(last=False)
        if mine:
            try:
                answer.set_result(read())
            except BaseException as error:
                answer.set_exception(error)
                self._forget(question, answer)
                raise
        return answer.result()

    def _forget(self, question: Hashable, answer: "Future[Any]") -> None:
        with self._lock:
            known = self._answers.get(question)
            if known is not None and known[1] is answer:
                del self._answers[question]


class Reader:
    """The service, what is remembered of it, and the threads in which reading and drawing run.

    At most `max_readers` calls run at once; further ones wait in the pool's queue, whose length
    is bounded by the open browsers: each has one refresh under way per panel group.
    """

    def __init__(self, service: Service, max_readers: int = MAX_READERS) -> None:
        self.service = service
        self.memory = Memory()
        self._pool = ThreadPoolExecutor(max_readers, thread_name_prefix="dashboard")

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run blocking work in the pool and return its result."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, lambda: work(*args, **kwargs))
