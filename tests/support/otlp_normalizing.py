"""A normaliser with its clock: feeds requests at given seconds and collects what comes out."""

from collections.abc import Iterable, Sequence

from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from longpole_server.ingest.normalize import KnownAttempt, Normalizer
from longpole_server.ingest.normalize.free_text import FreeText
from longpole_server.model.records import Records, RunStart
from support import otlp_builders as otlp


class Feed:
    """Each method sends one request at `at_s` and returns the records of that request alone."""

    def __init__(self, known: Iterable[KnownAttempt] = (), *, keep_text: bool = False) -> None:
        self.normalizer = Normalizer(known, FreeText(keep=keep_text))
        self.all_starts: list[RunStart] = []

    def traces(self, sender: Resource, spans: Sequence[Span], at_s: float) -> Records:
        return self.requests("traces", otlp.traces((sender, spans)), at_s)

    def metrics(self, sender: Resource, metrics: Sequence[Metric], at_s: float) -> Records:
        return self.requests("metrics", otlp.metrics((sender, metrics)), at_s)

    def event(self, sender: Resource, name: str, at_s: float, **values: object) -> Records:
        named = {key.replace("__", "."): value for key, value in values.items()}
        return self.requests("logs", otlp.logs((sender, [(name, at_s, named)])), at_s)

    def requests(self, signal: otlp.Signal, body: bytes, at_s: float) -> Records:
        records = Records()
        self.normalizer.normalize(signal, body, otlp.at(at_s), records)
        self.all_starts.extend(records.run_starts)
        return records


def place_of(records: Records) -> set[tuple[str, int]]:
    """The (run, attempt) pairs of everything that a run owns in a batch."""
    owned = (
        *records.stage_spans,
        *records.trajectories,
        *records.metric_points,
        *records.stage_starts,
        *records.engine_samples,
    )
    return {(record.run_id, record.attempt) for record in owned}
