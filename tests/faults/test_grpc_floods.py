"""Many large messages over gRPC at once wait at their senders, not in memory."""

import asyncio
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from typing import cast

import grpc
import grpc.aio
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from longpole_agent.batch import Signal
from longpole_agent.receiver.listen import GrpcListener
from longpole_agent.receiver.otlp_grpc import make_grpc_server
from longpole_server.ingest.grpc import start_otlp_grpc
from longpole_server.ingest.limits import OtlpLimits
from longpole_server.ingest.pipeline import Pipeline
from support import otlp_builders as otlp
from support.fault_ledger import make_request
from support.fault_relay import Relay

pytestmark = pytest.mark.integration

METHOD = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
MESSAGE_BYTES = 4 << 20
NUM_CALLS = 24
# What a call may send before its message is read.
AHEAD_BYTES = 64 << 10
WAIT_S = 0.5
PROGRAMS = ("agent", "server")
LARGE = otlp.traces((otlp.process(note="x" * (MESSAGE_BYTES - 4096)), [otlp.loop(1, 0, 10)]))


class Stuck:
    """Stands where requests are made durable; nothing gets on until it is let."""

    def __init__(self) -> None:
        self.may_go_on = asyncio.Event()
        self.num_stored = 0

    async def store(self, signal: Signal, body: bytes, kind: str, encoding: str) -> None:
        await self.may_go_on.wait()
        self.num_stored += 1

    async def accept_async(self, *_: object) -> None:
        await self.store("traces", b"", "", "")


@asynccontextmanager
async def serving(program: str, stuck: Stuck, turn_wait_s: float = WAIT_S) -> AsyncGenerator[int]:
    """The gRPC door of a program that has room for two of the largest messages."""
    if program == "agent":
        server = make_grpc_server(stuck.store, MESSAGE_BYTES, turn_wait_s=turn_wait_s)
        listener = GrpcListener(server, "127.0.0.1", 0)
        await listener.start()
        yield listener.port
        await listener.close()
        return
    limits = OtlpLimits(MESSAGE_BYTES, 2 * MESSAGE_BYTES, turn_wait_s=turn_wait_s)
    door = await start_otlp_grpc(cast("Pipeline", stuck), "127.0.0.1", 0, limits)
    yield door.port
    await door.stop(2.0)


async def send(port: int, body: bytes) -> grpc.aio.AioRpcError | None:
    """Send over a connection of its own; return the refusal."""
    options = [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options) as channel:
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(METHOD)
        try:
            await call(body, timeout=120)
        except grpc.aio.AioRpcError as error:
            return error
    return None


def says_when_to_come_back(error: grpc.aio.AioRpcError) -> bool:
    details = dict(error.trailing_metadata() or ())["grpc-status-details-bin"]
    assert isinstance(details, bytes)
    retry = RetryInfo()
    return Status.FromString(details).details[0].Unpack(retry) and retry.retry_delay.seconds > 0


@pytest.mark.parametrize("program", PROGRAMS)
async def test_messages_without_room_stay_with_their_senders(program: str) -> None:
    stuck = Stuck()
    with closing(Relay()) as relay:
        async with serving(program, stuck) as port:
            relay.target = port
            calls = [asyncio.create_task(send(relay.port, LARGE)) for _ in range(NUM_CALLS)]
            # All but those that are being stored have been refused.
            while sum(call.done() for call in calls) < NUM_CALLS - 2:
                await asyncio.sleep(0.05)
            refused = [call.result() for call in calls if call.done()]
            carried_bytes = relay.num_bytes_there
            stuck.may_go_on.set()
            results = await asyncio.gather(*calls)
            # Whoever comes now is served.
            assert await send(relay.port, make_request("traces", 1)) is None
    bound_bytes = 2 * MESSAGE_BYTES + NUM_CALLS * 2 * AHEAD_BYTES
    assert carried_bytes <= bound_bytes < NUM_CALLS * len(LARGE) / 4
    for error in refused:
        assert error is not None
        assert error.code() is grpc.StatusCode.UNAVAILABLE
        assert says_when_to_come_back(error)
    assert results.count(None) + 1 == stuck.num_stored


@pytest.mark.parametrize("program", PROGRAMS)
async def test_clients_that_stop_in_the_middle_keep_nobody_out(program: str) -> None:
    stuck = Stuck()
    stuck.may_go_on.set()
    moves = threading.Event()
    with closing(Relay()) as relay:
        # The wire fills, and then carries nothing.
        relay.cut = lambda direction: (
            direction == "there" and relay.num_bytes_there > AHEAD_BYTES and not moves.wait(60)
        )
        async with serving(program, stuck) as port:
            relay.target = port
            stuck_calls = [asyncio.create_task(send(relay.port, LARGE)) for _ in range(4)]
            while relay.num_bytes_there <= AHEAD_BYTES:
                await asyncio.sleep(0.01)
            # As clients do, it comes back when told to.
            while await send(port, make_request("traces", 1)) is not None:
                await asyncio.sleep(0.1)
            assert stuck.num_stored == 1
            moves.set()
            for error in await asyncio.gather(*stuck_calls):
                assert error is None or error.code() is grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize("program", PROGRAMS)
async def test_small_calls_over_one_connection_are_all_stored(program: str) -> None:
    stuck = Stuck()
    stuck.may_go_on.set()
    async with serving(program, stuck, 60.0) as port:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(METHOD)
            body = make_request("traces", 1)
            await asyncio.gather(*(call(body, timeout=120) for _ in range(300)))
        assert stuck.num_stored == 300
