import gzip
import zlib
from collections.abc import AsyncIterator

import grpc
import grpc.aio
import pytest

from longpole.spool import SpoolError
from longpole_agent.batch import Signal
from longpole_agent.receiver.listen import GrpcListener, PortTakenError, bind
from longpole_agent.receiver.otlp_grpc import make_grpc_server

METHODS = {
    "traces": "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    "metrics": "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
    "logs": "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
}
LIMIT = 10_000


class Receiver:
    """A gRPC server on a free port with a store that remembers, or fails as told."""

    def __init__(self) -> None:
        self.stored: list[tuple[Signal, bytes, str, str]] = []
        self.error: Exception | None = None
        server = make_grpc_server(self._store, LIMIT)
        self.listener = GrpcListener(server, "127.0.0.1", 0)
        self.channel: grpc.aio.Channel = grpc.aio.insecure_channel(
            f"127.0.0.1:{self.listener.port}"
        )

    async def _store(self, signal: Signal, body: bytes, content_type: str, encoding: str) -> None:
        if self.error is not None:
            raise self.error
        self.stored.append((signal, body, content_type, encoding))

    async def export(
        self, method: str, body: bytes, compression: grpc.Compression | None = None
    ) -> bytes:
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self.channel.unary_unary(method)
        return await call(body, compression=compression)


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    made = Receiver()
    await made.listener.start()
    yield made
    await made.channel.close()
    await made.listener.close()


async def test_the_three_services_store_what_comes(receiver: Receiver) -> None:
    for signal, method in METHODS.items():
        assert await receiver.export(method, signal.encode()) == b""
    assert receiver.stored == [
        (signal, signal.encode(), "application/x-protobuf", "") for signal in METHODS
    ]


async def test_gzip_is_checked_and_passed_on_compressed(receiver: Receiver) -> None:
    await receiver.export(METHODS["traces"], b"x" * 5000, grpc.Compression.Gzip)
    (_, body, _, encoding) = receiver.stored[0]
    assert encoding == "gzip"
    assert gzip.decompress(body) == b"x" * 5000


async def test_deflate_arrives_decompressed(receiver: Receiver) -> None:
    await receiver.export(METHODS["traces"], b"x" * 5000, grpc.Compression.Deflate)
    assert receiver.stored[0][1:] == (b"x" * 5000, "application/x-protobuf", "")


@pytest.mark.parametrize("body", [gzip.compress(b"x" * 99)[:-9], zlib.compress(b"x" * 99)[:-5]])
async def test_what_is_cut_off_is_an_invalid_argument(receiver: Receiver, body: bytes) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await receiver.export(METHODS["traces"], body)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert receiver.stored == []


async def test_a_bomb_is_refused_before_it_is_in_memory(receiver: Receiver) -> None:
    for compress in (gzip.compress, zlib.compress):
        bomb = compress(bytes(8_000_000))
        assert len(bomb) < LIMIT
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await receiver.export(METHODS["traces"], bomb)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert receiver.stored == []


async def test_an_empty_request_is_accepted(receiver: Receiver) -> None:
    assert await receiver.export(METHODS["logs"], b"") == b""
    assert receiver.stored == []


@pytest.mark.parametrize("compression", [None, grpc.Compression.Gzip, grpc.Compression.Deflate])
async def test_too_large_is_resource_exhausted(
    receiver: Receiver, compression: grpc.Compression | None
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await receiver.export(METHODS["traces"], b"x" * (LIMIT + 1), compression)
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert receiver.stored == []


async def test_other_methods_are_unimplemented(receiver: Receiver) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await receiver.export("/other.Service/Export", b"x")
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_what_cannot_be_stored_is_unavailable(receiver: Receiver) -> None:
    receiver.error = SpoolError("disk full")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await receiver.export(METHODS["traces"], b"x")
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    assert caught.value.details() == "disk full"


async def test_a_taken_port_is_named() -> None:
    with bind("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortTakenError, match=f"127.0.0.1:{port}: Address already in use"):
            bind("127.0.0.1", port)
        server = make_grpc_server(None, 1)  # pyright: ignore[reportArgumentType]
        with pytest.raises(PortTakenError, match=f"127.0.0.1:{port}"):
            GrpcListener(server, "127.0.0.1", port)


def test_an_address_of_another_machine_is_named() -> None:
    with pytest.raises(PortTakenError, match=r"203\.0\.113\.1:0: Cannot assign"):
        bind("203.0.113.1", 0)
