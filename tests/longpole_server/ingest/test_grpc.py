import asyncio
import gc
import gzip
import socket
import weakref
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast

import grpc
import grpc.aio
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from longpole_server.errors import BusyError, ConfigError
from longpole_server.ingest.admission import Admission
from longpole_server.ingest.grpc import start_otlp_grpc
from longpole_server.ingest.limits import OtlpLimits
from longpole_server.ingest.normalize import Normalizer
from longpole_server.ingest.pipeline import Pipeline
from longpole_server.model.principal import EVERYBODY
from support import otlp_builders as otlp
from support.otlp_pipeline import RecordingWriter, running_pipeline

TRACES = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
METRICS = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
LOGS = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
BODY = otlp.traces((otlp.process(), [otlp.loop(1, 0, 10)]))
LIMIT = 65_536
TOKEN = "Bearer secret"

Call = Callable[..., Awaitable[bytes]]


def run(
    pipeline: Pipeline,
    check: Callable[[Call], Awaitable[None]],
    *,
    token: bool = False,
) -> None:
    """Run a check with a function that calls the server."""

    async def main() -> None:
        server = await start_otlp_grpc(
            pipeline,
            "127.0.0.1",
            0,
            OtlpLimits(max_request_bytes=LIMIT),
            Admission(lambda header: EVERYBODY if header == TOKEN else None) if token else None,
        )
        options = [("grpc.max_send_message_length", -1)]
        async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}", options) as channel:

            async def call(
                body: bytes = BODY,
                method: str = TRACES,
                compression: grpc.Compression = grpc.Compression.NoCompression,
                **metadata: str,
            ) -> bytes:
                pairs = [(key.replace("_", "-"), value) for key, value in metadata.items()]
                stub: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(method)
                return await stub(body, metadata=pairs, compression=compression, timeout=60)

            try:
                await check(call)
            finally:
                await server.stop(1.0)

    asyncio.run(main())


async def refusal(call: Awaitable[bytes]) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value


@pytest.fixture
def writer() -> RecordingWriter:
    return RecordingWriter()


def test_the_three_services(tmp_path: Path, writer: RecordingWriter) -> None:
    metrics = otlp.metrics((otlp.process(), [otlp.gauge("loss", [(1, 0.5, {})])]))
    logs = otlp.logs((otlp.process(), [("rl.run.end", 1, {})]))

    async def check(call: Call) -> None:
        assert await call() == b""
        assert await call(metrics, METRICS) == b""
        assert await call(logs, LOGS) == b""
        assert await call(b"") == b""

    with running_pipeline(tmp_path, writer, Normalizer()) as pipeline:
        run(pipeline, check)
        assert pipeline.drain(60)

    records = writer.records
    assert len(records.raw_spans) == len(records.metric_points) == len(records.run_ends) == 1


@pytest.mark.parametrize("compression", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_compression(
    tmp_path: Path, writer: RecordingWriter, compression: grpc.Compression
) -> None:
    body = otlp.traces((otlp.process(), [otlp.loop(step, 0, 10) for step in range(100)]))

    async def check(call: Call) -> None:
        assert await call(body, compression=compression) == b""

    with running_pipeline(tmp_path, writer, Normalizer()) as pipeline:
        run(pipeline, check)
        assert pipeline.drain(60)

    assert len(writer.records.raw_spans) == 100


def test_a_batch_id_is_stored_once(tmp_path: Path, writer: RecordingWriter) -> None:
    async def check(call: Call) -> None:
        for _ in range(2):
            assert await call(longpole_batch_id="agent/boot/1") == b""

    with running_pipeline(tmp_path, writer, Normalizer()) as pipeline:
        run(pipeline, check)
        assert pipeline.drain(60)

    assert len(writer.records.raw_spans) == 1


@pytest.mark.parametrize("body", [b"not protobuf", BODY[:-1], gzip.compress(BODY)[:-4]])
def test_what_cannot_be_decoded_is_an_invalid_argument(
    tmp_path: Path, writer: RecordingWriter, body: bytes
) -> None:
    async def check(call: Call) -> None:
        error = await refusal(call(body))
        assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert read_status(error).code == 3

    with running_pipeline(tmp_path, writer, Normalizer()) as pipeline:
        run(pipeline, check)
        assert pipeline.stats.num_accepted == 0


@pytest.mark.parametrize(
    ("size", "compression"),
    [
        (LIMIT + 1, grpc.Compression.NoCompression),
        (LIMIT + 1, grpc.Compression.Gzip),
        (100 << 20, grpc.Compression.Gzip),
    ],
)
def test_over_the_limit_is_exhausted(
    tmp_path: Path, writer: RecordingWriter, size: int, compression: grpc.Compression
) -> None:
    async def check(call: Call) -> None:
        error = await refusal(call(b"\0" * size, compression=compression))
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert await call() == b""

    with running_pipeline(tmp_path, writer, Normalizer()) as pipeline:
        run(pipeline, check)
        assert pipeline.stats.num_accepted == 1


def test_a_full_server_is_unavailable_and_says_when_to_come_back(
    tmp_path: Path, writer: RecordingWriter
) -> None:
    writer.fail()

    async def check(call: Call) -> None:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            for _ in range(200):
                await call()
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        retry = RetryInfo()
        assert read_status(caught.value).details[0].Unpack(retry)
        assert retry.retry_delay.ToMilliseconds() > 0

    with running_pipeline(tmp_path, writer, Normalizer(), max_bytes=16 << 10) as pipeline:
        run(pipeline, check)


def test_without_the_token_it_is_unauthenticated(tmp_path: Path, writer: RecordingWriter) -> None:
    async def check(call: Call) -> None:
        for metadata in ({}, {"authorization": "Bearer wrong"}):
            error = await refusal(call(**metadata))
            assert error.code() is grpc.StatusCode.UNAUTHENTICATED
        assert await call(authorization=TOKEN) == b""

    with running_pipeline(tmp_path, writer, Normalizer()) as pipeline:
        run(pipeline, check, token=True)
        assert pipeline.stats.num_accepted == 1


def test_a_port_that_is_taken_is_an_error_of_the_operator(
    tmp_path: Path, writer: RecordingWriter
) -> None:
    async def main(pipeline: Pipeline) -> None:
        first = await start_otlp_grpc(pipeline, "127.0.0.1", 0, OtlpLimits())
        with pytest.raises(ConfigError, match=f"127.0.0.1:{first.port}"):
            await start_otlp_grpc(pipeline, "127.0.0.1", first.port, OtlpLimits())
        await first.stop(0)

    with running_pipeline(tmp_path, writer, Normalizer()) as pipeline:
        asyncio.run(main(pipeline))


def test_a_taken_port_prints_nothing_of_grpcs_own(
    tmp_path: Path, writer: RecordingWriter, capfd: pytest.CaptureFixture[str]
) -> None:
    async def main(pipeline: Pipeline, port: int) -> None:
        with pytest.raises(ConfigError, match="Cannot listen"):
            await start_otlp_grpc(pipeline, "127.0.0.1", port, OtlpLimits())

    with (
        socket.socket() as taken,
        running_pipeline(tmp_path, writer, Normalizer()) as pipeline,
    ):
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        asyncio.run(main(pipeline, int(taken.getsockname()[1])))
    assert capfd.readouterr().err == ""


def read_status(error: grpc.aio.AioRpcError) -> Status:
    details = dict(error.trailing_metadata())["grpc-status-details-bin"]
    assert isinstance(details, bytes)
    return Status.FromString(details)


class Large:
    """Stands for a body that could not be read."""


def test_what_is_refused_leaves_memory() -> None:
    kept: list[weakref.ref[Large]] = []

    class Refusing:
        async def accept_async(self, *_: object) -> None:
            body = Large()
            kept.append(weakref.ref(body))
            # The error knows this frame.
            raise BusyError("not now")

    async def check(call: Call) -> None:
        gc.disable()
        try:
            with pytest.raises(grpc.aio.AioRpcError):
                await call()
            for _ in range(6000):
                await asyncio.sleep(0.01)
                if kept[0]() is None:
                    return
            raise AssertionError("it is kept")
        finally:
            gc.enable()

    run(cast("Pipeline", Refusing()), check)
