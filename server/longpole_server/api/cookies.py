"""Cookies: of what a browser sends, this server's own alone are read, and nothing is decoded.

Who decodes quoted values may need seconds for one of sixty kilobytes: Python's own way grew with
the square of their backslashes (CVE-2024-7592), and the frameworks behind use it on every request,
also of strangers. Ours are plain words.
"""

import re
from collections.abc import Iterator

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from longpole_server.api.responses import make_error

SESSION_COOKIE = "longpole_session"
MARK_COOKIE = "longpole_browser"
# A sign-in proxy before this server keeps sessions of several cookies of 4 KiB.
MAX_BYTES = 32 << 10
_OWN = frozenset({SESSION_COOKIE, MARK_COOKIE})
# What signed values are made of.
_PLAIN = re.compile(r"[A-Za-z0-9._-]+")
_POLICY_VIOLATION = 1008


def read_cookie(header: str | None, name: str) -> str | None:
    """Return the value of one of this server's cookies in a `Cookie` header, None without one."""
    # The last, as everybody reads a name that comes twice.
    return dict(_list_own(header or "")).get(name)


def _list_own(header: str) -> Iterator[tuple[str, str]]:
    for pair in header.split(";"):
        name, _, value = pair.partition("=")
        name, value = name.strip(), value.strip()
        if name in _OWN and _PLAIN.fullmatch(value):
            yield name, value


class OwnCookiesMiddleware:
    """Lets only this server's cookies through, and refuses more than a browser has for it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, or refuse."""
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        lines = Headers(scope=scope).getlist("cookie")
        if sum(map(len, lines)) > MAX_BYTES:
            answer = _close if scope["type"] == "websocket" else _refuse
            await answer(scope, receive, send)
            return
        if lines:
            scope = {**scope, "headers": _keep_own(scope["headers"], lines)}
        await self._app(scope, receive, send)


def _keep_own(headers: list[tuple[bytes, bytes]], lines: list[str]) -> list[tuple[bytes, bytes]]:
    others = [pair for pair in headers if pair[0].lower() != b"cookie"]
    own = [f"{name}={value}" for line in lines for name, value in _list_own(line)]
    return [*others, (b"cookie", "; ".join(own).encode("latin-1"))] if own else others


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    response = make_error(
        431,
        "too_large",
        f"the cookies are larger than {MAX_BYTES:,} bytes",
        "clear this site's cookies in the browser; a proxy before it may keep its own to itself",
        {"Connection": "close"},
    )
    await response(scope, receive, send)


async def _close(_: Scope, receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
