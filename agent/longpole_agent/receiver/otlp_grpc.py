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
            # Two agents must not share a port by accident.
            ("grpc.so_reuseport", 0),
            *GRPC_PATIENCE,
        ],
        maximum_concurrent_rpcs=_MAX_CONCURRENT_CALLS,
    )
    server.add_generic_rpc_handlers([_OtlpHandler(store, room, stamp)])
    return server


class _OtlpHandler(grpc.GenericRpcHandler):
    def __init__(self, store: Store, room: Room, stamp: Stamp | None) -> None:
        self._handlers: dict[str, _Handler] = {
            method: grpc.unary_unary_rpc_method_handler(_make_export(signal, store, room, stamp))
            for method, signal in _SIGNAL_OF_METHOD.items()
        }

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "_Handler | None":
        return self._handlers.get(handler_call_details.method)


def _make_export(
    signal: Signal, store: Store, room: Room, stamp: Stamp | None
) -> Callable[[bytes, _Context], Awaitable[bytes]]:
    async def export(request: bytes, context: _Context) -> bytes:
        try:
            with room.reserve() as reservation:
                reservation.grow(len(request))
                body, encoding = request, ""
                if stamp is not None and signal == "traces":
                    peer = read_grpc_peer(context.peer())
                    body, encoding = await asyncio.to_thread(
                        stamp, signal, body, PROTOBUF, encoding, peer
                    )
                if body:
                    await store(signal, body, PROTOBUF, encoding)
        except MalformedError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except (BusyError, SpoolError) as error:
            # UNAVAILABLE is the status that OTLP clients retry.
            await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
        return _ACCEPTED

    return export
