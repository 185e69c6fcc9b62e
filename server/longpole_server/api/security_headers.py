"""Headers that tell browsers what a page of this server may do: nothing that it does not need."""

from collections.abc import Callable

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# The same for everybody: browsers keep them as long as their own headers say.
_PUBLIC = ("/assets/", "/_dash-component-suites/", "/_favicon.ico")
_YEAR_S = 365 * 86_400
_HEADERS = {
    # What scripts may run the pages say themselves, where they stand: the list is long.
    "Content-Security-Policy": (
        "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # A link to elsewhere must not tell the names of runs.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}


class SecurityHeadersMiddleware:
    """Adds the headers to every answer that does not set them itself.

    Args:
        app: What answers.
        asks_who: Tells whether people sign in. Then no copy of an answer stays where the next one
            at the machine finds it; without it browsers ask again before they show theirs.
    """

    def __init__(self, app: ASGIApp, asks_who: Callable[[], bool] = lambda: False) -> None:
        self._app = app
        self._asks_who = asks_who

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, with the headers."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                if not scope["path"].startswith(_PUBLIC):
                    keeping = "no-store" if self._asks_who() else "no-cache"
                    headers.setdefault("Cache-Control", f"private, {keeping}")
                if scope.get("scheme") == "https":
                    headers.setdefault("Strict-Transport-Security", f"max-age={_YEAR_S}")
            await send(message)

        await self._app(scope, receive, send_with_headers)
