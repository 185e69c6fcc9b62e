"""Spans of steps, stages and sync phases: plain records on the trainer's threads, OTLP later.

OpenTelemetry's own spans cost the trainer several times as much, for limits, links, events and
locks that no window uses.
"""

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

from longpole.otlp import Encoded, encode_attributes
from longpole.values import AttributeValue

_MAX_TEXT_LENGTH = 4096
_NO_TRACE, _NO_SPAN = bytes(16), bytes(8)


class WindowSpan(NamedTuple):
    """A window that ended. Ids are bytes, `parent_span_id` empty for roots; times UTC nanoseconds.

    `error` is what left the window, None when nothing did.
    """

    name: str
    trace_id: bytes
    span_id: bytes
    parent_span_id: bytes
    start_ns: int
    end_ns: int
    attributes: Mapping[str, AttributeValue]
    error: str | None


def make_trace_id() -> bytes:
    """Return 16 bytes, never all 0, from the system: two trainers with one seed share no id."""
    made = os.urandom(16)
    return made if made != _NO_TRACE else make_trace_id()


def make_span_id() -> bytes:
    """Return 8 bytes, never all 0, from the system."""
    made = os.urandom(8)
    return made if made != _NO_SPAN else make_span_id()


def encode_windows(
    spans: Sequence[WindowSpan], resource: Resource, scope: InstrumentationScope
) -> Encoded:
    """Encode ended windows as one OTLP trace request; what cannot be written is skipped."""
    encoded = [made for made in map(_try_encode, spans) if made is not None]
    request = ExportTraceServiceRequest(
        resource_spans=[
            ResourceSpans(resource=resource, scope_spans=[ScopeSpans(scope=scope, spans=encoded)])
        ]
    )
    return Encoded(request.SerializeToString(), len(encoded), len(spans) - len(encoded))


def _try_encode(span: WindowSpan) -> Span | None:
    try:
        return _encode_span(span)
    except (TypeError, ValueError, OverflowError):
        # A name that is no Unicode, a clock before 1970: one must not spoil the batch.
        return None


def _encode_span(span: WindowSpan) -> Span:
    attributes = {
        name: value[:_MAX_TEXT_LENGTH] if isinstance(value, str) else value
        for name, value in span.attributes.items()
    }
    encoded = Span(
        trace_id=span.trace_id,
        span_id=span.span_id,
        parent_span_id=span.parent_span_id,
        name=span.name[:_MAX_TEXT_LENGTH],
        kind=Span.SPAN_KIND_INTERNAL,
        start_time_unix_nano=span.start_ns,
        end_time_unix_nano=span.end_ns,
        attributes=encode_attributes(attributes),
    )
    if span.error is not None:
        failed = Status(code=Status.STATUS_CODE_ERROR, message=span.error)
        encoded.status.CopyFrom(failed)
    return encoded
