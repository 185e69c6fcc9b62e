"""Spans as sent, as rows of the table that the OpenTelemetry Collector's exporter defines."""
# pyarrow carries no complete types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from longpole_server.model.records import RawSpan
from longpole_server.store.columns import (
    INTEGER,
    LABEL,
    LABELLED,
    TEXT,
    TEXT_MAP,
    TEXTS,
    TIME,
    make_array,
)

_TIMES = pa.list_(TIME)
_TEXT_MAPS = pa.list_(TEXT_MAP)
Event: TypeAlias = tuple[int, str, Mapping[str, str]]
Link: TypeAlias = tuple[str, str, str, Mapping[str, str]]


# What senders say of themselves stands in the row of each of their spans: together so much at most.
_MAX_REPEATED_BYTES = 128 << 20
# Kept longest, then the shortest others.
_FIRST_KEYS = ("rl.run.id", "service.name", "host.name")

TRACE_SCHEMA = pa.schema(
    {
        "Timestamp": TIME,
        "TraceId": TEXT,
        "SpanId": TEXT,
        "ParentSpanId": TEXT,
        "TraceState": TEXT,
        "SpanName": LABEL,
        "SpanKind": LABEL,
        "ServiceName": LABEL,
        "ResourceAttributes": LABELLED,
        "ScopeName": TEXT,
        "ScopeVersion": TEXT,
        "SpanAttributes": LABELLED,
        "Duration": INTEGER,
        "StatusCode": LABEL,
        "StatusMessage": TEXT,
        "Events.Timestamp": _TIMES,
        "Events.Name": TEXTS,
        "Events.Attributes": _TEXT_MAPS,
        "Links.TraceId": TEXTS,
        "Links.SpanId": TEXTS,
        "Links.TraceState": TEXTS,
        "Links.Attributes": _TEXT_MAPS,
    }
)

NESTED_COLUMNS = tuple(name for name in TRACE_SCHEMA.names if "." in name)


def make_trace_rows(spans: Sequence[RawSpan]) -> pa.Table:
    """Return spans as rows of `otel_traces`, in their order."""
    columns: dict[str, list[object]] = {
        "Timestamp": [span.ts_ns for span in spans],
        "TraceId": [span.trace_id for span in spans],
        "SpanId": [span.span_id for span in spans],
        "ParentSpanId": [span.parent_span_id for span in spans],
        "TraceState": [span.trace_state for span in spans],
        "SpanName": [span.name for span in spans],
        "SpanKind": [span.kind for span in spans],
        "ServiceName": [span.service_name for span in spans],
        "ResourceAttributes": list(_fit_shared([span.resource for span in spans])),
        "ScopeName": [span.scope_name for span in spans],
        "ScopeVersion": [span.scope_version for span in spans],
        "SpanAttributes": [span.attributes for span in spans],
        "Duration": [max(span.duration_ns, 0) for span in spans],
        "StatusCode": [span.status_code for span in spans],
        "StatusMessage": [span.status_message for span in spans],
    }
    arrays = {
        name: make_array(each, TRACE_SCHEMA.field(name).type) for name, each in columns.items()
    }
    nested = make_nested_columns([span.events for span in spans], [span.links for span in spans])
    return pa.table({**arrays, **nested}, schema=TRACE_SCHEMA)


def fit_resources(
    resources: Sequence[Mapping[str, str]], counts: Sequence[int]
) -> Sequence[Mapping[str, str]]:
    """Return resources that fit into the rows of their spans; long values go where they do not.

    A small request can name a large resource once and a million spans under it.

    Args:
        resources: Attributes as text.
        counts: Spans of each.
    """
    pairs = zip(resources, counts, strict=True)
    if sum(_size(resource) * count for resource, count in pairs) <= _MAX_REPEATED_BYTES:
        return resources
    allowed = _MAX_REPEATED_BYTES // max(1, sum(counts))
    return [_shorten(resource, allowed) for resource in resources]


def _fit_shared(resources: Sequence[Mapping[str, str]]) -> Sequence[Mapping[str, str]]:
    """`fit_resources` of spans that share the objects of their resources."""
    distinct = {id(resource): resource for resource in resources}
    counts = Counter(map(id, resources))
    fitted = fit_resources(list(distinct.values()), [counts[key] for key in distinct])
    by_id = dict(zip(distinct, fitted, strict=True))
    return [by_id[id(resource)] for resource in resources]


def _shorten(resource: Mapping[str, str], allowed: int) -> Mapping[str, str]:
    def rank(item: tuple[str, str]) -> tuple[int, int]:
        key, value = item
        place = _FIRST_KEYS.index(key) if key in _FIRST_KEYS else len(_FIRST_KEYS)
        return place, len(key) + len(value)

    kept: set[str] = set()
    for key, value in sorted(resource.items(), key=rank):
        allowed -= len(key) + len(value)
        if allowed < 0:
            break
        kept.add(key)
    return {key: value for key, value in resource.items() if key in kept}


def _size(resource: Mapping[str, str]) -> int:
    return sum(len(key) + len(value) for key, value in resource.items())


def make_nested_columns(
    events: Sequence[Sequence[Event]], links: Sequence[Sequence[Link]]
) -> "dict[str, pa.Array[Any]]":
    """Return the columns of the events and links of spans, in the order of the spans."""
    columns: dict[str, list[object]] = {
        "Events.Timestamp": [[ts_ns for ts_ns, _, _ in each] for each in events],
        "Events.Name": [[name for _, name, _ in each] for each in events],
        "Events.Attributes": [[list(texts.items()) for _, _, texts in each] for each in events],
        "Links.TraceId": [[trace_id for trace_id, _, _, _ in each] for each in links],
        "Links.SpanId": [[span_id for _, span_id, _, _ in each] for each in links],
        "Links.TraceState": [[state for _, _, state, _ in each] for each in links],
        "Links.Attributes": [[list(texts.items()) for _, _, _, texts in each] for each in links],
    }
    return {name: make_array(each, TRACE_SCHEMA.field(name).type) for name, each in columns.items()}
