"""Answers that wait for their clients to read them: bounded, and not for ever.

A query's memory is given back when it ends, but its answer stays until the client has taken it.
"""

import asyncio

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from longpole_server.errors import BusyError

_PIECE_BYTES = 256 << 10
_RETRY_S = 5.0


class UnreadAnswers:
    """Counts the bytes of answers on their way. Used in one event loop only.

    Args:
        max_bytes: While so many are unread, no more is asked.
        patience_s: A client that takes nothing for so long is let go.
    """

    def __init__(self, max_bytes: int, patience_s: float = 30.0) -> None:
        self._max_bytes = max_bytes
        self._patience_s = patience_s
        self.num_bytes = 0

    def check(self) -> None:
        """Refuse to make another answer while too much is unread.

        Raises:
            BusyError: It is.
        """
        if self.num_bytes >= self._max_bytes:
            raise BusyError("Too much that was asked for is not read yet.", _RETRY_S)

    def hold(self, answer: Response) -> Response:
        """Return an answer that is counted until it is sent."""
        return _PacedResponse(answer, self, self._patience_s)


class _PacedResponse(Response):
    """Sends an answer in pieces, each when the client has taken those before it."""

    def __init__(self, answer: Response, unread: UnreadAnswers, patience_s: float) -> None:
        super().__init__(status_code=answer.status_code)
        self.raw_headers = answer.raw_headers
        self.body = answer.body
        self._unread = unread
        self._patience_s = patience_s
        unread.num_bytes += len(self.body)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI's signature
        num_bytes = len(self.body)
        try:
            await send(
                {
                    "type": "http.response.start",
                    "status": self.status_code,
                    "headers": self.raw_headers,
                }
            )
            for at in range(0, max(1, num_bytes), _PIECE_BYTES):
                piece = bytes(self.body[at : at + _PIECE_BYTES])
                more = at + _PIECE_BYTES < num_bytes
                message = {"type": "http.response.body", "body": piece, "more_body": more}
                await asyncio.wait_for(send(message), self._patience_s)
        finally:
            self._unread.num_bytes -= num_bytes
