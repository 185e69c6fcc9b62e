"""Spans as sent, as rows of the table that the OpenTelemetry Collector's exporter defines."""
# pyarrow carries no complete types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Sequence

import pyarrow as pa

from longpole_server.model.records import RawSpan
from longpole_server.store.columns import INTEGER, TEXT, TEXT_MAP, TEXTS, TIME, make_array

_TIMES = pa.list_(TIME)
_TEXT_MAPS = pa.list_(TEXT_MAP)


def make_trace_rows(spans: Sequence[RawSpan]) -> pa.Table:
    """Return spans as rows of `otel_traces`, in their order."""
    events = [span.events for span in spans]
    links = [span.links for span in spans]
    columns: dict[str, tuple[list[object], pa.DataType]] = {
        "Timestamp": ([span.ts_ns for span in spans], TIME),
        "TraceId": ([span.trace_id for span in spans], TEXT),
        "SpanId": ([span.span_id for span in spans], TEXT),
        "ParentSpanId": ([span.parent_span_id for span in spans], TEXT),
        "TraceState": ([span.trace_state for span in spans], TEXT),
        "SpanName": ([span.name for span in spans], TEXT),
        "SpanKind": ([span.kind for span in spans], TEXT),
        "ServiceName": ([span.service_name for span in spans], TEXT),
        "ResourceAttributes": ([span.resource for span in spans], TEXT_MAP),
        "ScopeName": ([span.scope_name for span in spans], TEXT),
        "ScopeVersion": ([span.scope_version for span in spans], TEXT),
        "SpanAttributes": ([span.attributes for span in spans], TEXT_MAP),
        "Duration": ([max(span.duration_ns, 0) for span in spans], INTEGER),
        "StatusCode": ([span.status_code for span in spans], TEXT),
        "StatusMessage": ([span.status_message for span in spans], TEXT),
        "Events.Timestamp": ([[ts_ns for ts_ns, _, _ in each] for each in events], _TIMES),
        "Events.Name": ([[name for _, name, _ in each] for each in events], TEXTS),
        "Events.Attributes": (
            [[list(attributes.items()) for _, _, attributes in each] for each in events],
            _TEXT_MAPS,
        ),
        "Links.TraceId": ([[trace_id for trace_id, _, _, _ in each] for each in links], TEXTS),
        "Links.SpanId": ([[span_id for _, span_id, _, _ in each] for each in links], TEXTS),
        "Links.TraceState": ([[state for _, _, state, _ in each] for each in links], TEXTS),
        "Links.Attributes": (
            [[list(attributes.items()) for _, _, _, attributes in each] for each in links],
            _TEXT_MAPS,
        ),
    }
    return pa.table({name: make_array(values, kind) for name, (values, kind) in columns.items()})
