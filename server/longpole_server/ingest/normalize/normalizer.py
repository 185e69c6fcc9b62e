"""The one door of normalisation: a request in protobuf in, records out."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from longpole_server.ingest.columns.traces import LinkedError, TraceColumnReader
from longpole_server.ingest.columns.wire import UnfitError
from longpole_server.ingest.normalize.announcements import Announcer
from longpole_server.ingest.normalize.attempt_book import AttemptBook
from longpole_server.ingest.normalize.attempts import KnownAttempt
from longpole_server.ingest.normalize.events import EventReader
from longpole_server.ingest.normalize.free_text import FreeText
from longpole_server.ingest.normalize.jobs import JobBook
from longpole_server.ingest.normalize.lanes import LanePlacer
from longpole_server.ingest.normalize.layout_book import LayoutBook
from longpole_server.ingest.normalize.links import TraceLinks
from longpole_server.ingest.normalize.metrics import MetricReader
from longpole_server.ingest.normalize.sender import SenderCache
from longpole_server.ingest.normalize.traces import TraceReader
from longpole_server.ingest.signals import Signal, parse_request
from longpole_server.model.records import Records

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NormalizerStats:
    """Counts since the start, except for `num_waiting`.

    Attributes:
        num_skipped: Records that could not be read.
        num_ignored: Points and logs that mean nothing here.
        num_refused: Spans of a run whose times make no window.
        num_redacted: Secrets and addresses that were replaced in text of prompts, responses and
            errors.
        num_waiting: Facts that wait for the step or the run they belong to.
    """

    num_skipped: int
    num_ignored: int
    num_refused: int
    num_redacted: int
    num_waiting: int


class Normalizer:
    """Turns requests into records, and keeps what it needs from one to the next.

    Not thread-safe: the ingest thread owns it.

    Args:
        known: The attempts in the store, so that a restart of the server begins no new ones.
        free_text: Decides about text of prompts, responses and tool arguments in the raw spans;
            without one it is dropped.
        min_column_bytes: Size of a batch from which it is read as columns: below, objects cost
            less than the fixed cost of columns.
        max_layout_bytes: Room for what agents' metrics have in common (`LayoutBook`); without any
            each is read anew.
    """

    def __init__(
        self,
        known: Iterable[KnownAttempt] = (),
        free_text: FreeText | None = None,
        *,
        min_column_bytes: int = 16 << 10,
        max_layout_bytes: int = 64 << 20,
    ) -> None:
        self._min_column_bytes = min_column_bytes
        self._free_text = free_text = free_text or FreeText()
        senders = SenderCache(free_text)
        book = AttemptBook(known)
        announcer = Announcer()
        self._links = links = TraceLinks(JobBook(), LanePlacer())
        self._traces = TraceReader(senders, book, announcer, links, free_text)
        self._trace_columns = TraceColumnReader(
            senders,
            book,
            announcer,
            self._traces.placer,
            self._traces.guard,
            links,
            free_text,
        )
        self._layouts = LayoutBook(max_layout_bytes)
        self._metrics = MetricReader(
            senders, book, announcer, links.jobs, links.lanes, self._layouts
        )
        self.num_unfit_batches = 0
        self._events = EventReader(senders, book, announcer, links.jobs)

    @property
    def num_read_by_layout(self) -> int:
        """Parts of metrics requests that were laid out as one before."""
        return self._layouts.num_read

    @property
    def stats(self) -> NormalizerStats:
        """Counts so far."""
        return NormalizerStats(
            num_skipped=sum(
                reader.guard.num_skipped for reader in (self._traces, self._metrics, self._events)
            ),
            num_ignored=self._metrics.num_ignored + self._events.num_ignored,
            num_refused=self._traces.num_refused + self._trace_columns.num_refused,
            num_redacted=self._free_text.num_redacted,
            num_waiting=(
                self._traces.num_waiting
                + self._links.jobs.num_waiting
                + self._links.lanes.num_waiting
            ),
        )

    def normalize(self, signal: Signal, body: bytes, received_ns: int, into: Records) -> None:
        """Add the records of one request.

        Args:
            signal: What the request holds.
            body: The request in protobuf.
            received_ns: When the server got it, UTC nanoseconds.
            into: Where the records go. What cannot be read is skipped and counted.

        Raises:
            BadRequestError: The body is no such request.
        """
        if signal == "metrics":
            self._metrics.add(body, received_ns, into)
            return
        request = parse_request(signal, body)
        if signal == "traces":
            self._traces.add(cast("ExportTraceServiceRequest", request), received_ns, into)
        else:
            self._events.add(cast("ExportLogsServiceRequest", request), received_ns, into)

    def normalize_many(
        self, signal: Signal, requests: Sequence[tuple[bytes, int]], into: Records
    ) -> bool:
        """Add the records of many requests at once, if that is how they can be read.

        Args:
            signal: What the requests hold.
            requests: Each body in protobuf with the time the server got it, in their order.
            into: Where the records go, most of them as columns.

        Returns:
            Whether they were added; if not, nothing changed and `normalize` takes each of them.
        """
        if signal != "traces" or sum(len(body) for body, _ in requests) < self._min_column_bytes:
            return False
        before = self._free_text.num_redacted
        try:
            self._trace_columns.add(requests, into)
        except LinkedError:
            self._free_text.num_redacted = before
            return False
        except UnfitError as reason:
            self._free_text.num_redacted = before
            self.num_unfit_batches += 1
            _log.info("A batch of %d requests is read one by one: %s", len(requests), reason)
            return False
        return True
