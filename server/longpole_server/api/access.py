"""Who may call: one bearer token for everything but the health routes.

Programs send `Authorization: Bearer <token>`. People's browsers are asked for a password, which
is the token, and keep a cookie made from it, so that their websockets are let in too.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from longpole_server.api.responses import make_error

_OPEN_PATHS = frozenset({"/api/v1/health", "/api/v1/ready"})
# OTLP receivers check the token themselves: their errors have OTLP's own form.
_OTLP_PATHS = frozenset({"/v1/traces", "/v1/metrics", "/v1/logs"})
_COOKIE = "longpole_session"
_WEBSOCKET_POLICY_VIOLATION = 1008


class TokenCheck:
    """Compares credentials with the one token, in constant time."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()
        self.session = hmac.new(
            self._token, b"longpole browser session", hashlib.sha256
        ).hexdigest()

    def __call__(self, authorization: str | None) -> bool:
        """Tell whether the value of an `Authorization` header holds the token."""
        scheme, _, credentials = (authorization or "").partition(" ")
        if scheme.lower() == "bearer":
            return hmac.compare_digest(credentials.strip().encode(), self._token)
        if scheme.lower() == "basic":
            try:
                decoded = base64.b64decode(credentials.strip(), validate=True)
            except (binascii.Error, ValueError):
                return False
            return hmac.compare_digest(decoded.partition(b":")[2], self._token)
        return False

    def knows_cookie(self, header: str | None) -> bool:
        """Tell whether the value of a `Cookie` header holds the session made from the token."""
        try:
            cookie = SimpleCookie(header or "").get(_COOKIE)
        except CookieError:
            return False
        return cookie is not None and hmac.compare_digest(
            cookie.value.encode(), self.session.encode()
        )


class AccessMiddleware:
    """Lets requests and websockets in that carry the token or the session cookie.

    Args:
        app: What is behind it.
        check: Knows the token.
        own_paths: Of routes that check the token themselves, in the way of their protocol.
    """

    def __init__(
        self, app: ASGIApp, check: TokenCheck, own_paths: frozenset[str] = frozenset()
    ) -> None:
        self._app = app
        self._check = check
        self._open_paths = _OPEN_PATHS | _OTLP_PATHS | own_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, or refuse."""
        if scope["type"] not in {"http", "websocket"} or scope["path"] in self._open_paths:
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if self._check.knows_cookie(headers.get("cookie")):
            await self._app(scope, receive, send)
        elif self._check(headers.get("authorization")):
            await self._app(scope, receive, self._with_cookie(headers, send))
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": _WEBSOCKET_POLICY_VIOLATION})
        else:
            await _refuse(headers)(scope, receive, send)

    def _with_cookie(self, headers: Mapping[str, str], send: Send) -> Send:
        if not headers.get("authorization", "").lower().startswith("basic"):
            return send

        async def send_with_cookie(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).append(
                    "set-cookie",
                    f"{_COOKIE}={self._check.session}; Path=/; HttpOnly; SameSite=Strict",
                )
            await send(message)

        return send_with_cookie


def _refuse(headers: Mapping[str, str]) -> ASGIApp:
    wants_page = "text/html" in headers.get("accept", "")
    scheme = 'Basic realm="Longpole: any name, the token as password"' if wants_page else "Bearer"
    return make_error(
        401,
        "unauthorized",
        "this server wants its token",
        "send `Authorization: Bearer <token>`",
        headers={"WWW-Authenticate": scheme},
    )
