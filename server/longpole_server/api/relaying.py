"""Passes on what changes something, from a server that only shows to the one that writes.

The answer comes back as it is. What is passed on has been let in here, and is looked at there once
more, with the same credentials.
"""

import asyncio
import functools
import re
import tempfile
from collections.abc import AsyncIterator, Mapping
from typing import IO

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send
from urllib3.exceptions import HTTPError
from urllib3.response import BaseHTTPResponse

from longpole_server.api.access import LOGIN_PATH, LOGOUT_PATH, check_origin
from longpole_server.api.peers import Peer
from longpole_server.api.responses import make_error
from longpole_server.errors import WriterAwayError
from longpole_server.model.principal import EVERYBODY
from longpole_server.service.asking import Asker, Shown
from longpole_server.service.writer_link import WriterLink

# Read there whatever the method: what the store does not hold, or what asking changes.
_ALWAYS = re.compile(r"/api/v1/(audit|scrape-targets|prometheus/targets)")
_IMPORT = "/api/v1/import"
_CHANGING = frozenset({"POST", "PUT", "PATCH", "DELETE"})
# A try of a rule on a stored run changes nothing.
_KEPT = frozenset({"/api/v1/rules/preview"})
_SENDING = ("/v1/traces", "/v1/metrics", "/v1/logs", "/api/v1/services")
# Of one connection alone, or said anew; where a page is from has been looked at here.
_NOT_PASSED = frozenset(
    {
        "connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "expect",
        "proxy-authorization", "proxy-authenticate", "host", "content-length", "origin", "referer",
        "forwarded", "authorization", "cookie", "accept-encoding",
    }
)  # fmt: skip
_NOT_PASSED_PREFIXES = ("sec-", "x-forwarded-", "x-longpole-")
_NOT_RETURNED = frozenset(
    {"connection", "keep-alive", "transfer-encoding", "trailer", "upgrade", "server", "date"}
)
# Bodies up to here are kept in memory.
_IN_MEMORY_BYTES = 1 << 20
_CHUNK_BYTES = 256 << 10
_MAX_FORM_BYTES = 8 << 10
_MAX_AT_ONCE = 16
_MAX_STRANGERS = 8
_ANSWER_S = 60.0
# A log of gigabytes is judged before it is answered.
_IMPORT_S = 900.0


class RelayMiddleware:
    """Passes on what this server does not do itself.

    Args:
        app: What it does.
        link: The way to the server that writes.
        max_import_bytes: Largest body of an import.
    """

    def __init__(self, app: ASGIApp, link: WriterLink, max_import_bytes: int) -> None:
        self._app = app
        self._link = link
        self._max_import_bytes = max_import_bytes
        self._turns = asyncio.Semaphore(_MAX_AT_ONCE)
        # Strangers wait for each other, and nobody for them.
        self._strangers_turns = asyncio.Semaphore(_MAX_STRANGERS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass on and answer what is answered."""
        if scope["type"] != "http" or not is_passed_on(scope["method"], scope["path"]):
            await self._app(scope, receive, send)
            return
        response = await self._pass_on(Request(scope, receive))
        await response(scope, receive, send)

    async def _pass_on(self, request: Request) -> Response:
        refusal = check_origin(request.scope, request.headers)
        if refusal is not None:
            return make_error(refusal.status, refusal.code, refusal.message, refusal.hint)
        is_form = request.url.path in {LOGIN_PATH, LOGOUT_PATH}
        with tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES, prefix="longpole-relay-") as body:
            max_bytes = _MAX_FORM_BYTES if is_form else self._max_import_bytes
            try:
                num_bytes = await _receive(request, body, max_bytes)
            except ClientDisconnect:
                return make_error(400, "bad_request", "the request broke off")
            if num_bytes is None:
                message = f"the body is larger than {max_bytes:,} bytes"
                return make_error(413, "too_large", message)
            headers = self._choose_headers(request, num_bytes)
            async with self._strangers_turns if is_form else self._turns:
                return await self._ask(request, headers, body)

    async def _ask(self, request: Request, headers: Mapping[str, str], body: IO[bytes]) -> Response:
        answer_s = _IMPORT_S if request.url.path.startswith(_IMPORT) else _ANSWER_S
        ask = functools.partial(self._link.pass_on, request.method, _target_of(request))
        try:
            answer = await asyncio.to_thread(ask, headers, body, answer_s)
        except WriterAwayError as error:
            return make_error(503, error.code, error.message, error.hint, {"Retry-After": "5"})
        return _return(answer)

    def _choose_headers(self, request: Request, num_bytes: int) -> Mapping[str, str]:
        kept = {
            name: value
            for name, value in request.headers.items()
            if name not in _NOT_PASSED and not name.startswith(_NOT_PASSED_PREFIXES)
        }
        peer: Peer = request.scope["state"]["peer"]
        shown = Shown(
            request.headers.get("authorization", ""),
            request.headers.get("cookie", ""),
            peer.is_encrypted,
            peer.user,
        )
        return {
            **kept,
            **self._link.introduce(Asker(EVERYBODY, peer.address, shown)),
            "content-length": str(num_bytes),
        }


async def _receive(request: Request, body: IO[bytes], max_bytes: int) -> int | None:
    """Take the body in; None where it is too large."""
    num_bytes = 0
    async for chunk in request.stream():
        num_bytes += len(chunk)
        if num_bytes > max_bytes:
            return None
        if num_bytes > _IN_MEMORY_BYTES:
            await asyncio.to_thread(body.write, chunk)
        else:
            body.write(chunk)
    body.seek(0)
    return num_bytes


def is_passed_on(method: str, path: str) -> bool:
    """Tell whether a request is for the server that writes."""
    if _ALWAYS.fullmatch(path):
        return True
    if path in {LOGIN_PATH, LOGOUT_PATH}:
        return method == "POST"
    return method in _CHANGING and path.startswith("/api/") and path not in _KEPT


def create_refusing_routes(senders: str) -> list[Route]:
    """Return routes that tell senders of telemetry where they should send.

    Args:
        senders: The address of the server that takes data, for people.
    """

    async def refuse(_: Request) -> Response:
        return make_error(
            404,
            "no_ingest",
            "this server shows and takes no data",
            f"send to the server that does: {senders}",
        )

    return [
        Route(path, refuse, methods=["GET", "POST", "PUT", "DELETE", "PATCH"]) for path in _SENDING
    ]


def _target_of(request: Request) -> str:
    raw = request.scope.get("raw_path") or request.scope["path"].encode()
    query = request.scope.get("query_string", b"")
    target = raw.partition(b"?")[0].decode("latin-1")
    return f"{target}?{query.decode('latin-1')}" if query else target


def _return(answer: BaseHTTPResponse) -> Response:
    response = StreamingResponse(_stream(answer), answer.status)
    response.raw_headers = [
        (name.lower().encode("latin-1"), value.encode("latin-1"))
        for name, value in answer.headers.items()
        if name.lower() not in _NOT_RETURNED
    ]
    return response


async def _stream(answer: BaseHTTPResponse) -> AsyncIterator[bytes]:
    try:
        while chunk := await asyncio.to_thread(answer.read, _CHUNK_BYTES):
            yield chunk
    except (HTTPError, OSError) as error:
        raise ConnectionAbortedError("the other server broke off its answer") from error
    finally:
        answer.release_conn()
