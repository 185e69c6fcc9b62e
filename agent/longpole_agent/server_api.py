"""Asks the server's API: short questions, one connection each, with the agent's token."""

import http.client
import ssl
from typing import Protocol
from urllib.parse import urlsplit

from longpole import __version__
from longpole_agent.errors import ConfigError

_MAX_ANSWER_BYTES = 8 << 20


class ServerUnreachableError(Exception):
    """The server gave no answer; the text says why."""


class ServerApi(Protocol):
    """The server's HTTP API."""

    def request(
        self, method: str, path: str, body: bytes = b"", content_type: str = "application/json"
    ) -> tuple[int, bytes]:
        """Return status and body of the answer.

        Raises:
            ServerUnreachableError: None came.
        """
        ...


class HttpServerApi:
    """`ServerApi` over HTTP(S).

    Args:
        url: Address of the server.
        token: Sent as bearer token when not empty.
        timeout_s: For connecting, and for each wait on the socket.

    Raises:
        ConfigError: The address is none.
    """

    def __init__(self, url: str, token: str = "", timeout_s: float = 5.0) -> None:
        try:
            parts = urlsplit(url)
            self._host, self._port = parts.hostname or "", parts.port
        except ValueError as error:
            raise ConfigError(f"{url!r} is no address of a server ({error})") from error
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._path = parts.path.rstrip("/")
        self._headers = {"User-Agent": f"longpole-agent/{__version__}"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._timeout_s = timeout_s

    def request(
        self, method: str, path: str, body: bytes = b"", content_type: str = "application/json"
    ) -> tuple[int, bytes]:
        """Return status and body of the answer; raises `ServerUnreachableError`."""
        connection = self._connect()
        headers = {**self._headers, "Content-Type": content_type} if body else self._headers
        try:
            connection.request(method, self._path + path, body or None, headers)
            response = connection.getresponse()
            return response.status, response.read(_MAX_ANSWER_BYTES)
        except (OSError, http.client.HTTPException, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise ServerUnreachableError(reason) from error
        finally:
            connection.close()

    def _connect(self) -> http.client.HTTPConnection:
        if self._tls is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout_s)
        return http.client.HTTPSConnection(
            self._host, self._port, timeout=self._timeout_s, context=self._tls
        )
