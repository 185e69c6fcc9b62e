"""Answers of the raw ASGI applications, and who asked."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from longpole_agent.receiver.stamping import Peer

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

TEXT = "text/plain; charset=utf-8"
FROM_A_PAGE = "nothing is taken from web pages"
_PAGE_HEADERS = frozenset({b"origin", b"sec-fetch-site"})


def read_peer(scope: MutableMapping[str, Any]) -> Peer:
    """Return host and port of the other end, None when the server does not say."""
    client = scope.get("client")
    return None if client is None else (str(client[0]), int(client[1]))


def is_of_a_page(scope: MutableMapping[str, Any]) -> bool:
    """Tell whether a web page in somebody's browser asks: it says where it is from.

    Nobody is asked for credentials here, and any page may make a browser on this machine send.
    """
    return any(name in _PAGE_HEADERS for name, _ in scope.get("headers", ()))


async def respond_text(send: Send, status: int, text: str, *headers: tuple[bytes, bytes]) -> None:
    """Send an answer for people."""
    await respond(send, status, text.encode(), TEXT, *headers)


async def respond(
    send: Send, status: int, body: bytes, content_type: str, *headers: tuple[bytes, bytes]
) -> None:
    """Send a whole answer."""
    head = [
        (b"content-type", content_type.encode()),
        (b"content-length", b"%d" % len(body)),
        *headers,
    ]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})
