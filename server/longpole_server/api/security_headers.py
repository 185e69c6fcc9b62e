"""Headers that tell browsers what a page of this server may do: nothing that it does not need."""

from collections.abc import Sequence

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_YEAR_S = 365 * 86_400


class SecurityHeadersMiddleware:
    """Adds the headers to every answer that does not set them itself.

    Args:
        app: What is behind it.
        script_hashes: Of the scripts that stand in the pages themselves, as CSP writes them.
    """

    def __init__(self, app: ASGIApp, script_hashes: Sequence[str]) -> None:
        self._app = app
        self._policy = make_policy(script_hashes)
        self._headers = {
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
            # A link to elsewhere must not tell the names of runs.
            "Referrer-Policy": "same-origin",
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, with the headers."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers.setdefault(name, value)
                if headers.get("content-type", "").startswith("text/html"):
                    # Of some kilobytes: other answers run nothing.
                    headers.setdefault("Content-Security-Policy", self._policy)
                if scope.get("scheme") == "https":
                    headers.setdefault("Strict-Transport-Security", f"max-age={_YEAR_S}")
            await send(message)

        await self._app(scope, receive, send_with_headers)


def make_policy(script_hashes: Sequence[str]) -> str:
    """Return the content security policy.

    Plotly writes styles into the elements that it draws and shows pictures of its own making.
    """
    return "; ".join(
        (
            "default-src 'self'",
            " ".join(("script-src 'self'", *script_hashes)),
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data: blob:",
            "font-src 'self' data:",
            "connect-src 'self'",
            "worker-src 'self' blob:",
            "object-src 'none'",
            "base-uri 'none'",
            "form-action 'self'",
            "frame-ancestors 'none'",
        )
    )
