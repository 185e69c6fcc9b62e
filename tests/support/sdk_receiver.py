"""An OTLP/HTTP receiver in this process that keeps what it is sent, decoded."""

import gzip
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, cast

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

DEADLINE_S = 60.0


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it came; header names in lower case."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class ReceivedSpan:
    """A decoded span; ids as hex, `parent` empty for roots."""

    name: str
    attributes: dict[str, Any]
    resource: dict[str, Any]
    trace_id: str
    span_id: str
    parent: str
    start_ns: int
    end_ns: int
    is_error: bool
    message: str


@dataclass(frozen=True, slots=True)
class ReceivedPoint:
    """A decoded gauge point."""

    name: str
    value: float
    time_ns: int
    attributes: dict[str, Any]
    resource: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ReceivedEvent:
    """A decoded log event."""

    name: str
    attributes: dict[str, Any]
    resource: dict[str, Any]
    time_ns: int
    span_id: str


@dataclass(slots=True)
class Behaviour:
    """How the receiver answers: `statuses` one by one, then 200; waits while `gate` is closed."""

    statuses: list[int] = field(default_factory=list[int])
    content: bytes = b""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    closes_connection: bool = False
    gate: threading.Event = field(default_factory=threading.Event)


class FakeReceiver:
    """Listens on loopback while its `with` block runs."""

    def __init__(self, port: int = 0) -> None:
        self.requests: list[Request] = []
        self.behaviour = Behaviour()
        self.behaviour.gate.set()
        self._condition = threading.Condition()
        self._server = _Server(self, port)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), daemon=True
        )

    def __enter__(self) -> "FakeReceiver":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.behaviour.gate.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def port(self) -> int:
        return self._server.server_port

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def answer(self, request: Request) -> int:
        """Keep the request; returns the status to answer with."""
        self.behaviour.gate.wait(DEADLINE_S)
        with self._condition:
            status = self.behaviour.statuses.pop(0) if self.behaviour.statuses else 200
            if status == 200:
                self.requests.append(request)
            self._condition.notify_all()
        return status

    def wait_for(self, condition: Callable[[], object]) -> None:
        """Wait until `condition` holds, checked whenever a request came."""
        with self._condition:
            assert self._condition.wait_for(condition, DEADLINE_S), "nothing of the kind arrived"

    def spans(self, name: str | None = None) -> list[ReceivedSpan]:
        """Return the spans received so far, of one name or all."""
        spans = [span for body in self._bodies("/v1/traces") for span in decode_spans(body)]
        return [span for span in spans if name is None or span.name == name]

    def points(self, name: str | None = None) -> list[ReceivedPoint]:
        """Return the gauge points received so far, of one name or all."""
        points = [point for body in self._bodies("/v1/metrics") for point in decode_points(body)]
        return [point for point in points if name is None or point.name == name]

    def events(self, name: str | None = None) -> list[ReceivedEvent]:
        """Return the log events received so far, of one name or all."""
        events = [event for body in self._bodies("/v1/logs") for event in decode_events(body)]
        return [event for event in events if name is None or event.name == name]

    def _bodies(self, path: str) -> list[bytes]:
        return [request.body for request in list(self.requests) if request.path == path]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # Children of a test may reset connections; that is no error of the test.
    block_on_close = False

    def __init__(self, receiver: FakeReceiver, port: int) -> None:
        self.receiver = receiver
        super().__init__(("127.0.0.1", port), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        receiver = cast("_Server", self.server).receiver
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        headers = {name.lower(): value for name, value in self.headers.items()}
        status = receiver.answer(Request(self.path, headers, body))
        behaviour = receiver.behaviour
        self.send_response(status)
        for name, value in behaviour.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(behaviour.content)))
        self.end_headers()
        self.wfile.write(behaviour.content)
        # Closing without saying so: what a client with a kept connection meets now and then.
        self.close_connection = self.close_connection or behaviour.closes_connection

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Quiet."""


def read_attributes(attributes: Iterable[KeyValue]) -> dict[str, Any]:
    """Return attributes as a plain dict."""
    return {attribute.key: _read_value(attribute.value) for attribute in attributes}


def _read_value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_read_value(item) for item in value.array_value.values]
    return getattr(value, str(kind))


def decode_spans(body: bytes) -> Iterable[ReceivedSpan]:
    for group in ExportTraceServiceRequest.FromString(body).resource_spans:
        resource = read_attributes(group.resource.attributes)
        for scope in group.scope_spans:
            assert scope.scope.name == "longpole"
            for span in scope.spans:
                yield ReceivedSpan(
                    name=span.name,
                    attributes=read_attributes(span.attributes),
                    resource=resource,
                    trace_id=span.trace_id.hex(),
                    span_id=span.span_id.hex(),
                    parent=span.parent_span_id.hex(),
                    start_ns=span.start_time_unix_nano,
                    end_ns=span.end_time_unix_nano,
                    is_error=span.status.code == 2,
                    message=span.status.message,
                )


def decode_points(body: bytes) -> Iterable[ReceivedPoint]:
    for group in ExportMetricsServiceRequest.FromString(body).resource_metrics:
        resource = read_attributes(group.resource.attributes)
        for scope in group.scope_metrics:
            for metric in scope.metrics:
                for point in metric.gauge.data_points:
                    yield ReceivedPoint(
                        name=metric.name,
                        value=getattr(point, str(point.WhichOneof("value"))),
                        time_ns=point.time_unix_nano,
                        attributes=read_attributes(point.attributes),
                        resource=resource,
                    )


def decode_events(body: bytes) -> Iterable[ReceivedEvent]:
    for group in ExportLogsServiceRequest.FromString(body).resource_logs:
        resource = read_attributes(group.resource.attributes)
        for scope in group.scope_logs:
            for record in scope.log_records:
                yield ReceivedEvent(
                    name=record.event_name,
                    attributes=read_attributes(record.attributes),
                    resource=resource,
                    time_ns=record.time_unix_nano,
                    span_id=record.span_id.hex(),
                )
