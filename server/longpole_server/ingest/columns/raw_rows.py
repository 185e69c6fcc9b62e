"""Rows of the table of raw spans from spans as columns."""
# pyarrow carries no complete types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from longpole_server.ingest.columns.spans import SpanColumns
from longpole_server.ingest.columns.texts import Column, label, pick, take, to_column, to_list
from longpole_server.ingest.columns.wire import Ints
from longpole_server.ingest.normalize.free_text import FreeText
from longpole_server.ingest.normalize.sender import MAX_NAME_CHARS, Sender
from longpole_server.ingest.normalize.spans import (
    KIND_TEXTS,
    STATUS_TEXTS,
    read_events,
    read_links,
)
from longpole_server.store.columns import TIME, make_array
from longpole_server.store.traces import (
    NESTED_COLUMNS,
    TRACE_SCHEMA,
    fit_resources,
    make_nested_columns,
)


def make_raw_rows(spans: SpanColumns, senders: Sequence[Sender], free_text: FreeText) -> pa.Table:
    """Return the spans as rows of `otel_traces`. `senders` are those of its groups."""
    scope_names, scope_versions = (
        [scope[part][:MAX_NAME_CHARS] for scope in spans.scopes] for part in (0, 1)
    )
    columns: dict[str, Any] = {
        "Timestamp": to_column(spans.start_ns).view(TIME),
        "TraceId": spans.trace_ids,
        "SpanId": spans.span_ids,
        "ParentSpanId": spans.parent_ids,
        "TraceState": spans.trace_states,
        "SpanName": label(spans.names, spans.name_codes),
        "SpanKind": _name_numbers(spans.kinds, KIND_TEXTS),
        "ServiceName": label([sender.service for sender in senders], spans.group_numbers),
        "ResourceAttributes": _repeat_resources(spans, senders),
        "ScopeName": pick(scope_names, spans.scope_codes),
        "ScopeVersion": pick(scope_versions, spans.scope_codes),
        "SpanAttributes": spans.attributes.make_maps(free_text),
        "Duration": to_column(np.maximum(spans.end_ns - spans.start_ns, 0)),
        "StatusCode": _name_numbers(spans.status_codes, STATUS_TEXTS),
        "StatusMessage": _clean(spans.status_messages, free_text),
        **_make_nested(spans, free_text),
    }
    return pa.table(columns, schema=TRACE_SCHEMA)


def _name_numbers(numbers: Ints, texts: Sequence[str]) -> Column:
    known = (numbers >= 0) & (numbers < len(texts))
    return label(texts, np.where(known, numbers, 0))


def _repeat_resources(spans: SpanColumns, senders: Sequence[Sender]) -> Column:
    distinct = {id(sender): sender for sender in senders}
    codes = {key: code for code, key in enumerate(distinct)}
    of_group = np.array([codes[id(sender)] for sender in senders], np.int64)
    of_span = of_group[spans.group_numbers]
    counts = np.bincount(of_span, minlength=len(distinct)).tolist()
    fitted = fit_resources([sender.text for sender in distinct.values()], counts)
    texts = make_array(list(fitted), TRACE_SCHEMA.field("ResourceAttributes").type)
    return take(texts, of_span)


def _make_nested(spans: SpanColumns, free_text: FreeText) -> "dict[str, Any]":
    count = len(spans)
    if not spans.has_more.any():
        return {
            name: _make_empty_lists(TRACE_SCHEMA.field(name).type, count) for name in NESTED_COLUMNS
        }
    events: list[Any] = [()] * count
    links: list[Any] = [()] * count
    for number in np.flatnonzero(spans.has_more).tolist():
        span = spans.parse(number)
        events[number] = read_events(span, free_text)
        links[number] = read_links(span, free_text)
    return make_nested_columns(events, links)


def _clean(texts: Column, free_text: FreeText) -> Column:
    """Return messages of errors without secrets; most spans have none."""
    if not pc.sum(pc.binary_length(texts)).as_py():
        return texts
    return pa.array([free_text.clean(text) for text in to_list(texts)], pa.string())


def _make_empty_lists(kind: Column, count: int) -> Column:
    offsets = to_column(np.zeros(count + 1, np.int32))
    return pa.ListArray.from_arrays(offsets, pa.array([], kind.value_type))
