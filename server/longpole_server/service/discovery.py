"""Prometheus pages: who registered them, and which agent scrapes which.

A page belongs to the node whose name or address its target has. A loopback address means the node
that registered it. The agent beside the server takes what belongs to no other agent's node.
"""

import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from longpole_server.errors import BadRequestError, TooLargeError
from longpole_server.model.discovery import Registration, ScrapeTarget, ScrapingAgent
from longpole_server.service.scrape_addresses import (
    host_of,
    is_loopback,
    is_same_host,
    normalise_address,
    parse_target,
)

MAX_TARGETS = 1_000
MAX_LABELS = 32
MAX_KNOWN_TARGETS = 10_000
# Trainers register once, when they start, and some train for weeks.
EXPIRE_NS = 14 * 86_400 * 10**9
# Agents that asked within this time take their own pages.
_AGENT_EXPIRES_NS = 300 * 10**9
_MAX_KNOWN_AGENTS = 10_000
_MAX_NAME_CHARS = 200
_MAX_VALUE_CHARS = 1_024
_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HOST_LABEL = "host"


class TargetReader(Protocol):
    """Where known targets are found."""

    def list_scrape_targets(self, since_ns: int) -> Sequence[ScrapeTarget]:
        """Return the targets registered since a time, by job and target."""
        ...


class TargetWriter(Protocol):
    """Where targets are kept."""

    def write_scrape_targets(self, targets: Sequence[ScrapeTarget]) -> None:
        """Add targets, or replace them (key: job, target, host, sender)."""
        ...


class Discovery:
    """Keeps registered pages and hands them out. Thread-safe.

    Args:
        reader: Reads the store.
        writer: Writes to it.
        now_ns: Wall clock, UTC nanoseconds.
    """

    def __init__(
        self, reader: TargetReader, writer: TargetWriter, now_ns: Callable[[], int] = time.time_ns
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._now_ns = now_ns
        self._lock = threading.Lock()
        self._agents: dict[str, tuple[int, ScrapingAgent]] = {}

    def register(self, registration: Registration) -> int:
        """Keep the pages of a request for two weeks, and return how many their job has now.

        Raises:
            BadRequestError: One of them is refused; then none is kept.
            TooLargeError: There are too many of them, or too many labels.
            StoreError: The database failed.
        """
        targets = _check(registration, self._now_ns())
        known = {_key(target): target for target in self._list_known()}
        known.update({_key(target): target for target in targets})
        if len(known) > MAX_KNOWN_TARGETS:
            raise TooLargeError(
                f"more than {MAX_KNOWN_TARGETS:,} scrape targets are registered",
                hint="they are forgotten two weeks after they were registered last",
            )
        self._writer.write_scrape_targets(targets)
        return sum(target.job_name == registration.job_name for target in known.values())

    def list_targets(self, agent: ScrapingAgent) -> list[ScrapeTarget]:
        """Return the pages that an agent is to scrape, by job and target.

        Raises:
            StoreError: The database failed.
        """
        others = self._remember(agent)
        return [
            target
            for target in self._list_known()
            if _belongs(target, agent) or (agent.is_local and _is_left_over(target, others))
        ]

    def _list_known(self) -> Sequence[ScrapeTarget]:
        return self._reader.list_scrape_targets(self._now_ns() - EXPIRE_NS)

    def _remember(self, agent: ScrapingAgent) -> list[ScrapingAgent]:
        """Note that an agent asks, and return the others that did lately."""
        now_ns = self._now_ns()
        with self._lock:
            self._agents = {
                host: (seen_ns, other)
                for host, (seen_ns, other) in self._agents.items()
                if now_ns - seen_ns <= _AGENT_EXPIRES_NS and host != agent.host
            }
            others = [other for _, other in self._agents.values()]
            if len(self._agents) < _MAX_KNOWN_AGENTS:
                self._agents[agent.host] = (now_ns, agent)
        return others


def _belongs(target: ScrapeTarget, agent: ScrapingAgent) -> bool:
    if target.host:
        return is_same_host(target.host, agent.host)
    host = host_of(target.target)
    if is_loopback(host):
        sender = target.sender_address
        return sender in agent.addresses or (agent.is_local and is_loopback(sender))
    return is_same_host(host, agent.host) or host in agent.addresses


def _is_left_over(target: ScrapeTarget, others: Sequence[ScrapingAgent]) -> bool:
    # A loopback address is reached from its own node only.
    return not is_loopback(host_of(target.target)) and not any(
        _belongs(target, other) for other in others
    )


def _key(target: ScrapeTarget) -> tuple[str, str, str, str]:
    return target.job_name, target.target, target.host, target.sender_address


def _check(registration: Registration, now_ns: int) -> list[ScrapeTarget]:
    _check_text("job_name", registration.job_name, _MAX_NAME_CHARS)
    if not registration.targets:
        raise BadRequestError("no target is named", hint="`targets` is a list of `host:port`")
    if len(registration.targets) > MAX_TARGETS:
        raise TooLargeError(f"at most {MAX_TARGETS:,} targets are taken in one request")
    if registration.host is not None:
        _check_text("host", registration.host, _MAX_NAME_CHARS)
    checked = [
        _make_target(registration, text, labels, now_ns) for text, labels in registration.targets
    ]
    # Of a target that is named twice the last counts.
    return list({_key(target): target for target in checked}.values())


def _make_target(
    registration: Registration, text: str, labels: Mapping[str, str], now_ns: int
) -> ScrapeTarget:
    target = parse_target(text)
    if len(labels) > MAX_LABELS:
        raise TooLargeError(f"{text!r} has more than {MAX_LABELS} labels")
    for name, value in labels.items():
        # Names with two underscores are Prometheus' own: they would change what is scraped.
        is_own = name.startswith("__")
        if is_own or len(name) > _MAX_NAME_CHARS or _LABEL.fullmatch(name) is None:
            raise BadRequestError(
                f"{name[:100]!r} is no name of a label",
                hint="letters, digits and underscores, two of which may not stand first",
            )
        _check_text(f"label {name}", value, _MAX_VALUE_CHARS, may_be_empty=True)
    host, sender = labels.get(_HOST_LABEL, ""), ""
    if is_loopback(host_of(target)) and not host:
        host = registration.host or ""
        sender = "" if host else normalise_address(registration.address)
    return ScrapeTarget(registration.job_name, target, now_ns, dict(labels), host, sender)


def _check_text(what: str, text: str, max_chars: int, *, may_be_empty: bool = False) -> None:
    if len(text) > max_chars or not text.isprintable() or not (text.strip() or may_be_empty):
        raise BadRequestError(f"{what} is to be up to {max_chars:,} printable characters")
