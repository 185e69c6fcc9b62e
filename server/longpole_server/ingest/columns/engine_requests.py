"""Requests to inference engines: the same as `normalize.engine_spans` reads of each span."""
# pyarrow carries no complete types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Sequence

import numpy as np
import pyarrow.compute as pc

from longpole.conventions import attributes as names
from longpole_server.ingest.columns.spans import SpanColumns
from longpole_server.ingest.columns.texts import Column, take
from longpole_server.ingest.columns.wire import Ints
from longpole_server.ingest.normalize.engine_spans import (
    PREFILL_S,
    QUEUE_S,
    REQUEST,
    TOKENS,
    TTFT_S,
    EngineRequest,
    find_prefill,
    list_request_keys,
)


def find_requests(spans: SpanColumns) -> Ints:
    """Return the numbers of the spans that are requests."""
    if REQUEST not in spans.names:
        return np.zeros(0, np.int64)
    return np.flatnonzero(spans.name_codes == spans.names.index(REQUEST))


def read_requests(spans: SpanColumns, rows: Ints) -> Sequence[EngineRequest]:
    """Read the requests of some spans."""
    attributes = spans.attributes

    def read(column: Column) -> list[object]:
        return take(column, rows).to_pylist()

    def count(kind: str) -> list[object]:
        return read(pc.coalesce(*(attributes.read_ints(key) for key in TOKENS[kind])))

    return [
        EngineRequest(
            start_ns,
            end_ns,
            queue_s,
            find_prefill(prefill_s, first_token_s, queue_s),
            input_tokens,
            output_tokens,
            span_id,
            tuple(list_request_keys(trace_id if parent_id else None, request_id)),
        )
        for (
            start_ns,
            end_ns,
            queue_s,
            prefill_s,
            first_token_s,
            input_tokens,
            output_tokens,
            span_id,
            trace_id,
            parent_id,
            request_id,
        ) in zip(
            spans.start_ns[rows].tolist(),
            spans.end_ns[rows].tolist(),
            read(attributes.read_floats(QUEUE_S)),
            read(attributes.read_floats(PREFILL_S)),
            read(attributes.read_floats(TTFT_S)),
            count("input"),
            count("output"),
            read(spans.span_ids),
            read(spans.trace_ids),
            read(spans.parent_ids),
            read(attributes.read_texts(names.REQUEST_ID)),
            strict=True,
        )
    ]
