"""Spans as sent, and which of them mean something in a training step."""

import enum
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from longpole.conventions import attributes as names
from longpole.conventions import stages
from longpole_server.ingest.normalize.attributes import (
    EARLIEST_NS,
    LEAST_NOW_NS,
    MAX_AHEAD_NS,
    Values,
    find_latest_ns,
    format_attributes,
    get_int,
    read_attributes,
    read_time,
)
from longpole_server.ingest.normalize.free_text import FreeText
from longpole_server.ingest.normalize.sender import MAX_NAME_CHARS, Sender
from longpole_server.model.records import RawSpan

# Texts of the Collector's ClickHouse exporter, by number.
KIND_TEXTS = ("Unspecified", "Internal", "Server", "Client", "Producer", "Consumer")
STATUS_TEXTS = ("Unset", "Ok", "Error")
# Step numbers, ours first: ROLL writes the second, RL-Insight the third.
ITERATION_KEYS = (names.ITERATION, "global_step", "global_steps")
# Names under which other systems send a whole step. NeMo-RL's is known by its last segment.
_LOOP_ALIASES = frozenset({"pipeline_step", "total_step_time"})
_NAMED_REQUEST = re.compile(r"(?P<role>(?:\S+ | )?Req) \S{1,64}")
_NAMED_THREAD = re.compile(r"(?P<label>.+?) \(host:\S+ \| pid:\d+\)")
_PARTKIND_TEXTS = {names.SPAN_GENERATE: "generate", names.SPAN_SCORE: "score"}
# No window of a training run is longer: a month.
_LONGEST_NS = 31 * 86_400 * 10**9


class SpanKind(enum.Enum):
    """What a span means. `CANDIDATE`: a stage if it turns out to be the child of a step."""

    LOOP = enum.auto()
    STAGE = enum.auto()
    SYNC_PHASE = enum.auto()
    CANDIDATE = enum.auto()
    TRAJECTORY = enum.auto()
    PART = enum.auto()


class SpanFact(NamedTuple):
    """A span with its attributes as values. `end_ns` is as sent, even before its start."""

    raw: RawSpan
    values: Values
    end_ns: int


def read_span(
    span: Span, sender: Sender, scope: InstrumentationScope, free_text: FreeText
) -> SpanFact:
    """Read a span."""
    values = read_attributes(span.attributes)
    start_ns = read_time(span.start_time_unix_nano)
    end_ns = read_time(span.end_time_unix_nano)
    raw = RawSpan(
        ts_ns=start_ns,
        duration_ns=max(0, end_ns - start_ns),
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_span_id=span.parent_span_id.hex(),
        trace_state=span.trace_state,
        name=name_without_ids(span.name),
        kind=_name_of(span.kind, KIND_TEXTS),
        service_name=sender.service,
        resource=sender.text,
        scope_name=scope.name[:MAX_NAME_CHARS],
        scope_version=scope.version[:MAX_NAME_CHARS],
        attributes=format_attributes(values, free_text),
        status_code=_name_of(span.status.code, STATUS_TEXTS),
        status_message=free_text.clean(span.status.message),
        events=read_events(span, free_text) if span.events else (),
        links=read_links(span, free_text) if span.links else (),
    )
    return SpanFact(raw, values, end_ns)


@lru_cache(maxsize=4096)
def name_without_ids(name: str) -> str:
    """Return a span's name without what is new in every span.

    SGLang writes request ids and processes into names: `unified Req 1a2b3c4d`,
    `scheduler [TP 0] (host:1a2b3c4d | pid:77)`. Both stand in its attributes as well.
    """
    request = _NAMED_REQUEST.fullmatch(name)
    if request is not None:
        return request["role"].strip()
    thread = _NAMED_THREAD.fullmatch(name)
    return thread["label"] if thread is not None else name


def have_wild_times(
    start_ns: NDArray[np.int64], end_ns: NDArray[np.int64], received_ns: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Tell which spans' times make no window: no part of a step could be made of them.

    They end before they begin, last longer than a month, or lie in no time of ours.
    """
    latest_ns = np.maximum(received_ns, LEAST_NOW_NS) + MAX_AHEAD_NS
    return (
        (start_ns < EARLIEST_NS)
        | (end_ns < start_ns)
        | (end_ns > latest_ns)
        | (end_ns - np.maximum(start_ns, EARLIEST_NS) > _LONGEST_NS)
    )


def has_wild_times(fact: SpanFact, received_ns: int) -> bool:
    """Tell of one span what `have_wild_times` tells of many."""
    start_ns, end_ns = fact.raw.ts_ns, fact.end_ns
    return not (
        EARLIEST_NS <= start_ns <= end_ns <= find_latest_ns(received_ns)
        and end_ns - start_ns <= _LONGEST_NS
    )


def classify_span(name: str, values: Values) -> SpanKind | None:
    """Return what a span means, None when it means nothing here."""
    kind = classify_name(name)
    if kind is SpanKind.LOOP:
        return kind if get_iteration(values) is not None else None
    if kind in {None, SpanKind.CANDIDATE} and names.STAGE in values:
        return SpanKind.STAGE
    return kind


@lru_cache(maxsize=4096)
def classify_name(name: str) -> SpanKind | None:
    """Return what a span means by its name alone."""
    if name == names.SPAN_LOOP or name.rsplit(".", 1)[-1] in _LOOP_ALIASES:
        return SpanKind.LOOP
    if name == names.SPAN_TRAJECTORY:
        return SpanKind.TRAJECTORY
    if name_part_kind(name) is not None:
        return SpanKind.PART
    if name.startswith(names.SPAN_SYNC_PREFIX):
        return SpanKind.SYNC_PHASE
    if name in stages.STAGE_OF_SPAN:
        return SpanKind.STAGE
    return SpanKind.CANDIDATE if stages.stage_of(name) is not None else None


@lru_cache(maxsize=4096)
def name_part_kind(name: str) -> str | None:
    """Return the kind of a trajectory's child span, None when it is none."""
    kind = _PARTKIND_TEXTS.get(name)
    if kind is None and name.startswith(names.SPAN_TOOL_PREFIX):
        return "tool"
    return kind


def get_iteration(values: Values) -> int | None:
    """Return the step a span or point names, None when it names none."""
    for key in ITERATION_KEYS:
        iteration = get_int(values, key)
        if iteration is not None:
            return iteration
    return None


def read_events(span: Span, free_text: FreeText) -> tuple[tuple[int, str, Mapping[str, str]], ...]:
    """Return the events of a span: time, name and attributes."""
    return tuple(
        (
            read_time(event.time_unix_nano),
            event.name,
            format_attributes(read_attributes(event.attributes), free_text),
        )
        for event in span.events
    )


def read_links(
    span: Span, free_text: FreeText
) -> tuple[tuple[str, str, str, Mapping[str, str]], ...]:
    """Return the links of a span: trace, span, state and attributes."""
    return tuple(
        (
            link.trace_id.hex(),
            link.span_id.hex(),
            link.trace_state,
            format_attributes(read_attributes(link.attributes), free_text),
        )
        for link in span.links
    )


def _name_of(number: int, texts: tuple[str, ...]) -> str:
    return texts[number] if 0 <= number < len(texts) else texts[0]
