"""Listening sockets, and the servers on them."""

import asyncio
import contextlib
import socket
from collections.abc import Generator

import grpc.aio
import uvicorn

from longpole.patience import PatientHttpProtocol, notice_vanished_peers
from longpole_agent.receiver.rl_insight_door import App

_GRACE_S = 2.0
_BACKLOG = 256


class PortTakenError(Exception):
    """Somebody else listens there, or may not listen there."""


def bind(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 lets the system choose.

    Raises:
        PortTakenError: The address cannot be used.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise PortTakenError(f"{host}:{port}: {error.strerror or error}") from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        notice_vanished_peers(listening)
        listening.bind(address)
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise PortTakenError(f"{host}:{port}: {error.strerror}") from error
    return listening


class HttpListener:
    """uvicorn on a socket of ours, in the running event loop."""

    def __init__(self, app: App, listening: socket.socket) -> None:
        self.port = int(listening.getsockname()[1])
        self._socket = listening
        self._server = _Server(
            uvicorn.Config(
                app,
                http=PatientHttpProtocol,
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                date_header=False,
                ws="none",
                timeout_keep_alive=60,
                timeout_graceful_shutdown=int(_GRACE_S),
            )
        )
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to serve."""
        self._task = asyncio.create_task(self._server.serve(sockets=[self._socket]))
        while not self._server.started and not self._task.done():
            await asyncio.sleep(0.001)

    async def close(self) -> None:
        """Answer what is under way, then stop."""
        self._server.should_exit = True
        if self._task is not None:
            await self._task


class GrpcListener:
    """A gRPC server on a port.

    Raises:
        PortTakenError: The address cannot be used.
    """

    def __init__(self, server: grpc.aio.Server, host: str, port: int) -> None:
        # gRPC complains at length when a port is taken: ask the system first.
        bind(host, port).close()
        self._server = server
        try:
            address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            self.port = server.add_insecure_port(address)
        except RuntimeError as error:
            raise PortTakenError(f"{host}:{port}: {error}") from error

    async def start(self) -> None:
        """Begin to serve."""
        await self._server.start()

    async def close(self) -> None:
        """Answer what is under way, then stop."""
        await self._server.stop(_GRACE_S)


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave signals to the agent."""
        yield
