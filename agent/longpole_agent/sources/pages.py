"""Fetches Prometheus pages: bounded in time and size, one new connection each.

Who registers a page chooses where an agent connects. What a name means is looked up here, once, and
an address that no page can have is refused: link-local ones hold the metadata services of clouds.
"""

import http.client
import io
import ipaddress
import socket
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from longpole.page_addresses import may_hold_page
from longpole_agent.sources.exposition import ACCEPT

_CHUNK_BYTES = 64 * 1024
# A page lies on this node or beside it: where a connection takes longer than one lost packet costs,
# nobody is there.
_CONNECT_S = 1.2

# Returns the addresses of a name as `socket.getaddrinfo` does, in the order to try them.
Resolve = Callable[[str, int], Sequence[str]]


def look_up(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a host, most preferred first. Raises `OSError` where it has none."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(each[4][0]) for each in found]


class PageError(Exception):
    """A page that could not be had; the text says why."""


class PageGoneError(PageError):
    """Nobody serves the page any more, or somebody stopped in the middle of it."""


class FetchPage(Protocol):
    """Returns the text of the page at `http://TARGET/metrics`.

    Raises:
        PageError: It cannot be had.
        PageGoneError: Nobody serves it.
    """

    def __call__(self, target: str) -> str:
        """Fetch the page of a target, `host:port`."""
        ...


class HttpPages:
    """`FetchPage` over HTTP.

    Args:
        timeout_s: Bound of the whole exchange.
        max_bytes: Bound of a page.
        path: Where the page lies.
        resolve: Looks up what a name means, once for each page that is fetched.
    """

    def __init__(
        self,
        timeout_s: float = 2.0,
        max_bytes: int = 8 << 20,
        path: str = "/metrics",
        resolve: Resolve = look_up,
    ) -> None:
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes
        self._path = path
        self._resolve = resolve

    def __call__(self, target: str) -> str:
        """Fetch the page of a target; raises `PageError`."""
        host, _, port = target.rpartition(":")
        deadline_s = time.monotonic() + self._timeout_s
        # Never through a proxy: pages lie on this node or beside it.
        address = self._find_address(host.strip("[]"), int(port))
        connect_s = min(_CONNECT_S, self._timeout_s)
        connection = http.client.HTTPConnection(address, int(port), timeout=connect_s)
        try:
            _connect(connection, connect_s)
            with connection.sock as wire:
                connection.sock = _BoundedSocket(wire, deadline_s)
                connection.request("GET", self._path, headers={"Accept": ACCEPT, "Host": target})
                response = connection.getresponse()
                if response.status != 200:
                    raise PageError(f"status {response.status}")
                return self._read(response).decode("utf-8", "replace")
        except TimeoutError as error:
            raise PageError(f"no whole page within {self._timeout_s:g} s") from error
        except (ConnectionError, http.client.IncompleteRead) as error:
            # The latter where a page comes in chunks.
            raise PageGoneError(getattr(error, "strerror", None) or str(error)) from error
        except (OSError, http.client.HTTPException, UnicodeError) as error:
            raise PageError(getattr(error, "strerror", None) or str(error) or "no page") from error
        finally:
            connection.close()

    def _find_address(self, host: str, port: int) -> str:
        """Return the first address of a host, if a page may be there: that is connected to."""
        try:
            address = self._resolve(host, port)[0]
        except (OSError, UnicodeError, IndexError) as error:
            raise PageError(f"no address of {host!r}") from error
        if not may_hold_page(ipaddress.ip_address(address.partition("%")[0])):
            raise PageError(f"{address} is no address of a page")
        return address

    def _read(self, response: http.client.HTTPResponse) -> bytes:
        body = bytearray()
        while chunk := response.read1(_CHUNK_BYTES):
            body += chunk
            if len(body) > self._max_bytes:
                raise PageError(f"the page is larger than {self._max_bytes} bytes")
        if response.length:
            raise PageGoneError(f"the page was cut off {response.length} bytes before its end")
        return bytes(body)


def _connect(connection: http.client.HTTPConnection, connect_s: float) -> None:
    try:
        connection.connect()
    except TimeoutError as error:
        raise PageError(f"nobody answers within {connect_s:g} s") from error


class _BoundedSocket:
    """A connection as `http.client` uses it, until a moment: however little comes at a time.

    A socket's own timeout bounds each wait alone, and one line of a head is read by many.
    """

    def __init__(self, wire: socket.socket, deadline_s: float) -> None:
        self._wire = wire
        self._deadline_s = deadline_s

    def sendall(self, sent: bytes) -> None:
        self._wire.settimeout(_left_s(self._deadline_s))
        self._wire.sendall(sent)

    def makefile(self, *_: Any) -> io.BufferedReader:  # noqa: ANN401 - always "rb"
        return io.BufferedReader(_BoundedReads(self._wire, self._deadline_s))

    def close(self) -> None:
        """Leave the connection open: an answer that ends with it is still to be read."""


class _BoundedReads(io.RawIOBase):
    def __init__(self, wire: socket.socket, deadline_s: float) -> None:
        self._wire = wire
        self._deadline_s = deadline_s

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:  # noqa: ANN401 - Python 3.10 has no name for it
        self._wire.settimeout(_left_s(self._deadline_s))
        return self._wire.recv_into(buffer)


def _left_s(deadline_s: float) -> float:
    left_s = deadline_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s
