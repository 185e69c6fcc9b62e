"""Clients that dawdle, vanish or flood cost their connection, and nobody else anything."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette

from longpole.patience import PatientHttpProtocol
from longpole_agent.batch import Signal
from longpole_agent.receiver.listen import HttpListener, bind
from longpole_agent.receiver.otlp_http import OtlpHttpApp
from longpole_agent.receiver.room import Room
from longpole_server.cli import listening as server_listening
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
    yield server.servers[0].sockets[0].getsockname()[1]
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
    """Send a good request, and return the status."""
    async with httpx.AsyncClient(timeout=60.0) as client:
        answer = await client.post(
            f"http://127.0.0.1:{port}/v1/traces",
            content=make_request("traces", number),
            headers={"content-type": "application/x-protobuf"},
        )
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


async def test_an_application_that_reads_slowly_is_not_held_against_its_client():
    async def slow(
        scope: object, receive: Callable[[], Awaitable[dict[str, object]]], send_: object
    ):
        num_bytes = 0
        while True:
            await asyncio.sleep(0.15)
            message = await receive()
            num_bytes += len(bytes(message.get("body", b"")))  # type: ignore[call-overload]
            if not message.get("more_body"):
                break
        await send_({"type": "http.response.start", "status": 200, "headers": []})  # type: ignore[operator]
        await send_({"type": "http.response.body", "body": b"%d" % num_bytes})  # type: ignore[operator]

    async with listening(slow) as port, httpx.AsyncClient(timeout=60.0) as client:
        answer = await client.post(f"http://127.0.0.1:{port}/", content=bytes(3 << 20))
        assert int(answer.content) == 3 << 20


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
