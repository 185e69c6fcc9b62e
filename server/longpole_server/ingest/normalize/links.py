"""What ties spans of different senders together: jobs to runs, lanes to steps, requests to samples.

Shared by the reader of single requests and the one of whole batches.
"""

from collections.abc import Sequence

from longpole.conventions import attributes as names
from longpole.conventions import rl_insight
from longpole_server.ingest.normalize.attempts import Attempt
from longpole_server.ingest.normalize.engine_spans import REQUEST, RID, EngineSpanBook
from longpole_server.ingest.normalize.jobs import JobBook
from longpole_server.ingest.normalize.lanes import LanePlacer
from longpole_server.ingest.normalize.sender import CONTROLLER, Sender
from longpole_server.ingest.normalize.spans import (
    SpanFact,
    SpanKind,
    get_iteration,
    name_without_ids,
)
from longpole_server.model.records import Records

_LINKING_KEYS = frozenset({rl_insight.LANE, rl_insight.SOURCE, RID})


class TraceLinks:
    """Remembers what later spans are tied to. Not thread-safe.

    Attributes:
        jobs: Runs of jobs.
        lanes: Ends of steps, and spans that wait for one.
        engines: Samples, and requests of engines that wait for one.
    """

    def __init__(self, jobs: JobBook, lanes: LanePlacer) -> None:
        self.jobs = jobs
        self.lanes = lanes
        self.engines = EngineSpanBook()

    def concerns(
        self,
        senders: Sequence[Sender],
        span_names: Sequence[str],
        keys: Sequence[str],
        *,
        has_samples: bool,
    ) -> bool:
        """Tell whether any span of a batch has to be looked at by itself.

        Args:
            senders: Of the spans in it that mean something, requests of engines left out.
            span_names: The different names in it.
            keys: The different keys of attributes in it.
            has_samples: Whether there are samples in it, which engines' requests belong to.
        """
        if not _LINKING_KEYS.isdisjoint(keys):
            return True
        if has_samples and (
            self.engines.num_waiting or REQUEST in span_names or names.REQUEST_ID in keys
        ):
            return True
        if any(name_without_ids(name) != name for name in span_names):
            return True
        return any(
            not sender.is_agent and self.jobs.resolve(sender) is not sender for sender in senders
        )

    def note_sender(self, sender: Sender, attempt: Attempt, into: Records) -> None:
        """Remember the run of a sender's job if it speaks for a run, else who speaks for itself."""
        if sender.names_run or sender.role == CONTROLLER:
            self.jobs.learn(sender.job, attempt.run_id, into, from_process=True)
        if sender.pid and sender.role != CONTROLLER:
            self.lanes.note_speaker(attempt.run_id, attempt.number, sender.pid)

    def note_window(self, kind: SpanKind, fact: SpanFact, attempt: Attempt, into: Records) -> None:
        """Remember the end of a step from its span."""
        step = get_iteration(fact.values) if kind is SpanKind.LOOP else None
        if step is not None:
            self.lanes.note_end(
                attempt.run_id, attempt.number, step, fact.end_ns, into, is_exact=True
            )
