"""Windows in which workers carried one title, from looks at a fixed pace.

An estimate: a window begins and ends with a look, so each edge is late by up to the time between
two, and what is shorter is not seen.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from longpole.conventions.ray_titles import stage_of_title
from longpole_agent.sources.ray.processes import Worker


@dataclass(frozen=True, slots=True)
class TitleLane:
    """A worker carried a title that names a stage."""

    pid: int
    job: str
    title: str
    start_ns: int
    end_ns: int


@dataclass(slots=True)
class _Open:
    worker: Worker
    start_ns: int


class TitleWatch:
    """Turns looks into windows."""

    def __init__(self) -> None:
        self._open: dict[int, _Open] = {}

    def look(self, workers: Iterable[Worker], ts_ns: int) -> Iterator[TitleLane]:
        """Yield the windows that ended.

        Args:
            workers: All workers with their titles now; one that is missing has ended.
            ts_ns: Now.
        """
        now = {worker.pid: worker for worker in workers}
        for pid, opened in list(self._open.items()):
            current = now.get(pid)
            if current is None or current.title != opened.worker.title:
                del self._open[pid]
                if opened.start_ns < ts_ns:
                    worker = opened.worker
                    yield TitleLane(pid, worker.job, worker.title, opened.start_ns, ts_ns)
        for pid, worker in now.items():
            if pid not in self._open and worker.job and stage_of_title(worker.title):
                self._open[pid] = _Open(worker, ts_ns)
