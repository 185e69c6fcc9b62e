"""Spans of many trace requests, as columns, and as rows of the table of raw spans."""
# pyarrow carries no complete types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from longpole_server.ingest.columns.attributes import (
    Attributes,
    name_texts,
    place_content,
    read_attributes,
)
from longpole_server.ingest.columns.texts import Column, make_hex, make_texts
from longpole_server.ingest.columns.wire import (
    FIXED64,
    LENGTH,
    VARINT,
    Fields,
    Flags,
    Ints,
    Messages,
    UnfitError,
    find_alike,
    join_bodies,
    make_tag,
    scan,
    walk,
    walk_alike,
)

_RESOURCE, _SCOPE_SPANS = make_tag(1, LENGTH), make_tag(2, LENGTH)
_SCOPE, _SPAN = make_tag(1, LENGTH), make_tag(2, LENGTH)
# All writers of spans begin with the id of the trace, of 16 bytes.
_TRACE_ID_FIRST = bytes((make_tag(1, LENGTH), 16))
_REQUEST = make_tag(1, LENGTH)
_INT64_MAX = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class SpanGroup:
    """The spans of one resource in one request: from `first` up to `last`, exclusive.

    Attributes:
        request: Number of the request.
        resource: Its resource, in protobuf.
        scope: First scope that has a name.
    """

    request: int
    resource: bytes
    scope: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class SpanColumns:
    """Spans in the order they were sent.

    Attributes:
        messages: Each span in protobuf.
        group_numbers: Number of its group.
        names: The different names; `name_codes` says which one a span has.
        trace_ids, span_ids, parent_ids: Hexadecimal.
        start_ns, end_ns: As sent, cut to what the store holds.
        has_more: Whether it has events or links.
    """

    messages: Messages
    groups: Sequence[SpanGroup]
    group_numbers: Ints
    scopes: Sequence[tuple[str, str]]
    scope_codes: Ints
    names: Sequence[str]
    name_codes: Ints
    trace_ids: Column
    span_ids: Column
    parent_ids: Column
    trace_states: Column
    start_ns: Ints
    end_ns: Ints
    kinds: Ints
    status_codes: Ints
    status_messages: Column
    has_more: Flags
    attributes: Attributes

    def __len__(self) -> int:
        """Return the number of spans."""
        return len(self.messages)

    def parse(self, number: int) -> Span:
        """Read one span with protobuf's own reader."""
        start, end = int(self.messages.starts[number]), int(self.messages.ends[number])
        return Span.FromString(self.messages.buffer[start:end].tobytes())


class _Envelope:
    """Collects where the spans lie, resource by resource."""

    def __init__(self) -> None:
        self.groups: list[SpanGroup] = []
        self.scopes: dict[bytes, int] = {}
        self.scope_names: list[tuple[str, str]] = []
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.scope_codes: list[int] = []
        self.spans_of_request: list[int] = []

    def add_request(self, request: int, body: bytes) -> None:
        first = len(self.starts)
        for tag, start, end in walk(body, 0, len(body)):
            if tag == _REQUEST:
                self._add_resource(request, body, start, end)
        self.spans_of_request.append(len(self.starts) - first)

    def _add_resource(self, request: int, body: bytes, start: int, end: int) -> None:
        resources: list[bytes] = []
        scope_name, first = "", len(self.starts)
        for tag, at, until in walk(body, start, end):
            if tag == _RESOURCE:
                resources.append(body[at:until])
            elif tag == _SCOPE_SPANS:
                scope_name = self._add_scope(body, at, until, scope_name)
        if len(resources) > 1:
            raise UnfitError("a resource in two parts")
        resource = resources[0] if resources else b""
        self.groups.append(SpanGroup(request, resource, scope_name, first, len(self.starts)))

    def _add_scope(self, body: bytes, start: int, end: int, known: str) -> str:
        scopes: list[bytes] = []
        first = len(self.starts)
        is_searched = False
        while start < end:
            # Once for a scope: what goes on after something else is walked, or damage would cost
            # a search each.
            if not is_searched and body[start] == _SPAN:
                is_searched = True
                begins, ends = find_alike(body, start, end, _SPAN, _TRACE_ID_FIRST)
                self.starts.extend(begins.tolist())
                self.ends.extend(ends.tolist())
                start = self.ends[-1] if len(ends) else start
            start = walk_alike(body, start, end, _SPAN, self.starts, self.ends)
            for tag, at, until in walk(body, start, end):
                start = until
                if tag == _SPAN:
                    self.starts.append(at)
                    self.ends.append(until)
                    break
                if tag == _SCOPE:
                    scopes.append(body[at:until])
        if len(scopes) > 1:
            raise UnfitError("a scope in two parts")
        code = self._name_scope(scopes[0] if scopes else b"")
        self.scope_codes.extend([code] * (len(self.starts) - first))
        return known or self.scope_names[code][0]

    def _name_scope(self, encoded: bytes) -> int:
        code = self.scopes.get(encoded)
        if code is None:
            scope = InstrumentationScope.FromString(encoded)
            code = self.scopes[encoded] = len(self.scope_names)
            self.scope_names.append((scope.name, scope.version))
        return code


def read_spans(bodies: Sequence[bytes]) -> SpanColumns:
    """Read the spans of trace requests.

    Raises:
        UnfitError: Something is not of the usual form.
    """
    requests = join_bodies(bodies)
    envelope = _Envelope()
    for number, body in enumerate(bodies):
        envelope.add_request(number, body)
    shift = np.repeat(requests.starts, envelope.spans_of_request)
    starts, ends = (np.array(places, np.int64) for places in (envelope.starts, envelope.ends))
    messages = Messages(requests.buffer, starts + shift, ends + shift)
    return _read_columns(messages, envelope)


def _read_columns(messages: Messages, envelope: _Envelope) -> SpanColumns:
    fields, count, buffer = scan(messages), len(messages), messages.buffer

    def content(number: int) -> Messages:
        return place_content(fields, number, count, buffer)

    def texts(number: int) -> Column:
        places = content(number)
        return make_texts(buffer, places.starts, places.ends)

    def hexes(number: int) -> Column:
        places = content(number)
        return make_hex(buffer, places.starts, places.ends)

    pairs = fields.select(9, LENGTH)
    statuses = content(15)
    status_fields = scan(statuses)
    status_text = place_content(status_fields, 2, count, buffer)
    names, name_codes = name_texts(content(5))
    more = np.zeros(count, np.bool_)
    for number in (11, 13):
        more[fields.select(number, LENGTH).owners] = True
    sizes = np.array([group.last - group.first for group in envelope.groups], np.int64)
    return SpanColumns(
        messages=messages,
        groups=envelope.groups,
        group_numbers=np.repeat(np.arange(len(sizes)), sizes),
        scopes=envelope.scope_names,
        scope_codes=np.array(envelope.scope_codes, np.int64),
        names=names,
        name_codes=name_codes,
        trace_ids=hexes(1),
        span_ids=hexes(2),
        parent_ids=hexes(4),
        trace_states=texts(3),
        start_ns=_place_times(fields, 7, count),
        end_ns=_place_times(fields, 8, count),
        kinds=_place_enum(fields, 6, count),
        status_codes=_place_enum(status_fields, 3, count),
        status_messages=make_texts(buffer, status_text.starts, status_text.ends),
        has_more=more,
        attributes=read_attributes(Messages(buffer, pairs.starts, pairs.ends), pairs.owners, count),
    )


def _place_times(fields: Fields, number: int, count: int) -> Ints:
    found = fields.select(number, FIXED64)
    times = np.zeros(count, np.uint64)
    times[found.owners] = found.values
    return np.minimum(times, np.uint64(_INT64_MAX)).astype(np.int64)


def _place_enum(fields: Fields, number: int, count: int) -> Ints:
    found = fields.select(number, VARINT)
    numbers = np.zeros(count, np.int64)
    # Of a longer number the lower 32 bits count, with their sign.
    numbers[found.owners] = found.values.astype(np.uint32).view(np.int32)
    return numbers
