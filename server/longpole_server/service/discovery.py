"""Prometheus pages: who registered them, and which agent scrapes which.

A page belongs to the node whose name or address its target has. A loopback address means the node
that registered it. The agent beside the server takes what belongs to no other agent's node.

Agents say which job a page works for. Of pages that a trainer registers here itself, without an
agent between, the address they were registered from says so, as long as it is one training's.
"""

import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from longpole.conventions import rl_insight
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
_SENDER_LABEL = "longpole_sender"
# Spans come often, registrations seldom.
_KNOWN_FOR_NS = 2 * 10**9


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
        self._recent: tuple[int, Sequence[ScrapeTarget]] = (0, ())

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
        with self._lock:
            self._recent = (0, ())
        return sum(target.job_name == registration.job_name for target in known.values())

    def list_targets(self, agent: ScrapingAgent) -> list[ScrapeTarget]:
        """Return the pages that an agent is to scrape, by job and target.

        Raises:
            StoreError: The database failed.
        """
        others = self._remember(agent)
        known = self._list_known()
        return [
            _with_job(target, known)
            for target in known
            if _belongs(target, agent) or (agent.is_local and _is_left_over(target, others))
        ]

    def find_job(self, address: str) -> str:
        """Return the job that works at an address, as pages registered from there tell, else "".

        Raises:
            StoreError: The database failed.
        """
        now_ns = self._now_ns()
        with self._lock:
            read_ns, known = self._recent
        if now_ns - read_ns > _KNOWN_FOR_NS:
            known = self._list_known()
            with self._lock:
                self._recent = (now_ns, known)
        peer = normalise_address(address)
        senders = {
            target.labels[_SENDER_LABEL]
            for target in known
            if _SENDER_LABEL in target.labels
            and peer in {target.labels[_SENDER_LABEL], host_of(target.target)}
        }
        return _name_job(senders.pop(), known) if len(senders) == 1 else ""

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


def _name_job(sender: str, known: Sequence[ScrapeTarget]) -> str:
    """Return the job of the only trainer that registered its page from an address, else "".

    A page that was registered anew is another process's.
    """
    pages = [
        target
        for target in known
        if target.job_name == rl_insight.TRAINER_JOB and target.labels.get(_SENDER_LABEL) == sender
    ]
    if len(pages) != 1:
        return ""
    return f"direct/{sender}/{pages[0].target}/{pages[0].seen_ns}"


def _with_job(target: ScrapeTarget, known: Sequence[ScrapeTarget]) -> ScrapeTarget:
    sender = target.labels.get(_SENDER_LABEL)
    job = "" if sender is None else _name_job(sender, known)
    if not job:
        return target
    return replace(target, labels={**target.labels, rl_insight.JOB_LABEL: job})


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
    kept = {name: value for name, value in labels.items() if name != _SENDER_LABEL}
    address = normalise_address(registration.address)
    # An agent says its node, and knows better.
    is_direct = registration.host is None and not host
    if address and is_direct and rl_insight.JOB_LABEL not in labels:
        kept[_SENDER_LABEL] = address
    return ScrapeTarget(registration.job_name, target, now_ns, kept, host, sender)


def _check_text(what: str, text: str, max_chars: int, *, may_be_empty: bool = False) -> None:
    if len(text) > max_chars or not text.isprintable() or not (text.strip() or may_be_empty):
        raise BadRequestError(f"{what} is to be up to {max_chars:,} printable characters")
