"""A server that accepts OTLP/HTTP and remembers it, in place of the real one."""

import gzip
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from google.protobuf import json_format
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue

Values = dict[str, str | int | float | tuple[str, ...]]


@dataclass(frozen=True)
class Span:
    """A span with the attributes of its resource."""

    name: str
    start_ns: int
    end_ns: int
    attributes: Values
    resource: Values


@dataclass(frozen=True)
class Event:
    """A log event with the attributes of its resource."""

    name: str
    attributes: Values
    resource: Values


@dataclass(frozen=True)
class Point:
    """A metric point with the attributes of its resource."""

    name: str
    attributes: Values
    resource: Values


@dataclass
class Received:
    """Everything received so far."""

    spans: list[Span] = field(default_factory=list[Span])
    events: list[Event] = field(default_factory=list[Event])
    points: list[Point] = field(default_factory=list[Point])

    def named(self, name: str) -> list[Span]:
        """Return the spans of that name."""
        return [span for span in self.spans if span.name == name]

    def events_named(self, name: str) -> list[Event]:
        """Return the events of that name."""
        return [event for event in self.events if event.name == name]


@dataclass(frozen=True)
class FakeServer:
    """Where it listens and what it got."""

    address: str
    received: Received


@contextmanager
def run_fake_server() -> Generator[FakeServer]:
    """Run a server on a free port of this machine."""
    received = Received()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _make_handler(received))
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield FakeServer(f"http://127.0.0.1:{server.server_port}", received)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _make_handler(received: Received) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(b"{}")

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            if self.headers.get("content-type") == "application/json":
                # As engines send it.
                is_spans = self.path == "/v1/traces"
                kind = ExportTraceServiceRequest if is_spans else ExportMetricsServiceRequest
                body = json_format.Parse(body, kind()).SerializeToString()
            _DECODERS[self.path](received, body)
            self._answer(b"")

        def _answer(self, body: bytes) -> None:
            self.send_response(200)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as inherited
            pass

    return Handler


def _read(attributes: Sequence[KeyValue]) -> Values:
    values: Values = {}
    for item in attributes:
        kind = item.value.WhichOneof("value")
        if kind == "array_value":
            values[item.key] = tuple(value.string_value for value in item.value.array_value.values)
        elif kind is not None:
            values[item.key] = getattr(item.value, kind)
    return values


def _take_traces(received: Received, body: bytes) -> None:
    for part in ExportTraceServiceRequest.FromString(body).resource_spans:
        resource = _read(part.resource.attributes)
        for scope in part.scope_spans:
            received.spans.extend(
                Span(
                    span.name,
                    span.start_time_unix_nano,
                    span.end_time_unix_nano,
                    _read(span.attributes),
                    resource,
                )
                for span in scope.spans
            )


def _take_logs(received: Received, body: bytes) -> None:
    for part in ExportLogsServiceRequest.FromString(body).resource_logs:
        resource = _read(part.resource.attributes)
        for scope in part.scope_logs:
            received.events.extend(
                Event(record.event_name, _read(record.attributes), resource)
                for record in scope.log_records
            )


def _take_metrics(received: Received, body: bytes) -> None:
    for part in ExportMetricsServiceRequest.FromString(body).resource_metrics:
        resource = _read(part.resource.attributes)
        for scope in part.scope_metrics:
            for metric in scope.metrics:
                points = [*metric.gauge.data_points, *metric.sum.data_points]
                received.points.extend(
                    Point(metric.name, _read(point.attributes), resource) for point in points
                )


_DECODERS = {
    "/v1/traces": _take_traces,
    "/v1/logs": _take_logs,
    "/v1/metrics": _take_metrics,
}
