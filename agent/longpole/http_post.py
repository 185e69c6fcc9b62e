"""One POST to the receiver over a kept connection.

The standard library on purpose: it reads no proxy settings and no `.netrc`, draws nothing from
the global `random` state that trainers seed, and its timeouts are ours.
"""

import codecs
import gzip
import http.client
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsPartialSuccess

from longpole._version import __version__
from longpole.errors import ReceiverUnreachable
from longpole.settings import Settings

_MIN_GZIP_BYTES = 1024
_MAX_REPLY_BYTES = 64 * 1024
_MAX_MESSAGE_CHARS = 500
# Opening a connection imports this codec. On the sender's thread that would hold an import lock,
# and a fork in that moment would leave it locked in the child for ever.
codecs.lookup("idna")

_STALE_CONNECTION = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError)


@dataclass(frozen=True, slots=True)
class Reply:
    """What the receiver answered.

    Attributes:
        retry_after_s: None unless it asked for a pause.
        message: One line of what an error says, empty where it says nothing.
    """

    status: int
    retry_after_s: float | None = None
    message: str = ""


class HttpPost:
    """Posts protobuf bodies to one endpoint. One thread at a time.

    Args:
        settings: Endpoint, headers and certificates.
        is_compressing: Whether large bodies are gzipped; default when the receiver is far.
    """

    def __init__(self, settings: Settings, is_compressing: bool | None = None) -> None:
        self._endpoint = settings.endpoint
        is_far = not settings.endpoint.is_loopback
        self._is_compressing = is_far if is_compressing is None else is_compressing
        self._certificate_file = settings.certificate_file
        self._headers = {
            **_parse_headers(settings.headers),
            "Content-Type": "application/x-protobuf",
            "User-Agent": f"longpole/{__version__}",
        }
        self._connection: http.client.HTTPConnection | None = None

    def post(self, path: str, body: bytes, token: str | None, timeout_s: float) -> Reply:
        """Send one body; `timeout_s` bounds the connection and each wait for the receiver.

        Raises:
            ReceiverUnreachable: No answer.
        """
        headers = dict(self._headers)
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        if self._is_compressing and len(body) >= _MIN_GZIP_BYTES:
            body = gzip.compress(body, compresslevel=1)
            headers["Content-Encoding"] = "gzip"
        try:
            return self._exchange(path, body, headers, timeout_s)
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.close()
            raise ReceiverUnreachable(
                f"{self._endpoint}: {error or type(error).__name__}"
            ) from error

    def close(self) -> None:
        """Close the connection; the next post opens a new one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _exchange(
        self, path: str, body: bytes, headers: Mapping[str, str], timeout_s: float
    ) -> Reply:
        was_kept = self._connection is not None
        try:
            return self._request(path, body, headers, timeout_s)
        except _STALE_CONNECTION:
            # The receiver closed a kept connection while it was idle: not an outage.
            self.close()
            if not was_kept:
                raise
            return self._request(path, body, headers, timeout_s)

    def _request(
        self, path: str, body: bytes, headers: Mapping[str, str], timeout_s: float
    ) -> Reply:
        connection = self._connect(timeout_s)
        connection.request("POST", self._endpoint.path + path, body=body, headers=dict(headers))
        response = connection.getresponse()
        content = response.read(_MAX_REPLY_BYTES)
        if not response.isclosed():
            self.close()
        message = ""
        if response.status >= HTTPStatus.BAD_REQUEST:
            message = _read_message(content, response.getheader("Content-Type"))
        pause_s = _parse_retry_after(response.getheader("Retry-After"))
        return Reply(response.status, pause_s, message)

    def _connect(self, timeout_s: float) -> http.client.HTTPConnection:
        connection = self._connection
        if connection is None:
            endpoint = self._endpoint
            if endpoint.scheme == "https":
                context = ssl.create_default_context(cafile=self._certificate_file)
                connection = http.client.HTTPSConnection(
                    endpoint.host, endpoint.port, timeout=timeout_s, context=context
                )
            else:
                connection = http.client.HTTPConnection(
                    endpoint.host, endpoint.port, timeout=timeout_s
                )
            self._connection = connection
        elif connection.sock is not None:
            connection.sock.settimeout(timeout_s)
        return connection


def _parse_headers(text: str) -> dict[str, str]:
    if not text:
        return {}
    from opentelemetry.util.re import parse_env_headers  # needed by few

    return dict(parse_env_headers(text, liberal=True))


def _read_message(content: bytes, media_type: str | None) -> str:
    """Return what the body of an error says: a `google.rpc.Status`, or plain text."""
    kind = (media_type or "").partition(";")[0].strip().lower()
    if kind == "application/x-protobuf":
        try:
            # A Status begins as this message does, with a number and a text; the rest is skipped.
            text = ExportLogsPartialSuccess.FromString(content).error_message
        except DecodeError:
            return ""
    elif kind == "text/plain":
        text = content.decode(errors="replace")
    else:
        return ""
    # Of no length and with no line break that a trainer's log would suffer from.
    printable = "".join(each if each.isprintable() else " " for each in text[:_MAX_MESSAGE_CHARS])
    return " ".join(printable.split())


def _parse_retry_after(text: str | None) -> float | None:
    return float(text) if text and text.strip().isdigit() else None
