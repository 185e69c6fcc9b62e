"""Scripts and styles, compressed once: nine megabytes would cost every first visit seconds.

Compressing for each visitor would hold up the event loop a quarter of a second each time. What
names its version in its address is kept by browsers without asking again.
"""

import asyncio
import gzip
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_PREFIXES = ("/_dash-component-suites/", "/assets/")
_TYPES = ("javascript", "css", "svg", "json")
# Small files are smaller than what compressing them saves.
_MIN_BYTES = 1_024
# All of them together, compressed, are a fifth of this.
MAX_KEPT_BYTES = 16 * 2**20
_LEVEL = 7
_OWN_HEADERS = frozenset({b"content-length", b"content-encoding", b"vary"})
# How Dash writes the version of a library into a name, and of an asset behind it.
_VERSIONED = re.compile(r"/[^/?]+\.v[\w-]+m[0-9a-f]+\.[^/?]+\?|^/assets/[^?]+\?m=")
_FOREVER = (b"cache-control", b"public, max-age=31536000, immutable")


@dataclass(frozen=True, slots=True)
class _File:
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...]


class CompressedFiles:
    """Middleware that answers for static files from memory, compressed.

    Kept by their address, which names their version, up to `max_kept_bytes`; what finds no room
    goes out as it is.

    Args:
        edit: Returns what is sent of a file; it is given path and content.
    """

    def __init__(
        self,
        app: ASGIApp,
        max_kept_bytes: int = MAX_KEPT_BYTES,
        edit: Callable[[str, bytes], bytes] = lambda _path, body: body,
    ) -> None:
        self._app = app
        self._edit = edit
        self._max_kept_bytes = max_kept_bytes
        self._files: dict[str, _File] = {}

    @property
    def kept(self) -> Mapping[str, int]:
        """Address -> compressed bytes."""
        return MappingProxyType({name: len(file.body) for name, file in self._files.items()})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass on what is no static file or for who takes none compressed."""
        if not _is_wanted(scope):
            await self._app(scope, receive, send)
            return
        name = f"{scope['path']}?{scope.get('query_string', b'').decode('latin-1')}"
        file = self._files.get(name)
        if file is None:
            answer = _Answer()
            await self._app(scope, receive, answer.take)
            if _VERSIONED.search(name):
                answer.keep_forever()
            is_full = sum(self.kept.values()) >= self._max_kept_bytes
            if is_full or not answer.is_worth_it:
                await answer.send_as_it_is(send)
                return
            edit = partial(self._edit, scope["path"])
            file = await asyncio.to_thread(answer.compress, edit)
            self._files[name] = file
        await send({"type": "http.response.start", "status": 200, "headers": list(file.headers)})
        await send({"type": "http.response.body", "body": file.body})


def _is_wanted(scope: Scope) -> bool:
    if scope["type"] != "http" or scope["method"] != "GET":
        return False
    if not str(scope["path"]).startswith(_PREFIXES):
        return False
    headers = Headers(scope=scope)
    return (
        "gzip" in headers.get("accept-encoding", "")
        and "range" not in headers
        and "if-none-match" not in headers
        and "if-modified-since" not in headers
    )


class _Answer:
    """What the application answers, held back until it is whole."""

    def __init__(self) -> None:
        self._start: Message = {"type": "http.response.start", "status": 500, "headers": []}
        self._parts: list[bytes] = []

    async def take(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = message
        elif message["type"] == "http.response.body":
            self._parts.append(message.get("body", b""))

    def keep_forever(self) -> None:
        """Let browsers keep it without asking again, if it is there."""
        if self._start["status"] == 200:
            others = [pair for pair in self._start["headers"] if pair[0].lower() != _FOREVER[0]]
            self._start = {**self._start, "headers": [*others, _FOREVER]}

    @property
    def is_worth_it(self) -> bool:
        headers = Headers(raw=list(self._start["headers"]))
        kind = headers.get("content-type", "")
        return (
            self._start["status"] == 200
            and "content-encoding" not in headers
            and any(word in kind for word in _TYPES)
            and sum(map(len, self._parts)) >= _MIN_BYTES
        )

    async def send_as_it_is(self, send: Send) -> None:
        await send(self._start)
        await send({"type": "http.response.body", "body": b"".join(self._parts)})

    def compress(self, edit: Callable[[bytes], bytes]) -> _File:
        body = gzip.compress(edit(b"".join(self._parts)), _LEVEL, mtime=0)
        kept = [pair for pair in self._start["headers"] if pair[0].lower() not in _OWN_HEADERS]
        own = (
            (b"content-encoding", b"gzip"),
            (b"vary", b"accept-encoding"),
            (b"content-length", str(len(body)).encode()),
        )
        return _File(body, (*kept, *own))
