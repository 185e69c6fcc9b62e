import threading
from collections.abc import Sequence
from typing import cast

from longpole_server.model.gpu import RunGpu
from longpole_server.model.records import Records
from longpole_server.model.step import Step
from longpole_server.service.serial_writer import SerialWriter
from longpole_server.store import Writer


class OneAtATime:
    """A writer that notices when two threads are inside it."""

    def __init__(self) -> None:
        self._inside = threading.Lock()
        self.num_calls = 0
        self.collided = False

    def _enter(self) -> None:
        if not self._inside.acquire(blocking=False):
            self.collided = True
            return
        for _ in range(100):
            threading.Event().wait(0)
        self.num_calls += 1
        self._inside.release()

    def write(self, records: Records, token: str) -> None:
        self._enter()

    def write_steps(self, steps: Sequence[tuple[Step, str]], version: int) -> None:
        self._enter()

    def write_run_gpus(self, run_gpus: Sequence[RunGpu]) -> None:
        self._enter()


def test_threads_take_turns():
    inner = OneAtATime()
    writer = SerialWriter(cast("Writer", inner))

    def work() -> None:
        for number in range(20):
            writer.write(Records(), f"{number}")
            writer.write_steps([], number)
            writer.write_run_gpus([])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not inner.collided
    assert inner.num_calls == 4 * 20 * 3
