"""Serves an application over HTTP and websockets for as long as a block runs."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncGenerator, Generator

import uvicorn
from starlette.types import ASGIApp

from longpole.patience import PatientHttpProtocol
from longpole_server.errors import ServerError

# Seconds for requests and websockets to end.
GRACE_S = 2


class _HttpServer(uvicorn.Server):
    """Leaves signals to its caller."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


@contextlib.asynccontextmanager
async def serving(
    app: ASGIApp, listener: socket.socket, tls: ssl.SSLContext | None = None
) -> AsyncGenerator[None]:
    """Serve an application at a listener, which is closed after the block."""
    settings = uvicorn.Config(
        app,
        http=PatientHttpProtocol,
        ws="websockets-sansio",
        log_config=None,
        access_log=False,
        server_header=False,
        # Whose word about a client counts is decided by `api.peers`.
        proxy_headers=False,
        timeout_graceful_shutdown=GRACE_S,
    )
    settings.load()
    settings.ssl = tls
    server = _HttpServer(settings)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started:
        if task.done():
            raise ServerError("the application did not start; its log says why")
        await asyncio.sleep(0.01)
    try:
        yield
    finally:
        server.should_exit = True
        await task
