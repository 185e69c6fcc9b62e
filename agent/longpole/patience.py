"""How long a listener waits for clients that do not get on. Agent and server share it.

By itself uvicorn waits for ever for the head and the body of a request, and takes a head of any
size: a client that vanished without a word, or one of ill will, would hold a connection for good.
"""

import asyncio
import resource
import socket

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class PatientHttpProtocol(HttpToolsProtocol):
    """uvicorn's protocol with bounds on time and size.

    A connection is broken when a head is not complete in time or is too large, and when a body
    comes in more slowly than the least pace. What an application that reads slowly holds back is
    not counted against its client.

    Attributes:
        head_s: Most seconds from the connection, or from the first byte of a request, to the end
            of its head.
        max_head_bytes: Most bytes of a head.
        body_s: Seconds in each of which at least `min_body_bytes` of a body must come in.
    """

    head_s = 20.0
    max_head_bytes = 64 * 1024
    body_s = 30.0
    min_body_bytes = 4 * 1024

    _waits_for = ""
    _num_bytes = 0
    _timer: "asyncio.TimerHandle | None" = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] - TCP only
        """Wait for the first request."""
        super().connection_made(transport)
        self._wait_for("head", self.head_s)

    def connection_lost(self, exc: "Exception | None") -> None:
        """Wait for nothing more."""
        self._wait_for("", 0)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count what comes in."""
        self._num_bytes += len(data)
        super().data_received(data)
        if self._waits_for == "head" and self._num_bytes > self.max_head_bytes:
            self.transport.abort()

    def on_message_begin(self) -> None:
        """Wait for the head of another request on a connection that was kept."""
        super().on_message_begin()
        if not self._waits_for:
            self._wait_for("head", self.head_s)

    def on_headers_complete(self) -> None:
        """Wait for the body."""
        super().on_headers_complete()
        self._wait_for("body", self.body_s)

    def on_message_complete(self) -> None:
        """Wait for nothing: now it is the application's turn."""
        super().on_message_complete()
        self._wait_for("", 0)

    def handle_websocket_upgrade(self) -> None:
        """Leave the connection to the protocol that takes it over."""
        self._wait_for("", 0)
        super().handle_websocket_upgrade()

    def _wait_for(self, what: str, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._waits_for, self._num_bytes = what, 0
        if what:
            self._timer = self.loop.call_later(seconds, self._look)

    def _look(self) -> None:
        is_slow = self._num_bytes < self.min_body_bytes and not self.flow.read_paused
        if self._waits_for == "head" or is_slow:
            self.transport.abort()
        else:
            self._wait_for("body", self.body_s)


def notice_vanished_peers(listener: socket.socket) -> None:
    """Let the system find out about peers of accepted connections that are gone without a word."""
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


def raise_file_limit() -> None:
    """Allow this process as many open files, connections among them, as the system lets it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


# For gRPC servers: a peer that answers no ping is gone; one that does not even greet is let go.
GRPC_PATIENCE: "tuple[tuple[str, int], ...]" = (
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.server_handshake_timeout_ms", 20_000),
)

# What gRPC reads of a call before it is asked to: 64 KiB, whatever the wire could carry. Calls of
# one connection beyond a number are broken off, so it is more than are answered well at a time.
GRPC_READS_AHEAD: "tuple[tuple[str, int], ...]" = (
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", 64 * 1024),
    ("grpc.max_concurrent_streams", 1024),
)
