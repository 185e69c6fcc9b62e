"""Prometheus pages that trainers and engines registered, for agents to scrape."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ScrapeTarget:
    """One page, under the job that registered it.

    Attributes:
        target: `host:port`, IPv6 addresses in brackets.
        host: Node it is on where the sender said so, else "".
        sender_address: For a loopback address without a host: where it was registered from, since
            it means that machine; else "".
        seen_ns: When it was last registered.
    """

    job_name: str
    target: str
    seen_ns: int
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    host: str = ""
    sender_address: str = ""


@dataclass(frozen=True, slots=True)
class Registration:
    """Pages registered with one request.

    Attributes:
        targets: (`host:port`, labels) of each.
        host: Node of the sender where it says so.
        address: Network address of the sender where it is known.
    """

    job_name: str
    targets: tuple[tuple[str, Mapping[str, str]], ...]
    host: str | None = None
    address: str | None = None


@dataclass(frozen=True, slots=True)
class ScrapingAgent:
    """An agent that asks what to scrape.

    Attributes:
        host: Name of its node.
        addresses: Network addresses of its node, as far as known.
        is_local: Whether it runs beside the server: it takes what no other agent does.
    """

    host: str
    addresses: frozenset[str] = frozenset()
    is_local: bool = False
