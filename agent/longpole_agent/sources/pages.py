"""Fetches Prometheus pages: bounded in time and size, one new connection each.

Who registers a page chooses where an agent connects. What a name means is looked up here, once, and
an address that no page can have is refused: link-local ones hold the metadata services of clouds.
"""

import http.client
import ipaddress
import socket
import time
from typing import Protocol

from longpole.page_addresses import may_hold_page
from longpole_agent.sources.exposition import ACCEPT

_CHUNK_BYTES = 64 * 1024


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
    """

    def __init__(
        self, timeout_s: float = 2.0, max_bytes: int = 8 << 20, path: str = "/metrics"
    ) -> None:
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes
        self._path = path

    def __call__(self, target: str) -> str:
        """Fetch the page of a target; raises `PageError`."""
        host, _, port = target.rpartition(":")
        deadline_s = time.monotonic() + self._timeout_s
        # Never through a proxy: pages lie on this node or beside it.
        address = _resolve(host.strip("[]"), int(port))
        connection = http.client.HTTPConnection(address, int(port), timeout=self._timeout_s)
        try:
            connection.request("GET", self._path, headers={"Accept": ACCEPT, "Host": target})
            response = connection.getresponse()
            if response.status != 200:
                raise PageError(f"status {response.status}")
            return self._read(connection, response, deadline_s).decode("utf-8", "replace")
        except TimeoutError as error:
            raise PageError(f"no answer within {self._timeout_s:g} s") from error
        except (ConnectionError, http.client.IncompleteRead) as error:
            # The latter where a page comes in chunks.
            raise PageGoneError(getattr(error, "strerror", None) or str(error)) from error
        except (OSError, http.client.HTTPException, UnicodeError) as error:
            raise PageError(getattr(error, "strerror", None) or str(error) or "no page") from error
        finally:
            connection.close()

    def _read(
        self,
        connection: http.client.HTTPConnection,
        response: http.client.HTTPResponse,
        deadline_s: float,
    ) -> bytes:
        body = bytearray()
        # The socket's timeout bounds each wait, the deadline all of them together.
        while chunk := response.read1(_CHUNK_BYTES):
            body += chunk
            if len(body) > self._max_bytes:
                raise PageError(f"the page is larger than {self._max_bytes} bytes")
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                raise PageError(f"no whole page within {self._timeout_s:g} s")
            if connection.sock is not None:
                connection.sock.settimeout(left_s)
        if response.length:
            raise PageGoneError(f"the page was cut off {response.length} bytes before its end")
        return bytes(body)


def _resolve(host: str, port: int) -> str:
    """Return the first address of a host, if a page may be there."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise PageError(f"no address of {host!r}") from error
    address = str(found[0][4][0])
    if not may_hold_page(ipaddress.ip_address(address.partition("%")[0])):
        raise PageError(f"{address} is no address of a page")
    return address
