"""OTLP/gRPC: the three Export methods on raw bytes, passed on as they came."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import grpc
import grpc.aio

from longpole.patience import GRPC_PATIENCE
from longpole.spool import SpoolError
from longpole_agent.batch import PROTOBUF, Signal
from longpole_agent.errors import BusyError, MalformedError
from longpole_agent.receiver.compression import (
    BodyTooLargeError,
    DamagedBodyError,
    check_gzip,
    is_gzip,
    is_zlib,
    uncompress,
)
from longpole_agent.receiver.otlp_http import Store
from longpole_agent.receiver.room import Room
from longpole_agent.receiver.stamping import Stamp, read_grpc_peer

_SIGNAL_OF_METHOD: dict[str, Signal] = {
    "/opentelemetry.proto.collector.trace.v1.TraceService/Export": "traces",
    "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export": "metrics",
    "/opentelemetry.proto.collector.logs.v1.LogsService/Export": "logs",
}
# An empty Export*ServiceResponse: everything was accepted.
_ACCEPTED = b""
# gRPC reads a message before it asks whether there is room for it.
_MAX_CONCURRENT_CALLS = 64

_Handler: TypeAlias = "grpc.RpcMethodHandler[bytes, bytes]"
_Context = grpc.aio.ServicerContext[bytes, bytes]


def make_grpc_server(
    store: Store, room: Room, max_request_bytes: int, stamp: Stamp | None = None
) -> grpc.aio.Server:
    """Return a server without a port, not started.

    Args:
        store: Makes a request durable; raises `MalformedError`, `BusyError` or `SpoolError`.
        room: Bound of all requests in flight.
        max_request_bytes: Bound of one request after decompression; gRPC itself refuses more.
        stamp: Names the sender of what names none; None: nothing is added.
    """
    server = grpc.aio.server(
        options=[
            ("grpc.max_receive_message_length", max_request_bytes),
            # gRPC would decompress as many messages at once as there are calls.
            ("grpc.per_message_decompression", 0),
            # Two agents must not share a port by accident.
            ("grpc.so_reuseport", 0),
            *GRPC_PATIENCE,
        ],
        maximum_concurrent_rpcs=_MAX_CONCURRENT_CALLS,
    )
    server.add_generic_rpc_handlers([_OtlpHandler(_Door(store, room, max_request_bytes, stamp))])
    return server


class _OtlpHandler(grpc.GenericRpcHandler):
    def __init__(self, door: "_Door") -> None:
        self._handlers: dict[str, _Handler] = {
            method: grpc.unary_unary_rpc_method_handler(door.make_export(signal))
            for method, signal in _SIGNAL_OF_METHOD.items()
        }

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "_Handler | None":
        return self._handlers.get(handler_call_details.method)


class _Door:
    """What the three methods share."""

    def __init__(
        self, store: Store, room: Room, max_request_bytes: int, stamp: "Stamp | None"
    ) -> None:
        self._store = store
        self._room = room
        self._max_request_bytes = max_request_bytes
        self._stamp = stamp
        # A small message may be a large one when decompressed: one at a time is in memory.
        self._decompressing = asyncio.Lock()

    def make_export(self, signal: Signal) -> Callable[[bytes, _Context], Awaitable[bytes]]:
        """Return the method that takes a signal."""

        async def export(request: bytes, context: _Context) -> bytes:
            try:
                with self._room.reserve() as reservation:
                    reservation.grow(len(request))
                    await self._take(signal, request, context)
            except (MalformedError, DamagedBodyError) as error:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
            except BodyTooLargeError as error:
                await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error))
            except (BusyError, SpoolError) as error:
                # UNAVAILABLE is the status that OTLP clients retry.
                await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
            return _ACCEPTED

        return export

    async def _take(self, signal: Signal, request: bytes, context: _Context) -> None:
        body, encoding = await self._check(request)
        if self._stamp is not None and signal == "traces":
            peer = read_grpc_peer(context.peer())
            body, encoding = await asyncio.to_thread(
                self._stamp, signal, body, PROTOBUF, encoding, peer
            )
        if body:
            await self._store(signal, body, PROTOBUF, encoding)

    async def _check(self, request: bytes) -> tuple[bytes, str]:
        """Return a message as it goes on, and how it is compressed."""
        if is_gzip(request):
            await asyncio.to_thread(check_gzip, request, self._max_request_bytes)
            return request, "gzip"
        if not is_zlib(request):
            return request, ""
        # As it goes on it takes the room of what comes out: one at a time.
        async with self._decompressing:
            limit = self._max_request_bytes
            return await asyncio.to_thread(uncompress, request, limit), ""
