"""The server as the agent sees it: one kept-alive HTTP connection."""

import email.utils
import http.client
import select
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

from longpole import __version__
from longpole.conventions.attributes import HEADER_BATCH_ID
from longpole_agent.batch import Batch
from longpole_agent.errors import ConfigError

_MAX_ANSWER_BYTES = 64 * 1024
_MAX_REASON_CHARACTERS = 200
# An answer that took longer does not tell the server's time.
_TELLING_S = 2.0
# ValueError: a host name, or a header of a sender, that cannot be one.
_FAILURES = (OSError, http.client.HTTPException, ValueError)


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of one request.

    Attributes:
        status: HTTP status, or None when no answer came.
        reason: For people: what the server said, or why it could not be asked.
        retry_after_s: Seconds the server asked to wait, if it did.
        clock_ahead_s: By how much this machine's clock is ahead of the server's, as its `Date`
            says, to half a second; None when it says none, or answered too slowly to tell.
    """

    status: int | None
    reason: str = ""
    retry_after_s: float | None = None
    clock_ahead_s: float | None = None


class Upstream(Protocol):
    """Where batches are delivered. Called from one thread, except `close`."""

    def post(self, batch: Batch, batch_id: str) -> Answer:
        """Deliver one batch; never raises."""
        ...

    def close(self) -> None:
        """End the connection, and a request that is under way."""
        ...


class HttpUpstream:
    """`Upstream` over HTTP(S).

    Args:
        url: Address of the server; `/v1/<signal>` is added to its path.
        token: Sent as bearer token when not empty.
        timeout_s: For connecting, and for each wait on the socket.
        now_s: Unix time in seconds: what a date that the server names is compared with.
    """

    def __init__(
        self,
        url: str,
        token: str = "",
        timeout_s: float = 30.0,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        try:
            parts = urlsplit(url)
            self._port = parts.port
            self._host = parts.hostname or ""
        except ValueError as error:
            raise ConfigError(f"{url!r} is no address of a server ({error})") from error
        if parts.scheme not in {"http", "https"} or not self._host:
            raise ConfigError(f"{url!r} is no address of a server", "give http://HOST:PORT")
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._path = parts.path.rstrip("/")
        self._headers = {"User-Agent": f"longpole-agent/{__version__}"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._timeout_s = timeout_s
        self._now_s = now_s
        self._lock = threading.Lock()
        self._connection: http.client.HTTPConnection | None = None

    def post(self, batch: Batch, batch_id: str) -> Answer:
        """Deliver one batch; never raises."""
        headers = {
            **self._headers,
            "Content-Type": batch.content_type,
            HEADER_BATCH_ID: batch_id,
        }
        if batch.content_encoding:
            headers["Content-Encoding"] = batch.content_encoding
        path = f"{self._path}/v1/{batch.signal}"
        connection, reused = self._connect()
        try:
            return self._exchange(connection, path, batch.body, headers)
        except _FAILURES as error:
            self.close()
            if not reused:
                return Answer(None, _describe(error))
        # A kept connection may have been closed by the server just now: that says nothing.
        connection, _ = self._connect()
        try:
            return self._exchange(connection, path, batch.body, headers)
        except _FAILURES as error:
            self.close()
            return Answer(None, _describe(error))

    def close(self) -> None:
        """End the connection, and a request that is under way."""
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is None:
            return
        if connection.sock is not None:
            with suppress(OSError):
                connection.sock.shutdown(2)
        connection.close()

    def _connect(self) -> tuple[http.client.HTTPConnection, bool]:
        """Return a connection, and whether it was used before."""
        with self._lock:
            connection = self._connection
        if connection is not None and connection.sock is not None and not _is_readable(connection):
            return connection, True
        self.close()
        if self._tls is None:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=self._timeout_s)
        else:
            connection = http.client.HTTPSConnection(
                self._host, self._port, timeout=self._timeout_s, context=self._tls
            )
        with self._lock:
            self._connection = connection
        return connection, False

    def _exchange(
        self,
        connection: http.client.HTTPConnection,
        path: str,
        body: bytes,
        headers: dict[str, str],
    ) -> Answer:
        asked_s = self._now_s()
        connection.request("POST", path, body, headers)
        response = connection.getresponse()
        answered_s = self._now_s()
        text = response.read(_MAX_ANSWER_BYTES)
        if not response.isclosed():
            self.close()
        retry_after_s = _read_retry_after(response.headers.get("Retry-After"), self._now_s())
        if _is_from_elsewhere(response):
            said = f"{response.status} and a web page"
            return Answer(None, f"{said} (is --server the address of a Longpole server?)")
        reason = "" if response.status < 300 else _printable(text) or response.reason
        date = response.headers.get("Date")
        clock_ahead_s = _compare_clocks(date, asked_s, answered_s)
        return Answer(response.status, reason, retry_after_s, clock_ahead_s)


def _is_from_elsewhere(response: http.client.HTTPResponse) -> bool:
    """Whether a yes or no is a page for people, as no receiver of OTLP gives one."""
    is_judgement = response.status < 300 or response.status == 400
    return is_judgement and response.headers.get_content_type() == "text/html"


def _is_readable(connection: http.client.HTTPConnection) -> bool:
    """Whether an idle connection has something to read, which only its end can be."""
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return bool(poll.poll(0))


def _describe(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


def _printable(body: bytes) -> str:
    text = body.decode("utf-8", "replace")
    kept = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(kept.replace("\ufffd", " ").split())[:_MAX_REASON_CHARACTERS]


def _read_retry_after(value: str | None, now_s: float) -> float | None:
    """Return seconds to wait from a `Retry-After` header: seconds or an HTTP date."""
    if value is None:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    date_s = _read_date(value)
    return None if date_s is None else max(0.0, date_s - now_s)


def _compare_clocks(date: str | None, asked_s: float, answered_s: float) -> float | None:
    """Return by how much this machine's clock is ahead of who wrote a `Date` in between."""
    date_s = _read_date(date) if date is not None else None
    if date_s is None or not 0.0 <= answered_s - asked_s <= _TELLING_S:
        return None
    # Dates have whole seconds: the half of one is right on average.
    return (asked_s + answered_s) / 2 - (date_s + 0.5)


def _read_date(value: str) -> float | None:
    try:
        return email.utils.parsedate_to_datetime(value).timestamp()
    except (ValueError, OverflowError):
        return None
