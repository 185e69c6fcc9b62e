"""OTLP/HTTP as a raw ASGI application: `POST /v1/traces|metrics|logs`, and how the agent does.

`GET /health` always answers; `/ready` and `/live` are 503 when the object says so.
"""

import asyncio
import json
import math
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from longpole.spool import SpoolError
from longpole_agent.batch import JSON, PROTOBUF, SIGNALS, Signal
from longpole_agent.errors import BusyError, MalformedError
from longpole_agent.receiver.answers import (
    FROM_A_PAGE,
    Receive,
    Send,
    is_of_a_page,
    read_peer,
    respond,
    respond_text,
)
from longpole_agent.receiver.compression import BodyTooLargeError, DamagedBodyError, check_gzip
from longpole_agent.receiver.room import Reservation, Room
from longpole_agent.receiver.stamping import Peer, Stamp
from longpole_agent.receiver.status import (
    INVALID_ARGUMENT,
    RESOURCE_EXHAUSTED,
    UNAVAILABLE,
    encode_status,
)

# Makes a request durable: signal, body, content type, content encoding.
Store = Callable[[Signal, bytes, str, str], Awaitable[None]]

_SIGNAL_OF_PATH: Mapping[str, Signal] = {f"/v1/{signal}": signal for signal in SIGNALS}
# Path and the field of the health object that must be true.
_STATES: Mapping[str, str | None] = {"/health": None, "/ready": "ready", "/live": "live"}
_ENCODINGS = {"": "", "identity": "", "gzip": "gzip"}
# Checked off the event loop when larger.
_CHECK_INLINE_BYTES = 64 * 1024
_DISK_RETRY_S = 5.0


class _Refusal(Exception):  # noqa: N818 - an answer, not a failure of ours
    def __init__(
        self,
        status: int,
        message: str,
        code: int = INVALID_ARGUMENT,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.retry_after_s = retry_after_s


class _Disconnected(Exception):  # noqa: N818 - the client's right
    pass


class OtlpHttpApp:
    """The application.

    Args:
        store: Makes a request durable; raises `MalformedError`, `BusyError` or `SpoolError`.
        room: Bound of all requests in flight.
        max_request_bytes: Bound of one request, before and after decompression.
        describe_health: Gives the JSON object of `GET /health`, with `ready` and `live` in it.
        stamp: Names the sender of what names none; None: nothing is added.
    """

    def __init__(
        self,
        store: Store,
        room: Room,
        max_request_bytes: int,
        describe_health: Callable[[], Mapping[str, Any]],
        stamp: Stamp | None = None,
    ) -> None:
        self._stamp = stamp
        self._store = store
        self._room = room
        self._max_request_bytes = max_request_bytes
        self._describe_health = describe_health

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        path, method = str(scope["path"]), str(scope["method"])
        if path in _STATES:
            await self._answer_state(path, method, send)
            return
        signal = _SIGNAL_OF_PATH.get(path)
        if signal is None:
            await respond_text(send, 404, f"no such path: {path}")
            return
        if method != "POST":
            await respond_text(send, 405, "OTLP is sent with POST", (b"allow", b"POST"))
            return
        if is_of_a_page(scope):
            await respond_text(send, 403, FROM_A_PAGE)
            return
        headers = _read_headers(scope)
        media_type = headers.get("content-type", "").split(";", 1)[0].strip().lower()
        if media_type not in {PROTOBUF, JSON}:
            await respond_text(send, 415, f"content type must be {PROTOBUF} or {JSON}")
            return
        try:
            await self._accept(signal, headers, receive, read_peer(scope))
        except _Refusal as refusal:
            await _respond_refusal(send, refusal, media_type)
        except _Disconnected:
            return
        else:
            await respond(send, 200, b"{}" if media_type == JSON else b"", media_type)

    async def _accept(
        self, signal: Signal, headers: Mapping[str, str], receive: Receive, peer: Peer
    ) -> None:
        encoding = _ENCODINGS.get(headers.get("content-encoding", "").strip().lower())
        if encoding is None:
            raise _Refusal(415, "content encoding must be gzip or none")
        with self._room.reserve() as reservation:
            try:
                body = await self._read_body(headers, receive, reservation)
                await self._check(body, encoding)
                content_type = headers["content-type"]
                if self._stamp is not None and signal == "traces":
                    body, encoding = await asyncio.to_thread(
                        self._stamp, signal, body, content_type, encoding, peer
                    )
                if body:  # an empty request is a valid one that says nothing
                    await self._store(signal, body, content_type, encoding)
            except MalformedError as error:
                raise _Refusal(400, str(error)) from error
            except BusyError as error:
                raise _Refusal(429, str(error), RESOURCE_EXHAUSTED, error.retry_after_s) from error
            except SpoolError as error:
                raise _Refusal(503, str(error), UNAVAILABLE, _DISK_RETRY_S) from error

    async def _read_body(
        self, headers: Mapping[str, str], receive: Receive, reservation: Reservation
    ) -> bytes:
        declared = headers.get("content-length", "")
        if declared.isdecimal() and int(declared) > self._max_request_bytes:
            raise self._too_large()
        chunks: list[bytes] = []
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _Disconnected
            chunk = message.get("body", b"")
            reservation.grow(len(chunk))
            chunks.append(chunk)
            if reservation.num_bytes > self._max_request_bytes:
                raise self._too_large()
            if not message.get("more_body", False):
                return b"".join(chunks)

    async def _check(self, body: bytes, encoding: str) -> None:
        if not encoding:
            return
        try:
            if len(body) > _CHECK_INLINE_BYTES:
                await asyncio.to_thread(check_gzip, body, self._max_request_bytes)
            else:
                check_gzip(body, self._max_request_bytes)
        except DamagedBodyError as error:
            raise _Refusal(400, str(error)) from error
        except BodyTooLargeError as error:
            raise self._too_large() from error

    def _too_large(self) -> _Refusal:
        message = f"the request is larger than {self._max_request_bytes} bytes"
        return _Refusal(413, message, RESOURCE_EXHAUSTED)

    async def _answer_state(self, path: str, method: str, send: Send) -> None:
        if method not in {"GET", "HEAD"}:
            await respond_text(send, 405, "read it with GET", (b"allow", b"GET, HEAD"))
            return
        health = self._describe_health()
        condition = _STATES[path]
        status = 200 if condition is None or health.get(condition) else 503
        await respond(send, status, json.dumps(health).encode(), JSON)


def _read_headers(scope: MutableMapping[str, Any]) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


async def _respond_refusal(send: Send, refusal: _Refusal, media_type: str) -> None:
    headers: list[tuple[bytes, bytes]] = []
    if refusal.retry_after_s is not None:
        headers.append((b"retry-after", b"%d" % max(1, math.ceil(refusal.retry_after_s))))
    if refusal.status == 415:
        await respond_text(send, 415, refusal.message)
        return
    if refusal.status == 413:  # the rest of the body is not read
        headers.append((b"connection", b"close"))
    body = encode_status(refusal.code, refusal.message, media_type)
    await respond(send, refusal.status, body, media_type, *headers)
