"""The OpenTelemetry SDK for Python, over HTTP and gRPC, with and without gzip."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import grpc
import pytest
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import (
    OTLPLogExporter as GrpcLogExporter,
)
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import (
    OTLPMetricExporter as GrpcMetricExporter,
)
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (
    OTLPSpanExporter as GrpcSpanExporter,
)
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import (
    OTLPLogExporter as HttpLogExporter,
)
from opentelemetry.exporter.otlp.proto.http.metric_exporter import (
    OTLPMetricExporter as HttpMetricExporter,
)
from opentelemetry.exporter.otlp.proto.http.trace_exporter import (
    OTLPSpanExporter as HttpSpanExporter,
)
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import LogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricExporter, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    SimpleSpanProcessor,
    SpanExporter,
    SpanExportResult,
)

from support.otlp_server import RunningServer, running_server

SECONDS = 1_000_000_000
T0 = 1_760_000_000 * SECONDS
RESOURCE = Resource(
    {
        "service.name": "trainer",
        "host.name": "node0",
        "process.pid": 17,
        "rl.run.id": "python",
        "rl.role": "controller",
        "rl.gpu.ids": ["GPU-1", "GPU-2"],
    }
)
TRANSPORTS = ["http", "http-gzip", "grpc", "grpc-gzip"]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    with running_server(tmp_path) as running:
        yield running


def create_exporters(
    server: RunningServer, transport: str
) -> tuple[SpanExporter, Callable[[], MetricExporter], Callable[[], LogRecordExporter]]:
    """Exporters of spans, metrics and logs; the last two are made when they are needed."""
    if transport.startswith("grpc"):
        coding = grpc.Compression.Gzip if transport.endswith("gzip") else None
        target = server.grpc_target
        return (
            GrpcSpanExporter(target, insecure=True, compression=coding),
            lambda: GrpcMetricExporter(target, insecure=True, compression=coding),
            lambda: GrpcLogExporter(target, insecure=True, compression=coding),
        )
    coding = Compression.Gzip if transport.endswith("gzip") else Compression.NoCompression
    url = server.http_url
    return (
        HttpSpanExporter(f"{url}/v1/traces", compression=coding),
        lambda: HttpMetricExporter(f"{url}/v1/metrics", compression=coding),
        lambda: HttpLogExporter(f"{url}/v1/logs", compression=coding),
    )


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_spans(server: RunningServer, transport: str) -> None:
    exporter, _, _ = create_exporters(server, transport)
    provider = TracerProvider(resource=RESOURCE)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    tracer = provider.get_tracer("contract", "1.2.3")
    with tracer.start_as_current_span(
        "rl.loop",
        attributes={"rl.loop.iteration": 7, "rl.tokens.total": 4096},
        start_time=T0,
        end_on_exit=False,
    ) as loop:
        stage = tracer.start_span("rl.sample", start_time=T0 + SECONDS)
        stage.end(T0 + 3 * SECONDS)
        loop.end(T0 + 9 * SECONDS)
    provider.shutdown()
    records = server.read_records()

    spans = {span.stage: span for span in records.stage_spans}
    assert set(spans) == {"gen", "step"}
    # The stage names no step: it belongs to the loop it is a child of.
    assert {(span.run_id, span.attempt, span.step) for span in spans.values()} == {("python", 1, 7)}
    assert spans["gen"].parent_span_id == spans["step"].span_id
    assert spans["step"].span_id == f"{loop.get_span_context().span_id:016x}"
    assert (spans["gen"].start_ns, spans["gen"].end_ns) == (T0 + SECONDS, T0 + 3 * SECONDS)
    (process,) = records.processes
    assert (process.gpu_ids, process.scope) == (("GPU-1", "GPU-2"), "contract")


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_metrics(server: RunningServer, transport: str) -> None:
    _, create_metric_exporter, _ = create_exporters(server, transport)
    reader = PeriodicExportingMetricReader(create_metric_exporter(), 3_600_000)
    provider = MeterProvider([reader], resource=RESOURCE)
    meter = provider.get_meter("contract")
    meter.create_gauge("loss").set(0.125, {"rl.loop.iteration": 7})
    meter.create_counter("samples").add(256, {"rl.loop.iteration": 7})
    meter.create_histogram("latency").record(1.5)
    provider.shutdown()

    points = {
        point.name: (point.step, point.value) for point in server.read_records().metric_points
    }
    assert points == {"loss": (7, 0.125), "samples": (7, 256.0)}


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_events(server: RunningServer, transport: str) -> None:
    _, _, create_log_exporter = create_exporters(server, transport)
    provider = LoggerProvider(resource=RESOURCE)
    provider.add_log_record_processor(SimpleLogRecordProcessor(create_log_exporter()))
    provider.get_logger("contract").emit(
        LogRecord(
            timestamp=T0,
            observed_timestamp=T0,
            severity_number=SeverityNumber.INFO,
            event_name="rl.stage.start",
            attributes={"rl.loop.iteration": 8, "rl.stage": "gen"},
        )
    )
    provider.shutdown()

    (start,) = server.read_records().stage_starts
    assert (start.run_id, start.step, start.stage, start.start_ns) == ("python", 8, "gen", T0)


class Remembering(SpanExporter):
    """Passes spans on and remembers how that went."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self.results: list[SpanExportResult] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.results.append(self._exporter.export(spans))
        return self.results[-1]

    def shutdown(self) -> None:
        self._exporter.shutdown()


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_the_token(tmp_path: Path, transport: str) -> None:
    with running_server(tmp_path, authorize=lambda header: header == "Bearer s") as server:
        for headers, expected in (
            ({}, SpanExportResult.FAILURE),
            ({"authorization": "Bearer s"}, SpanExportResult.SUCCESS),
        ):
            exporter = (
                GrpcSpanExporter(server.grpc_target, insecure=True, headers=headers)
                if transport.startswith("grpc")
                else HttpSpanExporter(f"{server.http_url}/v1/traces", headers=headers)
            )
            remembering = Remembering(exporter)
            provider = TracerProvider(resource=RESOURCE)
            provider.add_span_processor(SimpleSpanProcessor(remembering))
            provider.get_tracer("contract").start_span("a").end()
            provider.shutdown()
            assert remembering.results == [expected]
        assert len(server.read_records().raw_spans) == 1
