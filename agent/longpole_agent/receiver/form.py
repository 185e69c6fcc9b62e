"""Tells a request that is OTLP from one that is not, before it is acknowledged."""

import gzip
import json
from collections.abc import Mapping
from typing import Any

from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from longpole_agent.batch import JSON, Signal
from longpole_agent.errors import MalformedError

_REQUESTS: Mapping[Signal, type[Message]] = {
    "traces": ExportTraceServiceRequest,
    "metrics": ExportMetricsServiceRequest,
    "logs": ExportLogsServiceRequest,
}


def check_form(signal: Signal, body: bytes, content_type: str, content_encoding: str) -> None:
    """Decode a request and forget it: the server refuses it later, when its sender has gone.

    What JSON says beyond being an object is left to the server.

    Args:
        signal: What the body should be.
        body: As received; its size after decompression was checked.
        content_type: Header of the request.
        content_encoding: `gzip`, or empty.

    Raises:
        MalformedError: The body is none of that kind.
    """
    plain = gzip.decompress(body) if content_encoding else body
    try:
        if content_type.startswith(JSON):
            document: Any = json.loads(plain)
            if not isinstance(document, dict):
                raise MalformedError("the body is no JSON object")
        else:
            _REQUESTS[signal].FromString(plain)
    except (DecodeError, ValueError, RecursionError) as error:
        raise MalformedError(f"the body is no OTLP request of {signal}") from error
    finally:
        # The error knows this frame, and may live longer than a large body should.
        del plain
