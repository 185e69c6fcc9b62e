"""`HEAD` wherever there is `GET`: load balancers and `curl -I` ask so."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class HeadMiddleware:
    """Answers `HEAD` with the head of what `GET` answers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def send_head(message: Message) -> None:
            if message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        await self._app({**scope, "method": "GET"}, receive, send_head)
