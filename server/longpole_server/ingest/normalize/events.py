"""OTLP logs: the events that say what starts, still runs, and ends."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs

from longpole.conventions import attributes as names
from longpole_server.ingest.normalize.announcements import Announcer
from longpole_server.ingest.normalize.attempt_book import AttemptBook
from longpole_server.ingest.normalize.attempts import Attempt, Moments
from longpole_server.ingest.normalize.attributes import (
    Values,
    get_int,
    get_text,
    is_of_our_time,
    read_attributes,
    read_time,
)
from longpole_server.ingest.normalize.jobs import JobBook
from longpole_server.ingest.normalize.sender import CONTROLLER, Sender, SenderCache
from longpole_server.ingest.normalize.skips import SkipGuard
from longpole_server.ingest.normalize.spans import get_iteration
from longpole_server.ingest.normalize.stages import name_stage
from longpole_server.model.records import UNKNOWN_STEP, Records, RunEnd, StageStart

_EVENTS = frozenset({names.EVENT_STAGE_START, names.EVENT_RUN_START, names.EVENT_RUN_END})
_FINISHED = "finished"


class _Event(NamedTuple):
    name: str
    time_ns: int
    values: Values


class EventReader:
    """Adds the records of logs requests. Other logs than our events are counted and left out."""

    def __init__(
        self, senders: SenderCache, book: AttemptBook, announcer: Announcer, jobs: JobBook
    ) -> None:
        self._jobs = jobs
        self._senders = senders
        self._book = book
        self._announcer = announcer
        self.guard = SkipGuard("log record")
        self.num_ignored = 0

    def add(self, request: ExportLogsServiceRequest, received_ns: int, into: Records) -> None:
        """Add the records of a request."""
        for resource_logs in request.resource_logs:
            with self.guard:
                self._add_resource(resource_logs, received_ns, into)

    def _add_resource(self, resource_logs: ResourceLogs, received_ns: int, into: Records) -> None:
        sender = self._senders.get(resource_logs.resource)
        events: list[_Event] = []
        scope = ""
        for scope_logs in resource_logs.scope_logs:
            scope = scope or scope_logs.scope.name
            for record in scope_logs.log_records:
                with self.guard:
                    event = _read_event(record, received_ns)
                    if event is None:
                        self.num_ignored += 1
                    else:
                        events.append(event)
        if events:
            self._add_events(events, scope, sender, received_ns, into)

    def _add_events(
        self,
        events: Sequence[_Event],
        scope: str,
        sender: Sender,
        received_ns: int,
        into: Records,
    ) -> None:
        member = self._jobs.resolve(sender)
        if member is None:
            late = partial(self._add_events, events, scope, sender, received_ns)
            self._jobs.wait(sender.job, len(events), late)
            return
        sender = member
        moments = _find_moments(events, received_ns)
        attempt = self._book.place(sender, moments)
        if sender.names_run or sender.role == CONTROLLER:
            self._jobs.learn(sender.job, attempt.run_id, into, from_process=True)
        is_leader = self._book.is_leader(sender, attempt)
        is_last = any(event.name == names.EVENT_RUN_END for event in events)
        self._announcer.see_process(attempt, sender, scope, moments, into, is_last=is_last)
        for event in events:
            with self.guard:
                self._add_event(event, attempt, sender, into, is_leader=is_leader)
        self._announcer.announce_run(attempt, sender, moments, into, is_leader=is_leader)

    def _add_event(
        self, event: _Event, attempt: Attempt, sender: Sender, into: Records, *, is_leader: bool
    ) -> None:
        if event.name == names.EVENT_STAGE_START:
            start = _make_stage_start(event, attempt, sender)
            if is_leader and start.step != UNKNOWN_STEP:
                attempt.note_step(start.step)
            into.stage_starts.append(start)
        elif not is_leader:
            # A worker that comes or goes neither begins nor ends the run.
            return
        elif event.name == names.EVENT_RUN_START:
            if attempt.ended_ns is not None and event.time_ns > attempt.ended_ns:
                attempt.ended_ns = None
            self._announcer.announce_start(attempt, sender, event.values, event.time_ns, into)
        else:
            attempt.ended_ns = event.time_ns
            status = get_text(event.values, names.EVENT_STATUS) or _FINISHED
            into.run_ends.append(
                RunEnd(attempt.run_id, attempt.number, event.time_ns, status.lower())
            )


def _read_event(record: LogRecord, received_ns: int) -> _Event | None:
    values = read_attributes(record.attributes)
    name = record.event_name or get_text(values, names.EVENT_NAME) or ""
    if name not in _EVENTS:
        return None
    told = (read_time(record.time_unix_nano), read_time(record.observed_time_unix_nano))
    known = (time_ns for time_ns in told if is_of_our_time(time_ns, received_ns))
    return _Event(name, next(known, received_ns), values)


def _find_moments(events: Sequence[_Event], received_ns: int) -> Moments:
    starts = [event.time_ns for event in events if event.name == names.EVENT_RUN_START]
    return Moments.collect(
        received_ns,
        [event.time_ns for event in events],
        run_start_ns=max(starts, default=None),
    )


def _make_stage_start(event: _Event, attempt: Attempt, sender: Sender) -> StageStart:
    step = get_iteration(event.values)
    start_ns = get_int(event.values, names.EVENT_START_NS)
    return StageStart(
        run_id=attempt.run_id,
        attempt=attempt.number,
        step=UNKNOWN_STEP if step is None else step,
        stage=name_stage(get_text(event.values, names.STAGE) or names.STEP_STAGE),
        start_ns=(
            start_ns
            if start_ns is not None and is_of_our_time(start_ns, event.time_ns)
            else event.time_ns
        ),
        seen_ns=event.time_ns,
        host=sender.host,
        pid=sender.pid,
        role=sender.role,
    )
