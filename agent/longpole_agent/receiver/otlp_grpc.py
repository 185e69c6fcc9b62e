"""OTLP/gRPC: the three Export methods on raw bytes, passed on as they came."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeAlias

import grpc
import grpc.aio

from longpole.patience import GRPC_PATIENCE, GRPC_READS_AHEAD
from longpole.spool import SpoolError
from longpole.turns import NoTurnError, Turns
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
from longpole_agent.receiver.stamping import Stamp, read_grpc_peer
from longpole_agent.receiver.status import UNAVAILABLE, encode_retry

_SIGNAL_OF_METHOD: dict[str, Signal] = {
    "/opentelemetry.proto.collector.trace.v1.TraceService/Export": "traces",
    "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export": "metrics",
    "/opentelemetry.proto.collector.logs.v1.LogsService/Export": "logs",
}
# An empty Export*ServiceResponse: everything was accepted.
_ACCEPTED = b""
# Calls that wait or are stored at a time; what each sends ahead is small.
_MAX_CALLS = 256
# Metadata key under which clients look for a `google.rpc.Status`.
_STATUS_DETAILS = "grpc-status-details-bin"
_DISK_RETRY_S = 5.0

_Handler: TypeAlias = "grpc.RpcMethodHandler[bytes, bytes]"
_Context = grpc.aio.ServicerContext[bytes, bytes]


def make_grpc_server(
    store: Store, max_request_bytes: int, stamp: Stamp | None = None, turn_wait_s: float = 5.0
) -> grpc.aio.Server:
    """Return a server without a port, not started.

    Args:
        store: Makes a request durable; raises `MalformedError`, `BusyError` or `SpoolError`.
        max_request_bytes: Bound of one request after decompression; gRPC itself refuses more.
        stamp: Names the sender of what names none; None: nothing is added.
        turn_wait_s: How long a call waits until there is room for its message.
    """
    # One is read while others, as many bytes as one may have, are stored.
    turns = Turns(2 * max_request_bytes, max_request_bytes, _MAX_CALLS, turn_wait_s)
    server = grpc.aio.server(
        options=[
            ("grpc.max_receive_message_length", max_request_bytes),
            # gRPC would decompress as many messages at once as there are calls.
            ("grpc.per_message_decompression", 0),
            # Two agents must not share a port by accident.
            ("grpc.so_reuseport", 0),
            *GRPC_PATIENCE,
            *GRPC_READS_AHEAD,
        ],
    )
    server.add_generic_rpc_handlers([_OtlpHandler(_Door(store, turns, max_request_bytes, stamp))])
    return server


class _OtlpHandler(grpc.GenericRpcHandler):
    def __init__(self, door: "_Door") -> None:
        self._handlers: dict[str, _Handler] = {
            # One message, as the method says, read when its turn comes.
            method: grpc.stream_unary_rpc_method_handler(door.make_export(signal))
            for method, signal in _SIGNAL_OF_METHOD.items()
        }

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "_Handler | None":
        return self._handlers.get(handler_call_details.method)


class _Door:
    """What the three methods share."""

    def __init__(
        self, store: Store, turns: Turns, max_request_bytes: int, stamp: "Stamp | None"
    ) -> None:
        self._store = store
        self._turns = turns
        self._max_request_bytes = max_request_bytes
        self._stamp = stamp
        # A small message may be a large one when decompressed: one at a time is in memory.
        self._decompressing = asyncio.Lock()

    def make_export(
        self, signal: Signal
    ) -> Callable[[AsyncIterator[bytes], _Context], Awaitable[bytes]]:
        """Return the method that takes a signal."""

        async def export(messages: AsyncIterator[bytes], context: _Context) -> bytes:
            try:
                await self._read(signal, messages, context)
            except (MalformedError, DamagedBodyError) as error:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
            except BodyTooLargeError as error:
                await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error))
            except (BusyError, NoTurnError) as error:
                await _abort_for_now(context, str(error), error.retry_after_s)
            except SpoolError as error:
                await _abort_for_now(context, str(error), _DISK_RETRY_S)
            return _ACCEPTED

        return export

    async def _read(
        self, signal: Signal, messages: AsyncIterator[bytes], context: _Context
    ) -> None:
        def end(error: NoTurnError) -> Awaitable[None]:
            return _abort_for_now(context, str(error), error.retry_after_s)

        # Senders here are of one machine: their connections tell them apart.
        async with self._turns.take(context.peer()) as turn:
            request = await turn.read(messages, end)
            if request is None:
                if turn.is_over:
                    return
                raise MalformedError("the call holds no message")
            await self._take(signal, request, context)

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


async def _abort_for_now(context: _Context, message: str, retry_after_s: float) -> None:
    # UNAVAILABLE is the status that OTLP clients retry.
    details = ((_STATUS_DETAILS, encode_retry(UNAVAILABLE, message, retry_after_s)),)
    await context.abort(grpc.StatusCode.UNAVAILABLE, message, details)
