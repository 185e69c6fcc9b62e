"""`Source` of Ray on this node."""

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from longpole.conventions import attributes as names
from longpole.conventions.gpus import PROCESS_PRIVATE_MEMORY, PROCESS_TITLE
from longpole.conventions.ray_titles import PREFIX, class_of, role_of
from longpole_agent.sources.pages import FetchPage, PageError
from longpole_agent.sources.ray.lanes import TitleLane, TitleWatch
from longpole_agent.sources.ray.page import KIND_OF_METRIC, StoreState, read_store
from longpole_agent.sources.ray.processes import ProcessTable, RayProcesses, Worker
from longpole_agent.sources.source import Attributes, Point
from longpole_agent.sources.timer import Timer

_log = logging.getLogger(__name__)

_SCAN_EVERY_S = 10.0
# A process that tells its own states does so within five seconds: its title is then left out.
_HOLD_LANES_S = 10.0
_MAX_HELD = 4096
# Without Ray on the node, and to look again at all processes.
_RARELY_NS = 60_000_000_000
_MAX_PROCESSES = 32
_MAX_WATCHED = 256
_IDLE = f"{PREFIX}IDLE"
# Of a component's processes together, which the page does not tell apart.
_NO_PID = 0
# SkyRL's trainer, whose page says what it does as a title of a worker would.
_SKYRL = f"{PREFIX}SkyRL"

SendLanes = Callable[[Sequence[TitleLane]], None]


class RaySource:
    """Object store and memory every ten seconds; titles of workers at every tick.

    A node without Ray costs a look at its processes a minute.

    Args:
        table: Ray's processes.
        fetch: Fetches a page; None: pages are not asked for.
        send_lanes: Takes windows of titles.
        static_pages: Pages of raylets that cannot be seen from here.
        scan_every_s: Time between two looks for workers.
        hold_lanes_s: For how long windows are kept before they are sent.
    """

    name = "ray"

    def __init__(
        self,
        table: ProcessTable,
        fetch: FetchPage | None,
        send_lanes: SendLanes,
        static_pages: Sequence[str] = (),
        scan_every_s: float = _SCAN_EVERY_S,
        hold_lanes_s: float = _HOLD_LANES_S,
    ) -> None:
        self._hold_lanes_ns = round(hold_lanes_s * 1e9)
        self._held: deque[TitleLane] = deque(maxlen=_MAX_HELD)
        self._scan_every_ns = round(scan_every_s * 1e9)
        self._table = table
        self._fetch = fetch
        self._send_lanes = send_lanes
        self._static_pages = tuple(static_pages)
        self._found = RayProcesses((), ())
        self._scan = Timer()
        self._anew = Timer()
        self._watch = TitleWatch()
        self._trainer: Worker | None = None
        self._failing: dict[str, str] = {}

    def sample(self, ts_ns: int) -> Sequence[Point]:
        """Return what is due, and send the windows of titles that ended."""
        points: list[Point] = []
        if self._scan.is_due(ts_ns):
            points = self._look_around(ts_ns)
        elif self._found.workers:
            self._found = replace(self._found, workers=tuple(map(self._look_at, self._busy())))
        trainer = () if self._trainer is None else (self._trainer,)
        self._held.extend(self._watch.look((*self._found.workers, *trainer), ts_ns))
        self._send_held(ts_ns - self._hold_lanes_ns)
        return points

    def close(self) -> None:
        """Send what is held."""
        if self._held:
            self._send_held(self._held[-1].end_ns)

    def _send_held(self, until_ns: int) -> None:
        lanes: list[TitleLane] = []
        while self._held and self._held[0].end_ns <= until_ns:
            lanes.append(self._held.popleft())
        if lanes:
            self._send_lanes(lanes)

    def _look_around(self, ts_ns: int) -> list[Point]:
        anew = self._anew.is_due(ts_ns)
        if anew:
            self._anew.set(ts_ns, _RARELY_NS)
        self._found = self._table.scan(anew=anew)
        has_ray = bool(self._found.raylets or self._found.workers or self._static_pages)
        self._scan.set(ts_ns, self._scan_every_ns if has_ray else _RARELY_NS)
        if not has_ray:
            self._trainer = None
            return []
        states = self._read_pages()
        self._trainer = _find_trainer(states, self._found.workers)
        points = _sum_up(states, ts_ns)
        if self._found.workers:
            return [*points, *self._measure_workers(ts_ns)]
        return [*points, *_tell_components(states, ts_ns)]

    def _busy(self) -> list[Worker]:
        """Return the workers that are worth a look at every tick."""
        workers = self._found.workers
        return [each for each in workers if not each.title.startswith(_IDLE)][:_MAX_WATCHED]

    def _look_at(self, worker: Worker) -> Worker:
        return replace(worker, title=self._table.read_title(worker.pid))

    def _read_pages(self) -> list[StoreState]:
        if self._fetch is None:
            return []
        pages = [raylet.page for raylet in self._found.raylets if raylet.page]
        states: list[StoreState] = []
        failing: dict[str, str] = {}
        for page in dict.fromkeys((*pages, *self._static_pages)):
            text, error = _try(self._fetch, page)
            if error:
                failing[page] = error
                if page not in self._failing:
                    _log.warning("Ray's page at %s cannot be read: %s", page, error)
            else:
                states.append(read_store(text))
        self._failing = failing
        return states

    def _measure_workers(self, ts_ns: int) -> list[Point]:
        """Return the private memory of the workers that hold most."""
        measured: list[tuple[int, Worker]] = []
        for worker in self._found.workers:
            private_bytes = self._table.read_private_bytes(worker.pid)
            if private_bytes is not None:
                measured.append((private_bytes, worker))
        measured.sort(key=lambda each: -each[0])
        return [
            _make_process_point(worker.pid, worker.title, worker.job, private_bytes, ts_ns)
            for private_bytes, worker in measured[:_MAX_PROCESSES]
            # Those that wait for work come and go.
            if not worker.title.startswith(_IDLE) or role_of(worker.title)
        ]


def _try(fetch: FetchPage, page: str) -> tuple[str, str]:
    """Return the text of a page, or why it cannot be had."""
    try:
        return fetch(page), ""
    except PageError as error:
        return "", str(error) or "no page"


def _sum_up(states: Sequence[StoreState], ts_ns: int) -> list[Point]:
    """Return the points of all raylets of this node together."""
    totals: dict[str, float] = {}
    for state in states:
        for metric, value in state.values.items():
            totals[metric] = totals.get(metric, 0.0) + value
    return [
        Point(metric, *KIND_OF_METRIC[metric], ts_ns, int(value))
        for metric, value in totals.items()
    ]


def _find_trainer(states: Sequence[StoreState], workers: Sequence[Worker]) -> Worker | None:
    """Return SkyRL's trainer with its phase, if the workers of this node have one job."""
    phases = {state.phase for state in states if state.phase}
    jobs = {worker.job for worker in workers if worker.job}
    if len(phases) != 1 or len(jobs) != 1:
        return None
    return Worker(_NO_PID, f"{_SKYRL}.{phases.pop()}", jobs.pop())


def _tell_components(states: Sequence[StoreState], ts_ns: int) -> list[Point]:
    """Return the private memory by title, where no process can be seen."""
    found: dict[str, float] = {}
    for state in states:
        for title, private_bytes in state.components.items():
            key = class_of(title)
            found[key] = max(private_bytes, found.get(key, 0.0))
    return [
        _make_process_point(_NO_PID, title, "", int(private_bytes), ts_ns)
        for title, private_bytes in found.items()
    ]


def _make_process_point(pid: int, title: str, job: str, private_bytes: int, ts_ns: int) -> Point:
    attributes: Mapping[str, str | int] = {
        names.PROCESS_PID: pid,
        PROCESS_TITLE: class_of(title),
        **({names.RAY_JOB_ID: job.rpartition("/")[2]} if job else {}),
    }
    known: Attributes = tuple(attributes.items())
    return Point(PROCESS_PRIVATE_MEMORY, "By", "total", ts_ns, private_bytes, known)
