"""Asks the server that writes, over its API, with what the asker showed to this one."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, TypeVar
from urllib.parse import urlencode, urlsplit

import urllib3
from pydantic import TypeAdapter, ValidationError
from urllib3.exceptions import HTTPError
from urllib3.response import BaseHTTPResponse

from longpole_server.auth.vouchers import HEADER, Voucher, Vouchers
from longpole_server.errors import (
    BadRequestError,
    BusyError,
    ForbiddenError,
    NotFoundError,
    ServerError,
    StoreError,
    TooLargeError,
    WriterAwayError,
)
from longpole_server.service.asking import Asker, who_asks
from longpole_server.service.news import News, Seen

T = TypeVar("T")

_CONNECT_S = 3.0
_ANSWER_S = 60.0
# Of news: it is waited for a second there.
_NEWS_S = 5.0
# What this server may read of one answer into memory.
_MAX_ANSWER_BYTES = 64 << 20
_KINDS: Mapping[int, type[ServerError]] = {
    400: BadRequestError,
    401: ForbiddenError,
    403: ForbiddenError,
    404: NotFoundError,
    413: TooLargeError,
    503: StoreError,
}
_news = TypeAdapter(News)


class WriterLink:
    """The way to the server that writes. Thread-safe.

    Args:
        url: Its address.
        vouchers: Says for whom this server asks.
        ca_file: Certificates to check its with; None for the system's.
    """

    def __init__(self, url: str, vouchers: Vouchers, ca_file: Path | None = None) -> None:
        self._url = url.rstrip("/")
        self._vouchers = vouchers
        ca_certs = str(ca_file) if ca_file is not None else None
        self._pool = urllib3.PoolManager(maxsize=1, ca_certs=ca_certs)
        # An act goes over a connection of its own: one that was kept may end just then, and nobody
        # would know whether it was done.
        self._acts = urllib3.PoolManager(maxsize=1, ca_certs=ca_certs)

    @property
    def place(self) -> str:
        """Host and port, for people."""
        return urlsplit(self._url).netloc

    def ask(self, seen: Seen, wait_s: float) -> News:
        """Return what changed there since.

        Raises:
            ServerError: It does not answer, or not with news.
        """
        asked = {
            "epoch": seen.epoch,
            "version": seen.version,
            "writes": seen.writes,
            "wait_s": wait_s,
        }
        headers = {HEADER: self._vouchers.make(Voucher())}
        answer = self._request(
            self._pool, "GET", f"/api/v1/changes?{urlencode(asked)}", headers, None, _NEWS_S
        )
        return _parse(_news, _read(answer))

    def call(
        self, kind: TypeAdapter[T], method: str, path: str, document: object | None = None
    ) -> T:
        """Ask in the name of who asks here, and return what is answered.

        Raises:
            ServerError: Of the kind that was answered; `WriterAwayError` without an answer.
        """
        headers = self.introduce(who_asks())
        body: bytes | None = None
        if document is not None:
            headers["content-type"] = "application/json"
            body = json.dumps(document).encode()
        return _parse(kind, _read(self._act(method, path, headers, body, _ANSWER_S)))

    def introduce(self, asker: Asker) -> dict[str, str]:
        """Return the headers that say who asks."""
        shown = asker.shown
        voucher = Voucher(asker.address or "127.0.0.1", shown.is_encrypted, shown.user)
        headers = {HEADER: self._vouchers.make(voucher)}
        if shown.authorization:
            headers["authorization"] = shown.authorization
        if shown.cookies:
            headers["cookie"] = shown.cookies
        return headers

    def pass_on(
        self, method: str, target: str, headers: Mapping[str, str], body: IO[bytes], answer_s: float
    ) -> BaseHTTPResponse:
        """Send a request as it is; who takes the answer reads and releases it.

        Args:
            method: Of the request.
            target: Path and query.
            headers: With those of `introduce`.
            body: At its beginning; `content-length` says its size.
            answer_s: How long the answer is waited for.

        Raises:
            WriterAwayError: Nobody answers.
        """
        return self._act(method, target, headers, body, answer_s)

    def close(self) -> None:
        """Close the connections."""
        self._pool.clear()
        self._acts.clear()

    def _act(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: "bytes | IO[bytes] | None",
        answer_s: float,
    ) -> BaseHTTPResponse:
        alone = {**headers, "connection": "close"}
        return self._request(self._acts, method, target, alone, body, answer_s)

    def _request(
        self,
        pool: urllib3.PoolManager,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: "bytes | IO[bytes] | None",
        answer_s: float,
    ) -> BaseHTTPResponse:
        try:
            return pool.request(
                method,
                self._url + target,
                body=body,
                headers=headers,
                preload_content=False,
                decode_content=False,
                redirect=False,
                # A connection that was kept may have ended; what only reads is asked again.
                retries=urllib3.Retry(1, status=0) if pool is self._pool else False,
                timeout=urllib3.Timeout(connect=_CONNECT_S, read=answer_s),
            )
        except (HTTPError, OSError) as error:
            raise WriterAwayError(
                f"the server that takes data and judges, {self.place}, does not answer:"
                f" {_explain(error)}",
                hint="what only shows works without it; try again in a minute",
            ) from error


def _explain(error: Exception) -> str:
    reason = getattr(error, "reason", None) or error
    return type(reason).__name__


def _read(answer: BaseHTTPResponse) -> bytes:
    try:
        body = answer.read(_MAX_ANSWER_BYTES + 1, decode_content=True)
    except (HTTPError, OSError) as error:
        raise WriterAwayError("the server that takes data broke off its answer") from error
    finally:
        answer.release_conn()
    if len(body) > _MAX_ANSWER_BYTES:
        raise WriterAwayError("the server that takes data answers more than this one reads")
    if answer.status >= 400:
        raise _make_error(answer.status, body)
    return body


def _make_error(status: int, body: bytes) -> ServerError:
    try:
        told: Any = json.loads(body)["error"]
        message, hint = str(told["message"]), str(told.get("hint", ""))
    except (ValueError, KeyError, TypeError, AttributeError):
        message, hint = f"the server that takes data answers {status}", ""
    if status == 429:
        return BusyError(message)
    return _KINDS.get(status, WriterAwayError)(message, hint)


def _parse(kind: TypeAdapter[T], body: bytes) -> T:
    try:
        return kind.validate_json(body)
    except ValidationError as error:
        raise WriterAwayError(
            "the server that takes data answers something else than this one understands",
            hint="run the same release of all servers",
        ) from error
