"""Where a request really comes from, when proxies that are trusted stand before this server."""

import hmac
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field

from starlette.datastructures import Headers
from starlette.types import Scope

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


_PROOF_HEADER = "x-longpole-proxy-secret"


@dataclass(frozen=True, slots=True)
class Proxies:
    """The proxies that may tell who asks, and the header in which they name a user.

    Attributes:
        networks: Their addresses; of others no forwarding header counts.
        user_header: Set by the proxy after it checked who it is, in lower case; None: none is.
        secret: What a proxy shows that may name a user; None: its address is enough.
    """

    networks: tuple[Network, ...] = ()
    user_header: str | None = None
    secret: str | None = field(default=None, repr=False)

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
        is_server: Whether it is another server that asks for itself.
    """

    address: str
    is_encrypted: bool
    user: str | None = None
    is_server: bool = False


def read_peer(scope: Scope, headers: Headers, proxies: Proxies) -> Peer:
    """Return who stands at the other end of a connection, behind trusted proxies or without."""
    client = scope.get("client")
    address = client[0] if client else ""
    is_encrypted = scope.get("scheme") in {"https", "wss"}
    if not proxies.trust(address):
        return Peer(address, is_encrypted)
    forwarded = _join(headers, "x-forwarded-proto").rpartition(",")[2].strip().lower()
    if forwarded:
        is_encrypted = forwarded in {"https", "wss"}
    chain = [_strip_port(word.strip()) for word in _join(headers, "x-forwarded-for").split(",")]
    user = _find_user(headers, proxies)
    return Peer(_find_client(chain, address, proxies), is_encrypted, user)


def _join(headers: Headers, name: str) -> str:
    """Return a header that some proxies add a line of their own to, after the client's."""
    return ",".join(headers.getlist(name))


def _find_user(headers: Headers, proxies: Proxies) -> str | None:
    """Return whom the proxy names, None where the client named somebody beside."""
    values = headers.getlist(proxies.user_header) if proxies.user_header is not None else []
    if len(values) != 1 or not _shows_secret(headers, proxies.secret):
        return None
    return values[0].strip() or None


def _shows_secret(headers: Headers, secret: str | None) -> bool:
    """Tell whether it is the proxy that asks, and not another program at an address like its."""
    if secret is None:
        return True
    shown = headers.get(_PROOF_HEADER, "")
    return hmac.compare_digest(shown.encode("latin-1"), secret.encode())


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
