"""Refuses to tell pages in browsers anything, under whatever name they call this machine."""

from collections.abc import MutableMapping
from collections.abc import Set as AbstractSet
from typing import Any

from longpole.host_names import is_own_host
from longpole_agent.receiver.answers import Receive, Send, respond_text
from longpole_agent.receiver.rl_insight_door import App

_REFUSAL = (
    "this agent listens on loopback and answers to localhost, addresses and this node's name alone"
)


class HostDoor:
    """The outermost door of an agent that only its node can reach, as ASGI.

    Elsewhere programs reach it by names that it cannot know, and whoever reaches it may read. What
    is sent is judged behind it, by where it comes from: a trainer's alias for loopback is no harm.

    Args:
        inner: Answers everything.
        names: Of this node, in lower case.
    """

    def __init__(self, inner: App, names: AbstractSet[str]) -> None:
        self._inner = inner
        self._names = names

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request."""
        is_read = scope["type"] == "http" and scope["method"] != "POST"
        if is_read and not is_own_host(_read_host(scope), self._names):
            await respond_text(send, 403, _REFUSAL)
        else:
            await self._inner(scope, receive, send)


def _read_host(scope: MutableMapping[str, Any]) -> str:
    """Return the `Host` header; of several all, which is no name."""
    headers = [value for name, value in scope.get("headers", ()) if name == b"host"]
    return b",".join(headers).decode("latin-1")
