import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from longpole_dashboards.reading import Memory, Reader
from longpole_server.errors import BusyError
from support.dashboard_fake_service import FakeService


async def test_work_runs_outside_the_event_loop_and_in_parallel() -> None:
    reader = Reader(FakeService(0, specs=()), max_readers=2)
    both = threading.Barrier(2)

    def wait_for_the_other() -> str:
        both.wait(timeout=30)
        return threading.current_thread().name

    names = await asyncio.gather(*(reader.run(wait_for_the_other) for _ in range(2)))
    assert len(set(names)) == 2
    assert threading.current_thread().name not in names


async def test_no_more_than_the_bound_runs_at_once() -> None:
    reader = Reader(FakeService(0, specs=()), max_readers=2)
    lock, running, most = threading.Lock(), 0, 0

    def work() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.005)
        with lock:
            running -= 1

    await asyncio.gather(*(reader.run(work) for _ in range(12)))
    assert most <= 2


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
        release.wait(timeout=30)
        return 42

    with ThreadPoolExecutor(4) as pool:
        answers = [pool.submit(memory.ask, "runs", 1, read) for _ in range(4)]
        release.set()
        assert [answer.result(timeout=30) for answer in answers] == [42] * 4
    assert len(asked) == 1


def test_a_failure_is_not_kept() -> None:
    memory = Memory()

    def fail() -> int:
        raise BusyError("The store is busy.")

    with pytest.raises(BusyError):
        memory.ask("runs", 1, fail)
    assert memory.ask("runs", 1, lambda: 7) == 7
