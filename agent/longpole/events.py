"""Log events: what starts, still runs, and ends."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.logs.v1.logs_pb2 import (
    SEVERITY_NUMBER_INFO,
    LogRecord,
    ResourceLogs,
    ScopeLogs,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from longpole.conventions import attributes as names
from longpole.otlp import Encoded, encode_attributes
from longpole.values import AttributeValue

# Field 12 came with opentelemetry-proto 1.5; older ones carry the attribute only.
_HAS_EVENT_NAME = "event_name" in LogRecord.DESCRIPTOR.fields_by_name


class Event(NamedTuple):
    """One event. `trace_id` and `span_id` are empty for events that belong to no span."""

    time_ns: int
    name: str
    attributes: Mapping[str, AttributeValue | None]
    trace_id: bytes = b""
    span_id: bytes = b""


def encode_events(
    events: Sequence[Event], resource: Resource, scope: InstrumentationScope
) -> Encoded:
    """Encode events as one OTLP logs request."""
    records = [_encode_event(event) for event in events]
    request = ExportLogsServiceRequest(
        resource_logs=[
            ResourceLogs(
                resource=resource, scope_logs=[ScopeLogs(scope=scope, log_records=records)]
            )
        ]
    )
    return Encoded(request.SerializeToString(), len(records), 0)


def _encode_event(event: Event) -> LogRecord:
    attributes = {names.EVENT_NAME: event.name, **event.attributes}
    record = LogRecord(
        time_unix_nano=event.time_ns,
        observed_time_unix_nano=event.time_ns,
        severity_number=SEVERITY_NUMBER_INFO,
        severity_text="INFO",
        attributes=encode_attributes(attributes),
    )
    if event.span_id:
        record.trace_id, record.span_id = event.trace_id, event.span_id
    if _HAS_EVENT_NAME:
        record.event_name = event.name
    return record
