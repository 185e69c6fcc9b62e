"""Addresses of Prometheus pages: what is taken for one, and whose node it is on.

An agent will connect to what was registered, so an address is a host and a port and nothing else:
no scheme, user or path, and none that can only mean something a registrant should not reach.
"""

import ipaddress
import re

from longpole.page_addresses import may_hold_page
from longpole_server.errors import BadRequestError

_TARGET = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(?P<port>[0-9]{1,5})")
_NAME = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9_-]{1,63}(?<!-))*\.?")
# A name whose last part is a number, decimal or hexadecimal, is another spelling of an address.
_NUMERIC_END = re.compile(r"(^|\.)(0[xX][0-9A-Fa-f]*|[0-9]+)\.?$")
_MAX_NAME_CHARS = 253
_MAX_PORT = 65_535
_HINT = "a target is `host:port` or `[IPv6]:port`, as `10.0.0.7:9092`"


def parse_target(text: str) -> str:
    """Return a target in its one spelling: lower case, IPv6 in brackets and short.

    Raises:
        BadRequestError: It is no `host:port`, or no agent should connect to it.
    """
    match = _TARGET.fullmatch(text)
    if match is None:
        raise BadRequestError(f"{text[:100]!r} is no scrape target", hint=_HINT)
    port = int(match["port"])
    if not 1 <= port <= _MAX_PORT:
        raise BadRequestError(f"port {port} of {text!r} does not exist", hint=_HINT)
    host = match["host"].strip("[]")
    address = read_address(host)
    if address is not None:
        _check_address(address, text)
        return f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}"
    is_name = _NAME.fullmatch(host) is not None and len(host) <= _MAX_NAME_CHARS
    if not is_name or _NUMERIC_END.search(host) is not None or match["host"].startswith("["):
        raise BadRequestError(f"{host[:100]!r} is no host", hint=_HINT)
    return f"{host.lower().rstrip('.')}:{port}"


def host_of(target: str) -> str:
    """Return the host part of a parsed target, without brackets."""
    return target.rpartition(":")[0].strip("[]")


def read_address(text: str | None) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return a network address, None when the text is none. IPv4 inside IPv6 becomes IPv4."""
    try:
        address = ipaddress.ip_address((text or "").strip("[]"))
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if address.version == 6 else address


def normalise_address(text: str | None) -> str:
    """Return an address in its one spelling, "" for what is none."""
    address = read_address(text)
    return "" if address is None else str(address)


def is_loopback(host: str) -> bool:
    """Tell whether a host means the machine that says it."""
    address = read_address(host)
    if address is not None:
        return address.is_loopback
    return host == "localhost" or host.endswith(".localhost")


def is_same_host(one: str, other: str) -> bool:
    """Tell whether two names are of one host: the same, or one the other's first part."""
    first, second = one.lower().rstrip("."), other.lower().rstrip(".")
    if not first or not second or read_address(first) or read_address(second):
        return bool(first) and first == second
    if "." in first and "." in second:
        return first == second
    return first.partition(".")[0] == second.partition(".")[0]


def _check_address(address: ipaddress.IPv4Address | ipaddress.IPv6Address, text: str) -> None:
    # Link-local addresses hold the metadata services of clouds.
    if not may_hold_page(address):
        raise BadRequestError(
            f"{text!r} is no address of a node",
            hint="register an address under which other nodes reach the page",
        )
