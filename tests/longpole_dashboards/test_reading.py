import asyncio
import threading
import time

from longpole_dashboards.reading import Reader
from support.dashboard_fake_service import FakeService


async def test_work_runs_outside_the_event_loop_and_in_parallel() -> None:
    reader = Reader(FakeService(0, specs=()), max_readers=2)
    both = threading.Barrier(2)

    def wait_for_the_other() -> str:
        both.wait(timeout=60)
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
