"""Trace requests by the batch: columns for all spans, objects for the windows of a step."""
# pyarrow carries no complete types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from google.protobuf.message import DecodeError
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope

from longpole_server.ingest.columns.engine_requests import find_requests, read_requests
from longpole_server.ingest.columns.meaning import (
    KIND_OF_CODE,
    NO_KIND,
    TRAJECTORY,
    Meaning,
    find_meaning,
    refuse_wild,
)
from longpole_server.ingest.columns.raw_rows import make_raw_rows
from longpole_server.ingest.columns.samples import Samples, read_samples
from longpole_server.ingest.columns.spans import SpanColumns, SpanGroup, read_spans
from longpole_server.ingest.columns.wire import Ints, UnfitError
from longpole_server.ingest.normalize.announcements import Announcer
from longpole_server.ingest.normalize.attempt_book import AttemptBook
from longpole_server.ingest.normalize.attempts import Attempt, LoopSeen, Moments
from longpole_server.ingest.normalize.engine_spans import EngineRequest
from longpole_server.ingest.normalize.free_text import FreeText
from longpole_server.ingest.normalize.links import TraceLinks
from longpole_server.ingest.normalize.sender import Sender, SenderCache
from longpole_server.ingest.normalize.skips import SkipGuard
from longpole_server.ingest.normalize.spans import SpanFact, SpanKind, read_span
from longpole_server.ingest.normalize.stages import StagePlacer
from longpole_server.ingest.normalize.traces import get_step
from longpole_server.model.records import Records, RowBlock

_NO_SCOPE = InstrumentationScope()
# The text of windows stands in the raw rows; here it would be looked at again.
_NO_TEXT = FreeText(rules=())


@dataclass(frozen=True, slots=True)
class _Read:
    """What was read of a batch before anything was decided.

    Attributes:
        asked: Numbers of the spans that are requests to engines, ascending.
    """

    spans: SpanColumns
    senders: Sequence[Sender]
    meaning: Meaning
    windows: dict[int, tuple[SpanKind, SpanFact]]
    raw: RowBlock
    samples: Samples
    asked: Ints
    requests: Sequence[EngineRequest]
    num_refused: int


class LinkedError(UnfitError):
    """Spans that belong to what others send: each is looked at by itself."""


class TraceColumnReader:
    """Adds the records of many trace requests at once.

    Args:
        senders: Shared with the reader of single requests, like all that follow.
        book: Which attempt a batch belongs to.
        announcer: Says what is new about runs and processes.
        placer: Finds the step of a stage.
        guard: Counts what cannot be read.
        links: Runs of jobs, ends of steps, and requests of engines.
        free_text: Decides about text of prompts and responses.

    Attributes:
        num_refused: Spans whose times make no window, as the reader of single requests has it.
    """

    def __init__(
        self,
        senders: SenderCache,
        book: AttemptBook,
        announcer: Announcer,
        placer: StagePlacer,
        guard: SkipGuard,
        links: TraceLinks,
        free_text: FreeText,
    ) -> None:
        self._senders = senders
        self._book = book
        self._announcer = announcer
        self._placer = placer
        self._guard = guard
        self._links = links
        self._free_text = free_text
        self.num_refused = 0

    def add(self, requests: Sequence[tuple[bytes, int]], into: Records) -> None:
        """Add the records of requests, each with the time it was received.

        Raises:
            LinkedError: Some belong to what others send. Nothing was added or decided.
            UnfitError: They are not of the usual form. Nothing was added or decided.
        """
        try:
            read = self._read(requests)
        except (DecodeError, IndexError, UnicodeDecodeError) as error:
            raise UnfitError(str(error)) from error
        self.num_refused += read.num_refused
        into.blocks.append(read.raw)
        for request in read.requests:
            self._links.engines.add(request, into)
        attempts: list[Attempt | None] = []
        for number, group in enumerate(read.spans.groups):
            received_ns = requests[group.request][1]
            attempts.append(self._place(read, number, group, received_ns, into))
        into.blocks.extend(read.samples.make_blocks(attempts))

    def _read(self, requests: Sequence[tuple[bytes, int]]) -> _Read:
        spans = read_spans([body for body, _ in requests])
        senders = [self._senders.get_encoded(group.resource) for group in spans.groups]
        meaning = find_meaning(spans)
        has_samples = bool((meaning.kinds == TRAJECTORY).any())
        asked = find_requests(spans)
        meaning.kinds[asked] = NO_KIND
        speaking = [
            senders[number]
            for number in np.unique(spans.group_numbers[meaning.kinds != NO_KIND]).tolist()
        ]
        if self._links.concerns(
            speaking, spans.names, spans.attributes.keys, has_samples=has_samples
        ):
            raise LinkedError("spans that belong to what others send")
        came_ns = np.array([requests[group.request][1] for group in spans.groups], np.int64)
        num_refused = refuse_wild(spans, meaning, came_ns[spans.group_numbers])
        is_used = np.array([not sender.is_agent for sender in senders], np.bool_)
        windows = {
            row: (self._name_kind(meaning, row), self._read_fact(spans, senders, row))
            for row in meaning.find_windows().tolist()
        }
        raw = make_raw_rows(spans, senders, self._free_text)
        samples = read_samples(spans, meaning, senders, is_used)
        return _Read(
            spans,
            senders,
            meaning,
            windows,
            RowBlock("raw_spans", raw, raw.num_rows),
            samples,
            asked,
            read_requests(spans, asked) if len(asked) else (),
            num_refused,
        )

    @staticmethod
    def _name_kind(meaning: Meaning, row: int) -> SpanKind:
        kind = KIND_OF_CODE[int(meaning.kinds[row])]
        assert kind is not None  # noqa: S101 - only spans of a kind are asked for
        return kind

    def _read_fact(self, spans: SpanColumns, senders: Sequence[Sender], row: int) -> SpanFact:
        sender = senders[int(spans.group_numbers[row])]
        return read_span(spans.parse(row), sender, _NO_SCOPE, _NO_TEXT)

    def _place(
        self, read: _Read, number: int, group: SpanGroup, received_ns: int, into: Records
    ) -> Attempt | None:
        """Decide which attempt a group belongs to, and add its windows."""
        sender = read.senders[number]
        kinds = read.meaning.kinds[group.first : group.last]
        if sender.is_agent:
            return None
        if not (kinds != NO_KIND).any():
            self._see_engine(read, number, group, received_ns, into)
            return None
        windows = (
            [
                read.windows[group.first + row]
                for row in np.flatnonzero(kinds != NO_KIND).tolist()
                if group.first + row in read.windows
            ]
            if read.windows
            else []
        )
        ends_ns = read.spans.end_ns[group.first : group.last][kinds != NO_KIND]
        moments = _find_moments(windows, ends_ns, received_ns)
        attempt = self._book.place(sender, moments)
        self._links.note_sender(sender, attempt, into)
        if bool((kinds == TRAJECTORY).any()) or any(
            kind is not SpanKind.CANDIDATE for kind, _ in windows
        ):
            is_leader = self._book.is_leader(sender, attempt)
            self._announcer.announce_run(attempt, sender, moments, into, is_leader=is_leader)
            self._announcer.see_process(attempt, sender, group.scope, moments, into)
        for kind, fact in windows:
            with self._guard:
                self._placer.add(kind, fact, attempt, sender, into)
                self._links.note_window(kind, fact, attempt, into)
        return attempt

    def _see_engine(
        self, read: _Read, number: int, group: SpanGroup, received_ns: int, into: Records
    ) -> None:
        """Say that an engine takes part which tells of nothing but its requests."""
        sender = read.senders[number]
        first, last = np.searchsorted(read.asked, (group.first, group.last))
        if first < last and sender.names_run:
            ends_ns = read.spans.end_ns[read.asked[first:last]]
            moments = _find_moments((), ends_ns, received_ns)
            attempt = self._book.place(sender, moments)
            self._announcer.see_process(attempt, sender, group.scope, moments, into)


def _find_moments(
    windows: Sequence[tuple[SpanKind, SpanFact]], ends_ns: Ints, received_ns: int
) -> Moments:
    loops = [
        LoopSeen(get_step(fact), fact.raw.ts_ns, fact.end_ns)
        for kind, fact in windows
        if kind is SpanKind.LOOP
    ]
    known_ns = ends_ns[ends_ns > 0]
    signs_ns = [int(known_ns.min()), int(known_ns.max())] if len(known_ns) else []
    return Moments.collect(received_ns, signs_ns, loops)
