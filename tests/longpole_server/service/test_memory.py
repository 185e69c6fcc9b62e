import threading
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from longpole_server.errors import BusyError
from longpole_server.service.memory import Memory


def test_an_answer_is_kept_for_its_token() -> None:
    memory, asked = Memory(), list[int]()

    def read() -> int:
        asked.append(1)
        return len(asked)

    assert [memory.ask("runs", token, read) for token in (1, 1, 2, 2, 1)] == [1, 1, 2, 2, 3]


def test_memory_is_bounded_and_forgets_the_longest_unused() -> None:
    memory = Memory(max_answers=2)
    for question in ("a", "b", "a", "c"):
        memory.ask(question, 0, lambda: "old")
    assert memory.ask("a", 0, lambda: "new") == "old"
    assert memory.ask("b", 0, lambda: "new") == "new"


def test_who_asks_while_it_is_read_waits_for_the_same_answer() -> None:
    memory, asked, release = Memory(), list[int](), threading.Event()

    def read() -> int:
        asked.append(1)
        release.wait(timeout=60)
        return 42

    with ThreadPoolExecutor(4) as pool:
        answers = [pool.submit(memory.ask, "runs", 1, read) for _ in range(4)]
        release.set()
        assert [answer.result(timeout=60) for answer in answers] == [42] * 4
    assert len(asked) == 1


def test_a_failure_is_not_kept() -> None:
    memory = Memory()

    def fail() -> int:
        raise BusyError("The store is busy.")

    with pytest.raises(BusyError):
        memory.ask("runs", 1, fail)
    assert memory.ask("runs", 1, lambda: 7) == 7


class Question:
    """A question that tells when somebody has found out whose answer to take: it is put back."""

    def __init__(self) -> None:
        self.num_looks = 0
        self.found = threading.Event()

    def __hash__(self) -> int:
        self.num_looks += 1
        if self.num_looks > 1:
            self.found.set()
        return 1


@pytest.mark.parametrize(("joins", "num_reads"), [(True, 1), (False, 2)])
def test_who_asks_with_a_new_token_meanwhile_may_take_the_old_answer(
    joins: bool, num_reads: int
) -> None:
    memory, asked, question = Memory(joins=joins), list[int](), Question()
    later = ThreadPoolExecutor(1)

    def read() -> int:
        asked.append(1)
        return 42

    def read_slowly() -> int:
        question.num_looks, question.found = 0, threading.Event()
        news.append(later.submit(memory.ask, question, 2, read))
        assert question.found.wait(timeout=60)
        return read()

    news: list[Future[int]] = []
    assert memory.ask(question, 1, read_slowly) == 42
    assert news[0].result(timeout=60) == 42
    later.shutdown()
    assert len(asked) == num_reads
