"""Calls an ASGI application without a server."""

import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

Message = MutableMapping[str, Any]
App = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]],
    Awaitable[None],
]


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


async def call(
    app: App,
    method: str,
    path: str,
    body: bytes | Sequence[bytes] = b"",
    headers: Mapping[str, str] | None = None,
    *,
    disconnect: bool = False,
) -> Answer | None:
    """Return the application's answer, None when it gave none.

    Args:
        app: The application.
        method: HTTP method.
        path: Path of the request.
        body: Whole, or in chunks.
        headers: Names in lower case.
        disconnect: The client goes away after the chunks.
    """
    chunks = [body] if isinstance(body, bytes) else list(body)
    sent: list[Message] = []

    async def receive() -> Message:
        if not chunks:
            return {"type": "http.disconnect"}
        chunk = chunks.pop(0)
        return {"type": "http.request", "body": chunk, "more_body": bool(chunks) or disconnect}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "headers": [
            (name.encode("latin-1"), value.encode("latin-1"))
            for name, value in (headers or {}).items()
        ],
    }
    await app(scope, receive, send)
    if not sent:
        return None
    return Answer(
        sent[0]["status"],
        {name.decode("latin-1"): value.decode("latin-1") for name, value in sent[0]["headers"]},
        b"".join(message["body"] for message in sent[1:]),
    )
