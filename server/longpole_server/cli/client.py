"""Talks to a running server from the command line."""

import http.client
import io
import ipaddress
import json
import os
import shutil
import urllib.error
import urllib.parse
import urllib.request
from argparse import ArgumentTypeError
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, cast

from longpole_server.errors import (
    BadRequestError,
    ConfigError,
    ForbiddenError,
    NotFoundError,
    ServerError,
    TooLargeError,
    UnreadableLogError,
)

DEFAULT_SERVER = "http://127.0.0.1:8470"
_MAX_METRICS_BYTES = 4 << 20
_TIMEOUT_S = 60.0
_MAX_ERROR_BYTES = 64 << 10
_KINDS: Mapping[int, type[ServerError]] = {
    400: BadRequestError,
    403: ForbiddenError,
    404: NotFoundError,
    413: TooLargeError,
    422: UnreadableLogError,
}


def read_token(environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the bearer token of `LONGPOLE_TOKEN` or `LONGPOLE_TOKEN_FILE`, None without one.

    Raises:
        ConfigError: The named file cannot be read.
    """
    if token := environment.get("LONGPOLE_TOKEN"):
        return token
    path = environment.get("LONGPOLE_TOKEN_FILE")
    if not path:
        return None
    try:
        return Path(path).read_text("utf-8").strip()
    except OSError as error:
        raise ConfigError(f"LONGPOLE_TOKEN_FILE {path}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"LONGPOLE_TOKEN_FILE {path} holds no text.") from error


class ServerClient:
    """One server's API.

    Args:
        address: `http://host:port`.
        token: Sent as bearer token when given.

    Raises:
        ConfigError: The address is not an HTTP one.
    """

    def __init__(self, address: str, token: str | None) -> None:
        host = _find_host(address)
        if host is None:
            raise ConfigError(f"--server takes an address like {DEFAULT_SERVER}, not {address!r}.")
        if token is not None and not (token.isascii() and token.isprintable()):
            raise ConfigError("The token holds characters that no HTTP header may hold.")
        self._address = address.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        # A proxy of the environment does not reach this machine's own ports.
        proxies = [urllib.request.ProxyHandler({})] if _is_loopback(host) else []
        self._opener = urllib.request.build_opener(*proxies)

    def get(self, path: str) -> dict[str, Any]:
        """Return the JSON object at `/api/v1<path>`.

        Raises:
            NotFoundError: The server knows no such thing.
            ServerError: It does not answer, or refuses.
        """
        return self._request(path, None, {})

    def post(self, path: str, body: IO[bytes], num_bytes: int) -> dict[str, Any]:
        """Stream `body` to `/api/v1<path>` and return the answer. Raises as `get`."""
        headers = {
            "Content-Type": "application/octet-stream",
            "Content-Length": str(num_bytes),
        }
        return self._request(path, body, headers)

    def post_json(self, path: str, document: Mapping[str, Any]) -> dict[str, Any]:
        """Send an object to `/api/v1<path>` and return the answer. Raises as `get`."""
        body = json.dumps(document).encode()
        headers = {"Content-Type": "application/json", "Content-Length": str(len(body))}
        return self._request(path, io.BytesIO(body), headers)

    def send(self, path: str, body: bytes, headers: Mapping[str, str]) -> dict[str, Any]:
        """Send an OTLP request to `<path>` and return the answer. Raises as `get`."""
        return self._request(path, body, headers, root="")

    def get_metrics(self) -> dict[str, float]:
        """Return the server's own figures, of `/metrics`, by name. Raises as `get`."""
        try:
            with self._open("/metrics", None, {}) as answer:
                lines = answer.read(_MAX_METRICS_BYTES).decode("utf-8", "replace").splitlines()
        except (OSError, http.client.HTTPException) as error:
            raise ServerError(f"{self._address} broke off: {error}.") from error
        return dict(figure for line in lines if (figure := _read_figure(line)) is not None)

    def read(self, path: str) -> bytes:
        """Return what is at `<path>`, which is no part of the API. Raises as `get`."""
        try:
            with self._open(path, None, {}) as answer:
                return answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise ServerError(f"{self._address} broke off: {error}.") from error

    def download(self, path: str, file: Path) -> None:
        """Write what is at `/api/v1<path>` into a file, which is there when it is whole.

        Raises as `get`.
        """
        partial = file.with_name(f"{file.name}.partial")
        with self._open(f"/api/v1{path}", None, {}) as answer, partial.open("wb") as stream:
            expected = answer.length
            try:
                shutil.copyfileobj(answer, stream)
            except http.client.HTTPException as error:
                raise ServerError(f"{self._address} broke off: {error}.") from error
            # Where a server ends amid a body, reading piece by piece ends like a whole one.
            if expected is not None and stream.tell() != expected:
                raise ServerError(
                    f"{self._address} broke off: {stream.tell():,} bytes of {expected:,}."
                )
        partial.replace(file)

    def _open(
        self, path: str, body: IO[bytes] | bytes | None, headers: Mapping[str, str]
    ) -> http.client.HTTPResponse:
        request = urllib.request.Request(  # noqa: S310 - the constructor admits http(s) only
            f"{self._address}{path}", data=body, headers={**self._headers, **headers}
        )
        try:
            return self._opener.open(request, timeout=_TIMEOUT_S)
        except urllib.error.HTTPError as error:
            raise _translate(error) from error
        except (OSError, http.client.HTTPException) as error:
            if body is not None:
                self._explain_break_off(error)
            reason = getattr(error, "reason", error) or type(error).__name__
            is_refused = isinstance(reason, ConnectionRefusedError)
            raise ServerError(
                f"{self._address} does not answer: {reason}.",
                "`longpole up` starts a server; --server names another one" if is_refused else "",
            ) from error

    def _explain_break_off(self, error: Exception) -> None:
        """Raise what a server said that broke off while a body was sent, if it says so again.

        One that refuses the caller answers before it has read the body, and its answer is lost.
        """
        reason = getattr(error, "reason", error)
        if isinstance(reason, BrokenPipeError | ConnectionResetError):
            with self._open("/api/v1/runs", None, {}):
                pass

    def _request(
        self,
        path: str,
        body: IO[bytes] | bytes | None,
        headers: Mapping[str, str],
        root: str = "/api/v1",
    ) -> dict[str, Any]:
        try:
            with self._open(f"{root}{path}", body, headers) as answer:
                document: object = json.load(answer)
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error) or type(error).__name__
            raise ServerError(f"{self._address} does not answer: {reason}.") from error
        except ValueError as error:
            raise ServerError(f"{self._address} answered something else than JSON.") from error
        if not isinstance(document, dict):
            raise ServerError(f"{self._address} answered something else than an object.")
        return cast("dict[str, Any]", document)


def _read_figure(line: str) -> tuple[str, float] | None:
    name, _, value = line.partition(" ")
    try:
        return (name, float(value)) if name and not name.startswith("#") else None
    except ValueError:
        return None


def quote_segment(text: str) -> str:
    """Return `text` as one path segment: run ids may hold slashes."""
    return urllib.parse.quote(text, safe="")


def is_address(text: str) -> bool:
    """Tell whether a text is the address of a server."""
    return _find_host(text) is not None


def parse_address(text: str) -> str:
    """Return a server's address as it is given on a command line.

    Raises:
        ArgumentTypeError: It is none.
    """
    if not is_address(text):
        raise ArgumentTypeError(f"{text!r} is not an address such as {DEFAULT_SERVER}")
    return text


def _find_host(address: str) -> str | None:
    """Return the host of an HTTP address, None when it is no such address."""
    try:
        parts = urllib.parse.urlsplit(address)
        # Reading the port checks it.
        is_address = parts.scheme in {"http", "https"} and parts.port != 0
    except ValueError:
        return None
    return parts.hostname if is_address and address.isprintable() and " " not in address else None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _translate(error: urllib.error.HTTPError) -> ServerError:
    message, hint = f"the server answered {error.code} {error.reason}", ""
    try:
        body = error.read(_MAX_ERROR_BYTES)
        if error.headers.get("Content-Type", "").startswith("text/plain"):
            message = body.decode("utf-8", "replace").strip() or message
        else:
            problem = json.loads(body)["error"]
            message, hint = str(problem["message"]), str(problem["hint"])
    except (ValueError, KeyError, TypeError, OSError, http.client.HTTPException):
        pass
    return _KINDS.get(error.code, ServerError)(message, hint)
