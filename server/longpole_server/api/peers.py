"""Where a request really comes from, when proxies that are trusted stand before this server."""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.types import Scope

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class Proxies:
    """The proxies that may tell who asks, and the header in which they name a user.

    Attributes:
        networks: Their addresses; of others no forwarding header counts.
        user_header: Set by the proxy after it checked who it is, in lower case; None: none is.
    """

    networks: tuple[Network, ...] = ()
    user_header: str | None = None

    def trust(self, address: str) -> bool:
        """Tell whether an address is one of theirs."""
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            return False
        mapped = getattr(parsed, "ipv4_mapped", None)
        return any((mapped or parsed) in network for network in self.networks)


@dataclass(frozen=True, slots=True)
class Peer:
    """Who stands at the other end.

    Attributes:
        address: Of the client, as far as it can be trusted; empty when not known.
        is_encrypted: Whether the client speaks TLS.
        user: Whom a trusted proxy says it is, None where none says.
    """

    address: str
    is_encrypted: bool
    user: str | None = None


def read_peer(scope: Scope, headers: Headers, proxies: Proxies) -> Peer:
    """Return who stands at the other end of a connection, behind trusted proxies or without."""
    client = scope.get("client")
    address = client[0] if client else ""
    is_encrypted = scope.get("scheme") in {"https", "wss"}
    if not proxies.trust(address):
        return Peer(address, is_encrypted)
    forwarded = headers.get("x-forwarded-proto", "").rpartition(",")[2].strip().lower()
    if forwarded:
        is_encrypted = forwarded in {"https", "wss"}
    user = headers.get(proxies.user_header, "").strip() if proxies.user_header else ""
    chain = [_strip_port(word.strip()) for word in headers.get("x-forwarded-for", "").split(",")]
    return Peer(_find_client(chain, address, proxies), is_encrypted, user or None)


def _strip_port(text: str) -> str:
    """Return an address without the port that some proxies add: it is another each time."""
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0] if text.count(":") == 1 else text


def _find_client(chain: Sequence[str], address: str, proxies: Proxies) -> str:
    """Return the last address before the trusted ones: what stands before it anybody can write."""
    for candidate in reversed(chain):
        if not candidate:
            break
        address = candidate
        if not proxies.trust(candidate):
            break
    return address


def parse_networks(text: str) -> tuple[Network, ...]:
    """Read `10.0.0.0/8, 127.0.0.1` as networks.

    Raises:
        ValueError: A word is neither an address nor a network.
    """
    words = (word.strip() for word in text.split(","))
    return tuple(ipaddress.ip_network(word, strict=False) for word in words if word)
