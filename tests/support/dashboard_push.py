"""A door before an application through which pushed connections pass, and which can be shut."""

import asyncio

from starlette.types import ASGIApp, Receive, Scope, Send


class PushDoor:
    """Passes everything on; while it is shut, no websocket, and those that were open are closed.

    Answers to ordinary questions pass all the time: what fails is the push alone.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._is_shut = False
        self._open: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "websocket":
            await self._app(scope, receive, send)
            return
        if not self._is_shut:
            task = asyncio.ensure_future(self._app(scope, receive, send))
            self._open.add(task)
            await asyncio.wait([task])
            self._open.discard(task)
            if not task.cancelled():
                task.result()
                return
        await send({"type": "websocket.close", "code": 1001})

    def shut(self) -> None:
        """Close what is open, and let nobody in."""
        self._is_shut = True
        for task in self._open:
            task.cancel()

    def reopen(self) -> None:
        """Let everybody in again."""
        self._is_shut = False
