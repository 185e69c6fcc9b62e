import threading
from concurrent.futures import ThreadPoolExecutor

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
