"""Clients that dawdle, vanish or flood cost their connection, and nobody else anything."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc.aio
import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from uvicorn.server import ServerState

from longpole.patience import PatientHttpProtocol
from longpole_agent.batch import Signal
from longpole_agent.receiver.form import check_form
from longpole_agent.receiver.listen import HttpListener, bind
from longpole_agent.receiver.otlp_grpc import make_grpc_server
from longpole_agent.receiver.otlp_http import OtlpHttpApp
from longpole_agent.receiver.room import Room
from longpole_server.cli import listening as server_listening
from longpole_server.ingest.grpc import start_otlp_grpc
from longpole_server.ingest.http import create_otlp_routes
from longpole_server.ingest.limits import OtlpLimits
from support.fault_ledger import make_request
from support.otlp_pipeline import RecordingWriter, running_pipeline

pytestmark = pytest.mark.integration

HEAD = b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"
NUM_SLOW = 200


class Impatient(PatientHttpProtocol):
    """The same rules in a time that a test can wait for."""

    head_s = 0.5
    body_s = 0.5


@asynccontextmanager
async def listening(app: Callable[..., Awaitable[None]]) -> AsyncGenerator[int]:
    """Serve as both programs do, with less patience."""
    server = uvicorn.Server(
        uvicorn.Config(app, http=Impatient, port=0, log_level="critical", lifespan="off")
    )
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        await task


@asynccontextmanager
async def door_of(program: str, directory: Path) -> AsyncGenerator[tuple[int, list[bytes]]]:
    """The OTLP door of a program, and the bodies that it accepted."""
    accepted: list[bytes] = []
    if program == "agent":

        async def store(signal: Signal, body: bytes, kind: str, encoding: str) -> None:
            accepted.append(body)

        async with listening(OtlpHttpApp(store, Room(1 << 20), 1 << 20, dict)) as port:
            yield port, accepted
        return
    with running_pipeline(directory, RecordingWriter()) as pipeline:
        routes = create_otlp_routes(pipeline, OtlpLimits(1 << 20, 2 << 20))
        async with listening(Starlette(routes=routes)) as port:
            yield port, accepted


async def send(port: int, number: int) -> int:
    """Send a good request until it is answered, and return the status.

    On a busy machine a good client seems to dawdle as well, with so little patience.
    """
    async with httpx.AsyncClient(timeout=60.0) as client:
        while True:
            try:
                answer = await client.post(
                    f"http://127.0.0.1:{port}/v1/traces",
                    content=make_request("traces", number),
                    headers={"content-type": "application/x-protobuf"},
                )
            except httpx.TransportError:
                continue
            return answer.status_code


async def drip(port: int, first: bytes, drop: bytes) -> None:
    """Send something, then a drop now and then, until the connection is broken."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(first)
        while not reader.at_eof():
            writer.write(drop)
            await writer.drain()
            await asyncio.sleep(0.1)
            if writer.transport.is_closing():
                return
    except OSError:
        return
    finally:
        writer.transport.abort()


@pytest.mark.parametrize("program", ["agent", "server"])
@pytest.mark.parametrize(
    ("first", "drop"),
    [
        pytest.param(b"", b"", id="says nothing"),
        pytest.param(b"POST /v1/tra", b"", id="half a line"),
        pytest.param(HEAD, b"x: y\r\n", id="a head that drips"),
        pytest.param(HEAD + b"Content-Length: 900000\r\n\r\n", b"x", id="a body that drips"),
        pytest.param(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n", id="chunks"),
    ],
)
async def test_slow_clients_are_let_go(tmp_path: Path, program: str, first: bytes, drop: bytes):
    async with door_of(program, tmp_path) as (port, _):
        slow = [asyncio.create_task(drip(port, first, drop)) for _ in range(NUM_SLOW // 10)]
        await asyncio.sleep(0.1)
        assert await send(port, 1) == 200
        await asyncio.wait_for(asyncio.gather(*slow), 60.0)
        assert await send(port, 2) == 200


@pytest.mark.parametrize("program", ["agent", "server"])
async def test_many_half_open_connections_leave_room_for_others(tmp_path: Path, program: str):
    async with door_of(program, tmp_path) as (port, _):
        # Each holds some of the bytes in flight, and says no more.
        first = HEAD + b"Content-Length: 9000\r\n\r\n" + bytes(4000)
        slow = [asyncio.create_task(drip(port, first, b"")) for _ in range(NUM_SLOW)]
        statuses = {await send(port, number) for number in range(1, 10)}
        assert statuses <= {200, 429}
        await asyncio.wait_for(asyncio.gather(*slow), 60.0)
        # What they held was given back.
        assert await send(port, 10) == 200


@pytest.mark.parametrize("program", ["agent", "server"])
async def test_a_head_without_end_is_cut_off(tmp_path: Path, program: str):
    async with door_of(program, tmp_path) as (port, _):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        num_bytes = 0
        with pytest.raises(OSError):
            while True:
                writer.write(b"x: " + b"y" * 4000 + b"\r\n" if num_bytes else HEAD)
                num_bytes += 4005
                await writer.drain()
                assert num_bytes < 64 << 20
        writer.transport.abort()
        assert await send(port, 1) == 200


@asynccontextmanager
async def grpc_door_of(program: str, directory: Path) -> AsyncGenerator[int]:
    """The gRPC door of a program."""
    if program == "agent":

        async def store(signal: Signal, body: bytes, kind: str, encoding: str) -> None:
            check_form(signal, body, kind, encoding)

        server = make_grpc_server(store, 1 << 20)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        yield port
        await server.stop(0)
        return
    with running_pipeline(directory, RecordingWriter()) as pipeline:
        limits = OtlpLimits(1 << 20, 2 << 20)
        door = await start_otlp_grpc(pipeline, "127.0.0.1", 0, limits)
        yield door.port
        await door.stop(0)


# What opens an HTTP/2 connection, and the beginning of a frame of which no more comes.
HALF_A_FRAME = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 1])


@pytest.mark.parametrize("program", ["agent", "server"])
@pytest.mark.parametrize("first", [b"", b"PRI * HT", HALF_A_FRAME, b"GET / HTTP/1.1\r\n"])
async def test_half_open_connections_do_not_close_the_grpc_door(
    tmp_path: Path, program: str, first: bytes
):
    async with grpc_door_of(program, tmp_path) as port:
        slow = [await asyncio.open_connection("127.0.0.1", port) for _ in range(NUM_SLOW)]
        for _, writer in slow:
            writer.write(first)
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            path = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
            any_channel: Any = channel
            call = any_channel.unary_unary(path)
            assert await call(make_request("traces", 1), timeout=60.0) == b""
        for _, writer in slow:
            writer.transport.abort()


class Recorder(asyncio.Transport):
    """A connection that is looked at, not used."""

    is_aborted = False

    def get_extra_info(self, name: str, default: object = None) -> object:
        return default

    def pause_reading(self) -> None:
        pass

    def abort(self) -> None:
        self.is_aborted = True


async def test_an_application_that_reads_slowly_is_not_held_against_its_client():
    async def app(scope: object, receive: object, send: object) -> None:
        await asyncio.Event().wait()

    config = uvicorn.Config(app, http=PatientHttpProtocol, log_level="critical")
    config.load()
    state = ServerState()
    protocol, transport = PatientHttpProtocol(config, state, {}), Recorder()
    protocol.connection_made(transport)
    protocol.data_received(HEAD + b"Content-Length: 900000\r\n\r\n")
    # So much waits to be read that no more is taken from the client.
    protocol.data_received(bytes(200_000))
    assert protocol.flow.read_paused
    for _ in range(3):
        protocol._look()
    assert not transport.is_aborted
    protocol.flow.read_paused = False
    protocol._look()
    assert transport.is_aborted
    protocol.connection_lost(OSError())
    for task in state.tasks:
        task.cancel()
    await asyncio.gather(*state.tasks, return_exceptions=True)


async def refuse(signal: Signal, body: bytes, kind: str, encoding: str) -> None:
    raise AssertionError


def test_both_programs_listen_that_way():
    app = OtlpHttpApp(refuse, Room(1), 1, dict)
    with bind("127.0.0.1", 0) as listener:
        server = HttpListener(app, listener)._server
        server.config.load()
        assert server.config.http_protocol_class is PatientHttpProtocol
        assert listener.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    with server_listening.bind("127.0.0.1", 0) as listener:
        assert listener.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
