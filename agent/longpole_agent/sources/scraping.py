"""Scrapes the Prometheus pages of this node: few at a time, bounded, dead ones rarely."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

from longpole.conventions import rl_insight
from longpole_agent.peers import Peers
from longpole_agent.sources.engine_pages import make_engine_points
from longpole_agent.sources.exposition import read_page
from longpole_agent.sources.host import list_addresses
from longpole_agent.sources.monitor_pages import MonitorPage
from longpole_agent.sources.pages import FetchPage, PageError
from longpole_agent.sources.source import Attributes, Point
from longpole_agent.targets import Target

# For pages that answered last time, and as many for those that did not, or were never asked: what
# is dead holds up nobody but what is dead.
_NUM_THREADS = 4
# Of the latter so many are under way or next; more are asked in the next ticks, new ones first.
_MAX_DOUBTFUL = 16
_PATIENCE_S = 0.3
_LONGEST_BACKOFF_NS = 60_000_000_000
_FAILURES_BEFORE_BACKOFF = 3
_PREFIX = "longpole.agent.scrape."
_JOB_AGE_NS = 60_000_000_000
_LAST_LOOK_S = 1.5
# A page ends with its trainer, often within a second of the last step.
_WATCH_S = 0.2
# Visits of a page that no tick has taken yet.
_MAX_VISITS = 10


class ListTargets(Protocol):
    """What to scrape."""

    @property
    def targets(self) -> Sequence[Target]:
        """The pages to scrape now."""
        ...


@dataclass(slots=True)
class _Page:
    """A page between two visits."""

    target: Target
    monitor: MonitorPage
    due_ns: int = 0
    num_failures: int = 0
    error: str = ""
    job: str = ""
    job_until_ns: int = 0
    visits: "list[Future[_Visit]]" = field(default_factory=list["Future[_Visit]"])
    is_alive: bool = False
    # Held while the page is read.
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def is_trainer(self) -> bool:
        return self.target.job == rl_insight.TRAINER_JOB


@dataclass(frozen=True, slots=True)
class _Visit:
    points: Sequence[Point] = ()
    num_left_out: int = 0
    error: str = ""
    is_page: bool = True


@dataclass(slots=True)
class ScrapeCounters:
    """Totals since the start.

    Attributes:
        pages: Pages read.
        failed: Pages that could not be had.
        left_out: Lines not read, and series beyond the bounds.
        missed_steps: Steps whose metrics were replaced before they were seen.
    """

    pages: int = 0
    failed: int = 0
    left_out: int = 0
    missed_steps: int = 0


class ScrapeSource:
    """`Source` of the pages of this node.

    A page that fails three times is tried at growing intervals, up to a minute, until it answers or
    is registered anew. Pages that answer have readers of their own, so that none waits for many
    that do not.

    Args:
        listing: What to scrape.
        fetch: Fetches a page.
        peers: Finds the job of a page that names none.
        interval_s: Time between visits of an engine's page. Trainers' pages are visited every tick,
            and several times between two of them once `start` has been called.
        host_name: This node.
        patience_s: How long a tick waits for the pages it asked for; later ones are kept for the
            next tick.
        now_ns: Wall clock, for visits between ticks.
        list_addresses: Gives the addresses of this node.
        glance: Fetches of a trainer's page what names its step, at least; `fetch` by default.
    """

    name = "scrape"

    def __init__(
        self,
        listing: ListTargets,
        fetch: FetchPage,
        peers: Peers,
        interval_s: float,
        host_name: str,
        patience_s: float = _PATIENCE_S,
        now_ns: Callable[[], int] = time.time_ns,
        list_addresses: Callable[[], Sequence[str]] = list_addresses,
        glance: FetchPage | None = None,
    ) -> None:
        self._list_addresses = list_addresses
        self._listing = listing
        self._fetch = fetch
        self._glance = glance or fetch
        self._peers = peers
        self._interval_ns = round(interval_s * 1e9)
        self._host_name = host_name
        self._patience_s = patience_s
        self._pool = ThreadPoolExecutor(_NUM_THREADS, thread_name_prefix="scrape")
        self._doubtful = ThreadPoolExecutor(_NUM_THREADS, thread_name_prefix="doubtful")
        self._pages: dict[tuple[str, str], _Page] = {}
        self.counters = ScrapeCounters()
        self._reported_ns = 0
        # Held while visits begin: a tick, and the receiver on behalf of a trainer that ends.
        self._lock = threading.Lock()
        self._now_ns = now_ns
        self._is_closing = threading.Event()
        self._watch = threading.Thread(target=self._watch_trainers, name="watch", daemon=True)

    def start(self) -> None:
        """Look at the trainers' pages between the ticks as well."""
        self._watch.start()

    def sample(self, ts_ns: int) -> Sequence[Point]:
        """Return the points of the pages that answered since the last tick."""
        self._adopt_targets()
        with self._lock:
            self._begin_visits(ts_ns)
        pending = [visit for page in self._pages.values() for visit in page.visits]
        if pending:
            wait(pending, self._patience_s)
        points: list[Point] = []
        for page in self._pages.values():
            with self._lock:
                done = [visit for visit in page.visits if visit.done()]
                page.visits = [visit for visit in page.visits if visit not in done]
            for visit in done:
                points += self._take(page, visit.result(), ts_ns)
        return [*points, *self._report(ts_ns)]

    def close(self) -> None:
        """Stop; pages under way are left behind."""
        self._is_closing.set()
        if self._watch.ident is not None:
            self._watch.join()
        for pool in (self._pool, self._doubtful):
            pool.shutdown(wait=False, cancel_futures=True)

    def describe(self) -> dict[str, Any]:
        """Return what the health page says: counts, and the pages that cannot be had."""
        pages = list(self._pages.values())
        failing = {page.target.address: page.error for page in pages if page.error}
        return {**asdict(self.counters), "targets": len(pages), "failing": failing}

    def find_lone_job(self) -> str:
        """Return the job of the only live trainer page, "" if there are none or several."""
        jobs = {
            page.job for page in list(self._pages.values()) if page.is_trainer and page.is_alive
        }
        return jobs.pop() if len(jobs) == 1 else ""

    def visit_trainer(self, job: str, timeout_s: float = _LAST_LOOK_S) -> None:
        """Read the page of a job's trainer now, and wait for it; its points go with the next tick.

        A trainer's page ends with it, right after its last step. What it sends on its way out is
        the last chance to look.
        """
        pages = [
            page
            for page in list(self._pages.values())
            if page.is_trainer and page.is_alive and page.job == job
        ]
        visits = [self._pool.submit(self._read, page, self._now_ns()) for page in pages]
        with self._lock:
            for page, visit in zip(pages, visits, strict=True):
                page.visits.append(visit)
        wait(visits, timeout_s)

    def look_at_trainers(self) -> None:
        """Read the live trainers' pages that name a new step; the next tick takes what they say."""
        with self._lock:
            for page in list(self._pages.values()):
                if page.is_alive and page.is_trainer and _may_visit_again(page.visits):
                    page.visits.append(self._pool.submit(self._look, page))

    def _begin_visits(self, ts_ns: int) -> None:
        """Ask the pages that are due: live ones all, of the others no more than there is room."""
        pages = list(self._pages.values())
        room = _MAX_DOUBTFUL - sum(not page.is_alive and _is_visited(page) for page in pages)
        due = [page for page in pages if ts_ns >= page.due_ns and not _is_visited(page)]
        doubtful = [page for page in due if not page.is_alive]
        # Who never failed may be new, and who was registered last is alive most likely.
        doubtful.sort(key=lambda page: (page.num_failures, -page.target.seen_ns))
        for page in doubtful[: max(0, room)]:
            page.visits.append(self._doubtful.submit(self._read, page, ts_ns))
        for page in due:
            if page.is_alive:
                page.visits.append(self._pool.submit(self._read, page, ts_ns))

    def _watch_trainers(self) -> None:
        while not self._is_closing.wait(_WATCH_S):
            self.look_at_trainers()

    def _adopt_targets(self) -> None:
        wanted = {(each.job, each.address): each for each in self._listing.targets}
        pages: dict[tuple[str, str], _Page] = {}
        for key, target in wanted.items():
            page = self._pages.get(key)
            if page is None or (page.target != target and not page.visits):
                # Registered anew: another process may be there now.
                page = _Page(target, MonitorPage(self._fetch, self._glance))
            pages[key] = page
        self._pages = pages

    def _read(self, page: _Page, ts_ns: int) -> _Visit:
        with page.lock:
            return self._try_read(page, ts_ns)

    def _look(self, page: _Page) -> _Visit:
        with page.lock:
            try:
                has_moved = page.monitor.has_moved(page.target.address)
            except PageError as error:
                return _Visit(error=str(error) or "no page")
            return self._try_read(page, self._now_ns()) if has_moved else _Visit(is_page=False)

    def _try_read(self, page: _Page, ts_ns: int) -> _Visit:
        try:
            if page.is_trainer:
                points = page.monitor.read(page.target.address, ts_ns)
                job = self._find_job(page, ts_ns)
                return _Visit([_with_job(point, job) for point in points], page.monitor.num_skipped)
            samples = read_page(self._fetch(page.target.address))
            job = self._find_job(page, ts_ns)
            return _Visit(*make_engine_points(samples, page.target, job, ts_ns))
        except PageError as error:
            return _Visit(error=str(error) or "no page")

    def _find_job(self, page: _Page, ts_ns: int) -> str:
        """Return the job that was registered, else that of the process behind the page."""
        target = page.target
        registered = target.label(rl_insight.JOB_LABEL)
        if registered:
            page.job = registered
        elif ts_ns >= page.job_until_ns:
            page.job_until_ns = ts_ns + _JOB_AGE_NS
            page.job = self._find_listener(target) or (
                f"page/{self._host_name}/{target.address}/{target.seen_ns}"
            )
        return page.job

    def _find_listener(self, target: Target) -> str:
        # A pod's port is another one than the same port of its node.
        if target.host not in {"127.0.0.1", "::1", "localhost", self._host_name} and (
            target.host not in self._list_addresses()
        ):
            return ""
        return self._peers.find_listener(target.port)

    def _take(self, page: _Page, visit: _Visit, ts_ns: int) -> Sequence[Point]:
        page.error = visit.error
        page.is_alive = not visit.error
        counters = self.counters
        interval_ns = 0 if page.is_trainer else self._interval_ns
        if visit.error:
            counters.failed += 1
            page.num_failures += 1
            page.job_until_ns = 0
            excess = page.num_failures - _FAILURES_BEFORE_BACKOFF
            if excess >= 0:
                interval_ns = min(_LONGEST_BACKOFF_NS, 1_000_000_000 << min(excess, 6))
        else:
            page.num_failures = 0
            counters.pages += visit.is_page
            counters.left_out += visit.num_left_out
        page.due_ns = ts_ns + interval_ns
        return visit.points

    def _report(self, ts_ns: int) -> list[Point]:
        if ts_ns - self._reported_ns < 10_000_000_000 or not self._pages:
            return []
        self._reported_ns = ts_ns
        counters = self.counters
        counters.missed_steps = sum(page.monitor.num_missed_steps for page in self._pages.values())
        totals = (
            ("pages", "{page}", counters.pages),
            ("failed", "{page}", counters.failed),
            ("left_out", "{line}", counters.left_out),
            ("missed_steps", "{step}", counters.missed_steps),
        )
        return [
            Point(_PREFIX + name, unit, "counter", ts_ns, value) for name, unit, value in totals
        ]


def _is_visited(page: _Page) -> bool:
    return not all(visit.done() for visit in page.visits)


def _may_visit_again(visits: "Sequence[Future[_Visit]]") -> bool:
    """Whether the visits that no tick has taken yet are over, few, and went well."""
    if not visits:
        return True
    return (
        len(visits) < _MAX_VISITS
        and all(visit.done() for visit in visits)
        and not any(visit.result().error for visit in visits)
    )


def _with_job(point: Point, job: str) -> Point:
    resource: Attributes = (*point.resource, (rl_insight.JOB, job))
    return replace(point, resource=resource)
