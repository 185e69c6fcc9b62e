"""OTLP traces: raw spans, the windows of a step, and its samples."""

from dataclasses import dataclass, field
from functools import partial

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans

from longpole_server.ingest.normalize.announcements import Announcer
from longpole_server.ingest.normalize.attempt_book import AttemptBook
from longpole_server.ingest.normalize.attempts import LoopSeen, Moments
from longpole_server.ingest.normalize.engine_spans import is_engine_request, read_request
from longpole_server.ingest.normalize.free_text import FreeText
from longpole_server.ingest.normalize.links import TraceLinks
from longpole_server.ingest.normalize.monitor_spans import MonitorSpanReader, is_monitor_span
from longpole_server.ingest.normalize.sender import Sender, SenderCache
from longpole_server.ingest.normalize.skips import SkipGuard
from longpole_server.ingest.normalize.spans import (
    SpanFact,
    SpanKind,
    classify_span,
    get_iteration,
    has_wild_times,
    read_span,
)
from longpole_server.ingest.normalize.stages import StagePlacer
from longpole_server.ingest.normalize.trajectories import PlacedFact, join_trajectories
from longpole_server.model.records import UNKNOWN_STEP, Records


@dataclass(slots=True)
class _Found:
    """Spans of one sender that mean something, before it is known in which attempt.

    Attributes:
        answered_ns: Ends of an engine's requests.
    """

    stages: list[tuple[SpanKind, SpanFact]] = field(default_factory=list[tuple[SpanKind, SpanFact]])
    trajectories: list[SpanFact] = field(default_factory=list[SpanFact])
    parts: list[SpanFact] = field(default_factory=list[SpanFact])
    monitored: list[SpanFact] = field(default_factory=list[SpanFact])
    answered_ns: list[int] = field(default_factory=list[int])
    scope: str = ""

    def add(self, kind: SpanKind, fact: SpanFact) -> None:
        if kind is SpanKind.TRAJECTORY:
            self.trajectories.append(fact)
        elif kind is SpanKind.PART:
            self.parts.append(fact)
        else:
            self.stages.append((kind, fact))

    @property
    def size(self) -> int:
        """Number of spans."""
        return len(self.stages) + len(self.trajectories) + len(self.parts)

    @property
    def makes_run(self) -> bool:
        """Whether any span proves a training run by itself."""
        return bool(self.trajectories) or any(
            kind is not SpanKind.CANDIDATE for kind, _ in self.stages
        )


@dataclass(slots=True)
class _Joining:
    """What is joined over all senders of a request."""

    trajectories: list[PlacedFact] = field(default_factory=list[PlacedFact])
    parts: list[PlacedFact] = field(default_factory=list[PlacedFact])
    parents: dict[str, str] = field(default_factory=dict[str, str])


class TraceReader:
    """Adds the records of trace requests. Every span goes to the raw spans, whatever it means.

    Attributes:
        num_refused: Spans that would mean something and whose times make no window: they end
            before they begin, last longer than a month, or lie in no year of ours. The raw spans
            show them as they came.
    """

    def __init__(
        self,
        senders: SenderCache,
        book: AttemptBook,
        announcer: Announcer,
        links: TraceLinks,
        free_text: FreeText,
    ) -> None:
        self._links = links
        self._jobs = links.jobs
        self._engines = links.engines
        self._monitors = MonitorSpanReader(links.jobs, links.lanes, book)
        self._senders = senders
        self._book = book
        self._announcer = announcer
        self._free_text = free_text
        self.placer = StagePlacer()
        self.guard = SkipGuard("span")
        self.num_refused = 0

    @property
    def num_waiting(self) -> int:
        """Spans that wait for the step or the sample they belong to."""
        return self.placer.num_held + self._engines.num_waiting

    def add(self, request: ExportTraceServiceRequest, received_ns: int, into: Records) -> None:
        """Add the records of a request."""
        joining = _Joining()
        for resource_spans in request.resource_spans:
            with self.guard:
                self._add_resource(resource_spans, received_ns, joining, into)
        with self.guard:
            self._join(joining, into)

    def _add_resource(
        self,
        resource_spans: ResourceSpans,
        received_ns: int,
        joining: _Joining,
        into: Records,
    ) -> None:
        sender = self._senders.get(resource_spans.resource)
        found = self._read_spans(resource_spans, sender, received_ns, joining, into)
        for fact in found.monitored:
            with self.guard:
                self._monitors.add(fact, sender, received_ns, into)
        if sender.is_agent:
            return
        if not found.size:
            self._see_engine(found, sender, received_ns, into)
            return
        member = self._jobs.resolve(sender)
        if member is None:
            self._jobs.wait(
                sender.job, found.size, partial(self._add_late, found, sender, received_ns)
            )
        else:
            self._add_found(found, member, received_ns, joining, into)

    def _see_engine(self, found: _Found, sender: Sender, received_ns: int, into: Records) -> None:
        """Say that an engine takes part which tells of nothing but its requests."""
        if found.answered_ns and sender.names_run:
            moments = Moments.collect(received_ns, found.answered_ns)
            attempt = self._book.place(sender, moments)
            self._announcer.see_process(attempt, sender, found.scope, moments, into)

    def _add_late(self, found: _Found, sender: Sender, received_ns: int, into: Records) -> None:
        member = self._jobs.resolve(sender)
        if member is None:
            return
        joining = _Joining()
        self._add_found(found, member, received_ns, joining, into)
        self._join(joining, into)

    def _add_found(
        self,
        found: _Found,
        sender: Sender,
        received_ns: int,
        joining: _Joining,
        into: Records,
    ) -> None:
        moments = _find_moments(found, received_ns)
        attempt = self._book.place(sender, moments)
        if found.makes_run:
            is_leader = self._book.is_leader(sender, attempt)
            self._announcer.announce_run(attempt, sender, moments, into, is_leader=is_leader)
            self._announcer.see_process(attempt, sender, found.scope, moments, into)
        self._links.note_sender(sender, attempt, into)
        for kind, fact in found.stages:
            with self.guard:
                self.placer.add(kind, fact, attempt, sender, into)
                self._links.note_window(kind, fact, attempt, into)
        joining.trajectories.extend(
            PlacedFact(fact, attempt, sender) for fact in found.trajectories
        )
        joining.parts.extend(PlacedFact(fact, attempt, sender) for fact in found.parts)

    def _join(self, joining: _Joining, into: Records) -> None:
        """Add the samples with their children, and with the requests that engines told of."""
        num_before = len(into.trajectories)
        join_trajectories(joining.trajectories, joining.parts, joining.parents, into)
        records = into.trajectories[num_before:]
        for index, (placed, record) in enumerate(zip(joining.trajectories, records, strict=True)):
            into.trajectories[num_before + index] = self._engines.note_sample(
                record, placed.fact.values, into
            )

    def _read_spans(
        self,
        resource_spans: ResourceSpans,
        sender: Sender,
        received_ns: int,
        joining: _Joining,
        into: Records,
    ) -> _Found:
        found = _Found()
        guard = self.guard
        for scope_spans in resource_spans.scope_spans:
            scope = scope_spans.scope
            found.scope = found.scope or scope.name
            for span in scope_spans.spans:
                with guard:
                    fact = read_span(span, sender, scope, self._free_text)
                    into.raw_spans.append(fact.raw)
                    joining.parents[fact.raw.span_id] = fact.raw.parent_span_id
                    if is_monitor_span(fact.raw.name, fact.values):
                        found.monitored.append(fact)
                        continue
                    if is_engine_request(fact.raw.name, fact.values):
                        self._engines.add(read_request(fact), into)
                        found.answered_ns.append(fact.end_ns)
                        continue
                    kind = classify_span(fact.raw.name, fact.values)
                    if kind is None:
                        continue
                    if has_wild_times(fact, received_ns):
                        self.num_refused += 1
                    else:
                        found.add(kind, fact)
        return found


def _find_moments(found: _Found, received_ns: int) -> Moments:
    facts = [fact for _, fact in found.stages]
    facts += found.trajectories
    facts += found.parts
    loops = [
        LoopSeen(get_step(fact), fact.raw.ts_ns, fact.end_ns)
        for kind, fact in found.stages
        if kind is SpanKind.LOOP
    ]
    return Moments.collect(received_ns, [fact.end_ns for fact in facts], loops)


def get_step(fact: SpanFact) -> int:
    """Return the step that a span names, `UNKNOWN_STEP` where it names none."""
    iteration = get_iteration(fact.values)
    return UNKNOWN_STEP if iteration is None else iteration
