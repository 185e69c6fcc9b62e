"""What RL-Insight's client asks and tells, answered on loopback without a token.

The client knows one address for everything and sends no token: with the address of this agent on
every node, what it registers goes to the server with the agent's. Its spans come in as OTLP.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, cast

from longpole.conventions.rl_insight import JOB_LABEL
from longpole_agent.peers import Peers
from longpole_agent.receiver.answers import (
    FROM_A_PAGE,
    Receive,
    Send,
    is_of_a_page,
    read_peer,
    respond,
    respond_text,
)
from longpole_agent.receiver.stamping import Peer
from longpole_agent.targets import REGISTER_PATH

SERVICES_PATH = "/api/v1/services"
_MAX_BODY_BYTES = 1 << 20
_JSON = "application/json"

# Passes a registration on; returns status and body of the answer.
Register = Callable[[bytes], tuple[int, bytes]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]


class RlInsightDoor:
    """The door in front of the OTLP receiver, as ASGI.

    Args:
        inner: Answers everything else.
        register: Passes registrations on. Blocks, and is called in a thread.
        peers: Finds the job of a sender.
        host_name: This node: where loopback addresses lead.
    """

    def __init__(self, inner: App, register: Register, peers: Peers, host_name: str) -> None:
        self._inner = inner
        self._register = register
        self._peers = peers
        self._host_name = host_name

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request."""
        path = scope.get("path") if scope["type"] == "http" else None
        if path == SERVICES_PATH:
            await self._answer_services(scope, send)
        elif path == REGISTER_PATH:
            await self._answer_registration(scope, receive, send)
        else:
            await self._inner(scope, receive, send)

    async def _answer_services(self, scope: MutableMapping[str, Any], send: Send) -> None:
        if scope["method"] not in {"GET", "HEAD"}:
            await respond_text(send, 405, "read it with GET", (b"allow", b"GET, HEAD"))
            return
        server = scope.get("server")
        document = {
            "status": "ok",
            # OTLP comes in here as well.
            "otlp_port": None if server is None else server[1],
            "prometheus_port": None,
            "grafana_port": None,
        }
        await respond(send, 200, json.dumps(document).encode(), _JSON)

    async def _answer_registration(
        self, scope: MutableMapping[str, Any], receive: Receive, send: Send
    ) -> None:
        if scope["method"] != "POST":
            await respond_text(send, 405, "pages are registered with POST", (b"allow", b"POST"))
            return
        if is_of_a_page(scope):
            await respond_text(send, 403, FROM_A_PAGE)
            return
        body = await _read_body(receive)
        if body is None:
            await respond_text(send, 413, f"a registration is at most {_MAX_BODY_BYTES:,} bytes")
            return
        status, answer = await asyncio.to_thread(self._pass_on, body, read_peer(scope))
        await respond(send, status, answer, _JSON)

    def _pass_on(self, body: bytes, peer: Peer) -> tuple[int, bytes]:
        try:
            document: object = json.loads(body)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            error = {"code": "bad_request", "message": "the body is no JSON object", "hint": None}
            return 400, json.dumps({"error": error}).encode()
        fields = cast("dict[str, Any]", document)
        job = "" if peer is None else self._peers.find_sender(*peer)
        return self._register(json.dumps(self._complete(fields, job)).encode())

    def _complete(self, fields: Mapping[str, Any], job: str) -> dict[str, Any]:
        """Return the registration with this node as its host, and with the sender's job."""
        completed = {"host": self._host_name, **fields}
        labels = fields.get("labels")
        if job and (labels is None or isinstance(labels, dict)):
            completed["labels"] = {**cast("dict[str, Any]", labels or {}), JOB_LABEL: job}
        return completed


async def _read_body(receive: Receive) -> bytes | None:
    """Return the body, None when it is too large or its sender has gone."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        if len(body) > _MAX_BODY_BYTES:
            return None
        if not message.get("more_body", False):
            return bytes(body)
