"""Whether a browser means this machine. Agent and server share it.

A page of a stranger may make a name of its own lead to this machine ("DNS rebinding"); the browser
then lets it read what is answered there. What tells such a request from others is the name in its
`Host` header, which the page cannot choose freely: an address is nobody's name.
"""

import ipaddress
from collections.abc import Set as AbstractSet
from urllib.parse import urlsplit


def is_own_host(header: str, names: AbstractSet[str]) -> bool:
    """Tell whether a `Host` header names this machine.

    Args:
        header: The header; empty where there is none, as no browser does.
        names: This machine's, in lower case, beside `localhost` and all below it.
    """
    name = read_host_name(header)
    if name is None:
        return False
    if name in {"", "localhost"} or name.endswith(".localhost") or name in names:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def read_host_name(header: str) -> "str | None":
    """Return the name in a `Host` header without its port, None when it is none."""
    try:
        return (urlsplit(f"//{header.strip()}").hostname or "").removesuffix(".").lower()
    except ValueError:
        return None


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach a listener on `host`."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
