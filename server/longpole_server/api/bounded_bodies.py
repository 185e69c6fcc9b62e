"""Bodies of requests that are read into memory whole are small, or refused."""

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from longpole_server.api.responses import make_error

MAX_BYTES = 8 << 20
# These know bounds of their own, and answer in the way of their protocol.
_BOUNDED_ELSEWHERE = ("/api/v1/import", "/v1/", "/clickhouse/")


class BoundedBodiesMiddleware:
    """Refuses what is too large, before or while it is read by whatever stands behind.

    Pages' callbacks and the API's documents are a few kilobytes.
    """

    def __init__(self, app: ASGIApp, max_bytes: int = MAX_BYTES) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, with 413 where the body is too large."""
        if scope["type"] != "http" or scope["path"].startswith(_BOUNDED_ELSEWHERE):
            await self._app(scope, receive, send)
            return
        if self._says_too_much(Headers(scope=scope).get("content-length")):
            await self._refuse(scope, receive, send)
            return
        await self._watch(scope, receive, send)

    def _says_too_much(self, length: str | None) -> bool:
        return length is not None and length.isdecimal() and int(length[:20]) > self._max_bytes

    async def _watch(self, scope: Scope, receive: Receive, send: Send) -> None:
        num_bytes = 0
        has_begun = False

        async def receive_some() -> Message:
            nonlocal num_bytes
            if num_bytes > self._max_bytes:
                return {"type": "http.disconnect"}
            message = await receive()
            if message["type"] == "http.request":
                num_bytes += len(message.get("body", b""))
                if num_bytes > self._max_bytes:
                    # Whoever reads gives up, whatever they make of it.
                    return {"type": "http.disconnect"}
            return message

        async def send_unless_refused(message: Message) -> None:
            nonlocal has_begun
            if num_bytes <= self._max_bytes or has_begun:
                has_begun = True
                await send(message)

        try:
            await self._app(scope, receive_some, send_unless_refused)
        except Exception:
            if num_bytes <= self._max_bytes or has_begun:
                raise
        if num_bytes > self._max_bytes and not has_begun:
            await self._refuse(scope, receive, send)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = make_error(
            413,
            "too_large",
            f"the body is larger than {self._max_bytes:,} bytes",
            "logs and exported runs go to /api/v1/import",
            {"Connection": "close"},
        )
        await response(scope, receive, send)
