"""Answers that are kept as long as a cheap token says that they hold."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from threading import Lock
from typing import Any, TypeVar

T = TypeVar("T")

MAX_ANSWERS = 256


class Memory:
    """Answers by question, each valid for one token. Bounded: the longest unused goes first.

    Args:
        max_answers: Kept at most.
        joins: Whether who asks with a new token takes the answer that is being read for the old.
    """

    def __init__(self, max_answers: int = MAX_ANSWERS, *, joins: bool = False) -> None:
        self._max_answers = max_answers
        self._joins = joins
        self._lock = Lock()
        self._answers: OrderedDict[Hashable, tuple[Hashable, Future[Any]]] = OrderedDict()

    def ask(self, question: Hashable, token: Hashable, read: Callable[[], T]) -> T:
        """Return the answer known for `token`, else read it and keep it.

        Who asks while it is being read waits for that answer. A failure is told to all of them and
        not kept. `read` must not ask.
        """
        with self._lock:
            known = self._answers.get(question)
            mine = known is None or (known[0] != token and not self._is_joined(known[1]))
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

    def _is_joined(self, answer: "Future[Any]") -> bool:
        return self._joins and not answer.done()

    def _forget(self, question: Hashable, answer: "Future[Any]") -> None:
        with self._lock:
            known = self._answers.get(question)
            if known is not None and known[1] is answer:
                del self._answers[question]
