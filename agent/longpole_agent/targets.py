"""Which Prometheus pages this agent scrapes: static ones, those the server hands out, found ones.

The server says whose node a page is on. What a trainer registers at this agent's own door goes to
the server, and again until the server has it: trainers register once.
"""

import json
import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlencode

from longpole_agent.server_api import ServerApi, ServerUnreachableError

_log = logging.getLogger(__name__)

MAX_TARGETS = 256
# Static pages under this job are raylets'.
RAY_JOB = "ray"
_MAX_PENDING = 100
_EVERY_S = 10.0
_RETRY_S = 2.0
REGISTER_PATH = "/api/v1/prometheus/targets"
_LIST_PATH = "/api/v1/scrape-targets"


@dataclass(frozen=True, slots=True)
class Target:
    """A page to scrape.

    Attributes:
        job: The job it was registered under, such as `trainer_metrics` or `vllm`.
        address: `host:port`.
        labels: What was registered with it.
        seen_ns: When it was registered last, UTC nanoseconds; 0 for static ones.
    """

    job: str
    address: str
    labels: tuple[tuple[str, str], ...] = ()
    seen_ns: int = 0

    @property
    def host(self) -> str:
        """The host of its address, without brackets."""
        return self.address.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        """The port of its address."""
        return int(self.address.rpartition(":")[2])

    def label(self, name: str) -> str:
        """Return a label's value, "" without it."""
        return dict(self.labels).get(name, "")


class TargetList:
    """Keeps the list fresh in a thread of its own.

    Args:
        static: Pages from the configuration.
        api: The server.
        host_name: This node.
        list_addresses: Gives the addresses of this node.
        every_s: Time between questions.
        find: Finds pages that nobody registered.
    """

    def __init__(
        self,
        static: Sequence[Target],
        api: ServerApi,
        host_name: str,
        list_addresses: Callable[[], Sequence[str]],
        every_s: float = _EVERY_S,
        find: Callable[[], "Sequence[Target]"] = tuple,
    ) -> None:
        self._static = tuple(static)
        self._api = api
        self._host_name = host_name
        self._list_addresses = list_addresses
        self._every_s = every_s
        self._find = find
        self._told: tuple[Target, ...] = ()
        self._changed = threading.Condition()
        self._targets: tuple[Target, ...] = self._static
        self._pending: deque[bytes] = deque(maxlen=_MAX_PENDING)
        self._is_asked = False
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="targets", daemon=True)
        self.trouble = ""

    @property
    def targets(self) -> Sequence[Target]:
        """The pages to scrape now."""
        return self._targets

    @property
    def num_pending(self) -> int:
        """Registrations that the server does not have yet."""
        return len(self._pending)

    def start(self) -> None:
        """Begin to ask."""
        self._thread.start()

    def close(self, timeout_s: float = 1.0) -> None:
        """Stop asking."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def register(self, body: bytes) -> tuple[int, bytes]:
        """Pass a registration on, and return the server's answer.

        While the server cannot be reached the registration waits here, and is taken as done.
        """
        try:
            status, answer = self._api.request("POST", REGISTER_PATH, body)
        except ServerUnreachableError as error:
            _log.warning("a registration waits until the server answers: %s", error)
            status, answer = 503, b""
        if status >= 500:
            with self._changed:
                self._pending.append(body)
            return 202, b'{"status":"ok"}'
        with self._changed:
            self._is_asked = True
            self._changed.notify()
        return status, answer

    def refresh(self) -> None:
        """Ask the server once, after telling it what waits."""
        try:
            self._deliver_pending()
            path = f"{_LIST_PATH}?{self._make_query()}"
            status, answer = self._api.request("GET", path)
            if status != 200:
                raise ServerUnreachableError(f"status {status}")
            found = read_targets(answer)
        except (ServerUnreachableError, ValueError) as error:
            if str(error) != self.trouble:
                _log.warning("cannot learn what to scrape: %s", error)
            self.trouble = str(error)
            self._merge()
            return
        self.trouble = ""
        self._told = tuple(found)
        self._merge()

    def _merge(self) -> None:
        merged = {(each.job, each.address): each for each in (*self._told, *self._static)}
        for each in self._find_others(merged.values()):
            merged[each.job, each.address] = each
        if len(merged) > MAX_TARGETS:
            _log.warning("%d pages are registered, %d are scraped", len(merged), MAX_TARGETS)
        # Those registered last are alive most likely.
        latest = sorted(merged.values(), key=lambda each: (each.seen_ns != 0, -each.seen_ns))
        self._targets = tuple(latest[:MAX_TARGETS])

    def _find_others(self, known: Iterable[Target]) -> "Sequence[Target]":
        """Return found pages that are none of the known ones under another address."""
        here = {"127.0.0.1", "::1", "localhost", self._host_name, *self._list_addresses()}
        taken = {(_place(each.host, here), each.port) for each in known}
        return [each for each in self._find() if (_place(each.host, here), each.port) not in taken]

    def _deliver_pending(self) -> None:
        while self._pending:
            status, _ = self._api.request("POST", REGISTER_PATH, self._pending[0])
            if status >= 500:
                return
            if status >= 400:
                _log.warning("the server refused a registration with status %d", status)
            with self._changed:
                self._pending.popleft()

    def _make_query(self) -> str:
        pairs = [("host", self._host_name)]
        pairs += [("address", address) for address in self._list_addresses()[:64]]
        return urlencode(pairs)

    def _run(self) -> None:
        while True:
            self.refresh()
            wait_s = _RETRY_S if self.trouble or self._pending else self._every_s
            with self._changed:
                self._changed.wait_for(lambda: self._is_asked or self._closed, wait_s)
                self._is_asked = False
                if self._closed:
                    return


def _place(host: str, here: Collection[str]) -> str:
    return "" if host in here else host


def read_targets(answer: bytes) -> list[Target]:
    """Return the targets in the server's answer.

    Raises:
        ValueError: It is none.
    """
    try:
        document = cast("dict[str, Any]", json.loads(answer))
        return [_read_target(each) for each in document["scrape_targets"]]
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no list of targets ({error!r})") from error


def _read_target(each: Mapping[str, Any]) -> Target:
    address = str(each["target"])
    port = address.rpartition(":")[2]
    if not port.isdecimal():
        raise ValueError(f"{address!r} is no target")
    labels = tuple(sorted((str(key), str(value)) for key, value in each["labels"].items()))
    return Target(str(each["job_name"]), address, labels, int(each["seen_ns"]))


def parse_static_targets(text: str) -> tuple[Target, ...]:
    """Return targets from `JOB=HOST:PORT@RUN` separated by commas or blanks.

    Job and run may be left out.

    Raises:
        ValueError: One is no target.
    """
    found: list[Target] = []
    for item in text.replace(",", " ").split():
        named, _, run = item.partition("@")
        job, _, address = named.rpartition("=")
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or not 1 <= int(port) <= 65_535 or "/" in address:
            raise ValueError(f"{item!r} is no JOB=HOST:PORT@RUN")
        found.append(Target(job or "engine", address, (("run", run),) if run else ()))
    return tuple(found)
