"""Talks to a running server from the command line."""

import json
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from longpole_server.errors import (
    BadRequestError,
    ConfigError,
    NotFoundError,
    ServerError,
    TooLargeError,
    UnreadableLogError,
)

DEFAULT_SERVER = "http://127.0.0.1:8470"
_TIMEOUT_S = 60.0
_KINDS: Mapping[int, type[ServerError]] = {
    400: BadRequestError,
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


class ServerClient:
    """One server's API.

    Args:
        address: `http://host:port`.
        token: Sent as bearer token when given.

    Raises:
        ConfigError: The address is not an HTTP one.
    """

    def __init__(self, address: str, token: str | None) -> None:
        if not address.startswith(("http://", "https://")):
            raise ConfigError(f"--server takes an address like {DEFAULT_SERVER}, not {address!r}.")
        self._address = address.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

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

    def _request(
        self, path: str, body: IO[bytes] | None, headers: Mapping[str, str]
    ) -> dict[str, Any]:
        request = urllib.request.Request(  # noqa: S310 - the constructor admits http(s) only
            f"{self._address}/api/v1{path}", data=body, headers={**self._headers, **headers}
        )
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310 - as above
                document: dict[str, Any] = json.load(answer)
                return document
        except urllib.error.HTTPError as error:
            raise _translate(error) from error
        except (urllib.error.URLError, OSError) as error:
            reason = getattr(error, "reason", error)
            raise ServerError(f"{self._address} does not answer: {reason}.") from error
        except ValueError as error:
            raise ServerError(f"{self._address} answered something else than JSON.") from error


def quote_segment(text: str) -> str:
    """Return `text` as one path segment: run ids may hold slashes."""
    return urllib.parse.quote(text, safe="")


def _translate(error: urllib.error.HTTPError) -> ServerError:
    message, hint = f"the server answered {error.code} {error.reason}", ""
    try:
        problem = json.load(error)["error"]
        message, hint = str(problem["message"]), str(problem["hint"])
    except (ValueError, KeyError, TypeError):
        pass
    return _KINDS.get(error.code, ServerError)(message, hint)
