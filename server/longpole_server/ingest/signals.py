"""The three OTLP signals and their request messages."""

from collections.abc import Mapping
from typing import Literal

from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from longpole_server.errors import BadRequestError

Signal = Literal["traces", "metrics", "logs"]
SIGNALS: tuple[Signal, ...] = ("traces", "metrics", "logs")

REQUEST_TYPES: Mapping[Signal, type[Message]] = {
    "traces": ExportTraceServiceRequest,
    "metrics": ExportMetricsServiceRequest,
    "logs": ExportLogsServiceRequest,
}


def parse_request(signal: Signal, body: bytes) -> Message:
    """Parse the protobuf body of an export request.

    Raises:
        BadRequestError: The bytes are not such a message.
    """
    try:
        return REQUEST_TYPES[signal].FromString(body)
    except DecodeError as error:
        raise BadRequestError(
            f"The body is not an OTLP {signal} request in protobuf.",
            hint="Check that the Content-Type names the encoding in use and nothing cut it short.",
        ) from error
