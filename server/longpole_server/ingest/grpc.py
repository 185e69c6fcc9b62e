"""OTLP over gRPC: the three export services on `grpc.aio`, gzip, size limits, status codes."""

import asyncio
import functools
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import Message

from longpole.conventions.attributes import HEADER_BATCH_ID
from longpole.patience import GRPC_PATIENCE, GRPC_READS_AHEAD
from longpole.turns import NoTurnError, Turns
from longpole_server.errors import BadRequestError, BusyError, ConfigError, ServerError
from longpole_server.ingest.admission import Admission, is_quick
from longpole_server.ingest.compression import decompress, is_compressed
from longpole_server.ingest.limits import OtlpLimits
from longpole_server.ingest.pipeline import Pipeline
from longpole_server.ingest.signals import Signal, parse_request
from longpole_server.ingest.status import UNAUTHENTICATED, Refusal, refuse
from longpole_server.model.principal import EVERYBODY, Principal

_Context = grpc.aio.ServicerContext[bytes, bytes]
_Export = Callable[[AsyncIterator[bytes], _Context], Awaitable[bytes]]

_SERVICES: tuple[tuple[str, Signal], ...] = (
    ("opentelemetry.proto.collector.trace.v1.TraceService", "traces"),
    ("opentelemetry.proto.collector.metrics.v1.MetricsService", "metrics"),
    ("opentelemetry.proto.collector.logs.v1.LogsService", "logs"),
)
# As over HTTP: so many messages at a time are decompressed, whatever else the loop's pool does.
_NUM_DECODERS = 2
# Metadata key under which clients look for a `google.rpc.Status`.
_STATUS_DETAILS = "grpc-status-details-bin"


class OtlpGrpcServer:
    """A running gRPC receiver. `port` is where it listens."""

    def __init__(self, server: grpc.aio.Server, port: int, decoders: ThreadPoolExecutor) -> None:
        self._server = server
        self._decoders = decoders
        self.port = port

    async def stop(self, grace_s: float) -> None:
        """Refuse new calls, and end running ones after `grace_s` seconds at the latest."""
        await self._server.stop(grace_s)
        self._decoders.shutdown(wait=False, cancel_futures=True)


async def start_otlp_grpc(
    pipeline: Pipeline,
    host: str,
    port: int,
    limits: OtlpLimits,
    admission: Admission | None = None,
    credentials: grpc.ServerCredentials | None = None,
) -> OtlpGrpcServer:
    """Start the receiver in the running event loop.

    Args:
        pipeline: Started, and closed after the receiver.
        host: Address to listen on.
        port: TCP port; 0 for a free one.
        limits: Bounds.
        admission: Decides about senders; None lets everyone send.
        credentials: Of this server, for TLS; None: none is spoken.

    Raises:
        ConfigError: The address cannot be listened on.
    """
    server = grpc.aio.server(
        options=[
            ("grpc.max_receive_message_length", limits.max_request_bytes),
            # gRPC would decompress without a bound.
            ("grpc.per_message_decompression", 0),
            # Without this two servers share a port, and each gets a part of the data.
            ("grpc.so_reuseport", 0),
            *GRPC_PATIENCE,
            *GRPC_READS_AHEAD,
        ],
    )
    decoders = ThreadPoolExecutor(_NUM_DECODERS, thread_name_prefix="longpole-grpc-decode")
    turns = Turns(
        limits.max_in_flight_bytes,
        limits.max_request_bytes,
        limits.max_concurrent_calls,
        limits.turn_wait_s,
    )
    door = _Door(pipeline, limits, admission, turns, decoders)
    for service, signal in _SERVICES:
        # One message, as the method says, read when its turn comes.
        export = door.create_export(signal)
        methods: dict[str, Any] = {"Export": grpc.stream_unary_rpc_method_handler(export)}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, methods),))
    address = f"[{host}]" if ":" in host else host
    try:
        _try_bind(host, port)
        if credentials is None:
            bound = server.add_insecure_port(f"{address}:{port}")
        else:
            bound = server.add_secure_port(f"{address}:{port}", credentials)
    except (OSError, RuntimeError) as error:
        raise ConfigError(
            f"Cannot listen for OTLP/gRPC on {address}:{port}.",
            hint="Another program may hold the port: choose another one, or 0 for a free one.",
        ) from error
    await server.start()
    return OtlpGrpcServer(server, bound, decoders)


def _try_bind(host: str, port: int) -> None:
    """Raise `OSError` when a port is taken: gRPC itself would print lines of its own as well."""
    family, kind, protocol, _, address = socket.getaddrinfo(
        host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    with socket.socket(family, kind, protocol) as probe:
        # As gRPC does: connections of a server before that linger take no port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(address)


@dataclass(frozen=True, slots=True)
class _Door:
    """What the three services share."""

    pipeline: Pipeline
    limits: OtlpLimits
    admission: Admission | None
    turns: Turns
    decoders: ThreadPoolExecutor

    def create_export(self, signal: Signal) -> _Export:
        """Return the method that takes a signal."""

        async def export(messages: AsyncIterator[bytes], context: _Context) -> bytes:
            refusal: Refusal | None = None
            try:
                refusal = await self._answer(signal, messages, context)
            except NoTurnError as error:
                refusal = _refuse_turn(error)
            except ServerError as error:
                refusal = refuse(error)
            # Not while the error is at hand: gRPC keeps it then, and what could not be read.
            if refusal is not None:
                await _abort(context, refusal)
            # An empty message is the answer to full success: `partial_success` stays unset.
            return b""

        return export

    async def _answer(
        self, signal: Signal, messages: AsyncIterator[bytes], context: _Context
    ) -> Refusal | None:
        metadata = _read_metadata(context)
        sender: Principal | None = EVERYBODY
        if self.admission is not None:
            sender = self.admission.find_sender(metadata.get("authorization"))
        if sender is None:
            # Of what strangers send nothing is read.
            return UNAUTHENTICATED

        def end(error: NoTurnError) -> Awaitable[None]:
            return _abort(context, _refuse_turn(error))

        peer = _name_peer(context)
        async with self.turns.take(peer) as turn:
            message = await turn.read(messages, end)
            if message is None:
                if turn.is_over:
                    return None
                raise BadRequestError("The call holds no message.")
            body = await self._decode(signal, message, sender)
            batch_id = metadata.get(HEADER_BATCH_ID)
            await self.pipeline.accept_async(signal, body, batch_id, peer)
        return None

    async def _decode(self, signal: Signal, message: bytes, sender: Principal) -> bytes:
        check = functools.partial(_check, self.admission, sender, signal)
        max_bytes = self.limits.max_request_bytes
        if is_quick(message, sender) and not is_compressed(message):
            return _decode(signal, message, max_bytes, check)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.decoders, _decode, signal, message, max_bytes, check)


def _read_metadata(context: _Context) -> dict[str, str]:
    pairs = context.invocation_metadata() or ()
    return {key: value for key, value in pairs if isinstance(value, str)}


def _name_peer(context: _Context) -> str:
    """Return the peer's address without its port: `ipv4:127.0.0.1:40000` is one of many."""
    return context.peer().rpartition(":")[0]


def _check(
    admission: Admission | None, sender: Principal, signal: Signal, request: Message
) -> None:
    if admission is not None:
        admission.check(sender, signal, request)


def _decode(
    signal: Signal, message: bytes, max_bytes: int, check: Callable[[Message], None]
) -> bytes:
    body = decompress(message, max_bytes) if is_compressed(message) else message
    check(parse_request(signal, body))
    return body


def _refuse_turn(error: NoTurnError) -> Refusal:
    return refuse(BusyError(str(error), error.retry_after_s))


async def _abort(context: _Context, refusal: Refusal) -> None:
    details = ((_STATUS_DETAILS, refusal.to_status().SerializeToString()),)
    await context.abort(refusal.code, refusal.message, details)
