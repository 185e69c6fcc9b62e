"""Spans of inference engines: a request of vLLM or SGLang, linked to the sample it was made for.

By trace context where the sample's sender passed it on, else by request id. A request ends before
its sample does, so it waits for it. What nobody asks for stays in the raw spans alone, as do the
spans of an engine's start, which belong to no step.
"""

import re
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, replace

from longpole.conventions import attributes as names
from longpole_server.ingest.normalize.attributes import (
    Values,
    get_float,
    get_int,
    get_text,
    get_texts,
)
from longpole_server.ingest.normalize.spans import SpanFact
from longpole_server.model.records import Records, TrajectoryRecord, TrajectorySpan

REQUEST = "llm_request"
_SGLANG_REQUEST = re.compile(r".*\bReq")
RID = "rid"
QUEUE_S = "gen_ai.latency.time_in_queue"
PREFILL_S = "gen_ai.latency.time_in_model_prefill"
# From the request's arrival: the queue is in it.
TTFT_S = "gen_ai.latency.time_to_first_token"
TOKENS = {
    "input": (names.INPUT_TOKENS, "gen_ai.usage.prompt_tokens"),
    "output": (names.OUTPUT_TOKENS, "gen_ai.usage.completion_tokens"),
}
# vLLM's front ends put these around the id that the client chose.
_PREFIXES = ("cmpl-", "chatcmpl-")
_SUFFIX = re.compile(r"-(?:\d+|[0-9a-f]{8})$")
_NS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """A request as an engine tells of it.

    Attributes:
        prefill_s: From the end of the queue to the first token.
        keys: What its sample may be known by, best first.
    """

    start_ns: int
    end_ns: int
    queue_s: float | None
    prefill_s: float | None
    input_tokens: int | None
    output_tokens: int | None
    span_id: str
    keys: tuple[str, ...]


@dataclass(slots=True)
class _Sample:
    """A sample as it was written last, and whether its sender said how long it waited."""

    record: TrajectoryRecord
    says_queue: bool


class EngineSpanBook:
    """Links requests to samples, whichever comes first. Not thread-safe.

    Args:
        max_waiting: Most requests that wait for their sample; the oldest are given up first.
        max_samples: Most keys of samples that are remembered for late requests.
    """

    def __init__(self, max_waiting: int = 20_000, max_samples: int = 50_000) -> None:
        self._max_waiting = max_waiting
        self._max_samples = max_samples
        # By span id, and the span ids of each key.
        self._waiting: OrderedDict[str, EngineRequest] = OrderedDict()
        self._by_key: dict[str, set[str]] = {}
        self._samples: OrderedDict[str, _Sample] = OrderedDict()
        self.num_given_up = 0

    @property
    def num_waiting(self) -> int:
        """Requests that wait for their sample."""
        return len(self._waiting)

    def add(self, request: EngineRequest, into: Records) -> None:
        """Add a request to its sample, now or when that is known."""
        for key in request.keys:
            sample = self._samples.get(key)
            if sample is not None:
                self._add_late(request, sample, into)
                return
        if request.span_id in self._waiting:
            return
        self._waiting[request.span_id] = request
        for key in request.keys:
            self._by_key.setdefault(key, set()).add(request.span_id)
        if len(self._waiting) > self._max_waiting:
            self._forget(next(iter(self._waiting)))
            self.num_given_up += 1

    def _add_late(self, request: EngineRequest, sample: _Sample, into: Records) -> None:
        """Add a request to a sample that was written before, and write that again."""
        into.trajectory_spans.extend(_make_spans(request, sample.record))
        if sample.says_queue or request.queue_s is None:
            return
        queue_s = (sample.record.queue_s or 0.0) + request.queue_s
        sample.record = replace(sample.record, queue_s=queue_s)
        into.trajectories.append(sample.record)

    def note_sample(
        self, record: TrajectoryRecord, values: Values, into: Records
    ) -> TrajectoryRecord:
        """Remember a sample and add its requests; return it with the time these spent in queues."""
        keys = tuple(_list_sample_keys(record, values))
        found: dict[str, EngineRequest] = {}
        for key in keys:
            for span_id in self._by_key.get(key, ()):
                found[span_id] = self._waiting[span_id]
        for span_id, request in found.items():
            self._forget(span_id)
            into.trajectory_spans.extend(_make_spans(request, record))
        says_queue = record.queue_s is not None
        queued = [request.queue_s for request in found.values() if request.queue_s is not None]
        if queued and not says_queue:
            record = replace(record, queue_s=sum(queued))
        sample = _Sample(record, says_queue)
        for key in keys:
            self._samples.pop(key, None)
            self._samples[key] = sample
        while len(self._samples) > self._max_samples:
            self._samples.popitem(last=False)
        return record

    def _forget(self, span_id: str) -> None:
        request = self._waiting.pop(span_id)
        for key in request.keys:
            spans = self._by_key.get(key)
            if spans is not None:
                spans.discard(span_id)
                if not spans:
                    del self._by_key[key]


def is_engine_request(name: str, values: Values) -> bool:
    """Tell whether a span is a whole request to an engine."""
    if name == REQUEST:
        return True
    return RID in values and _SGLANG_REQUEST.fullmatch(name) is not None


def read_request(fact: SpanFact) -> EngineRequest:
    """Read a request from its span."""
    raw, values = fact.raw, fact.values
    return EngineRequest(
        start_ns=raw.ts_ns,
        end_ns=fact.end_ns,
        queue_s=get_float(values, QUEUE_S),
        prefill_s=find_prefill(
            get_float(values, PREFILL_S),
            get_float(values, TTFT_S),
            get_float(values, QUEUE_S),
        ),
        input_tokens=_get_first(values, TOKENS["input"]),
        output_tokens=_get_first(values, TOKENS["output"]),
        span_id=raw.span_id,
        keys=tuple(
            list_request_keys(
                raw.trace_id if raw.parent_span_id else None,
                get_text(values, names.REQUEST_ID) or get_text(values, RID),
            )
        ),
    )


def find_prefill(
    prefill_s: float | None, first_token_s: float | None, queue_s: float | None
) -> float | None:
    """Return the seconds before a request's first token without those in the queue.

    Args:
        prefill_s: As the engine measured them.
        first_token_s: Else what passed from the arrival to the first token.
        queue_s: The queue, which that holds.
    """
    if prefill_s is not None or first_token_s is None or queue_s is None:
        return prefill_s
    return max(0.0, first_token_s - queue_s)


def list_request_keys(trace_id: str | None, request_id: str | None) -> Iterator[str]:
    """Return what the sample of a request may be known by.

    Args:
        trace_id: Of a request that was made in a trace, which others may belong to.
        request_id: As the engine names it.
    """
    if trace_id is not None:
        yield f"trace/{trace_id}"
    if request_id is None:
        return
    yield f"request/{request_id}"
    for prefix in _PREFIXES:
        request_id = request_id.removeprefix(prefix)
    yield f"request/{request_id}"
    # A sample of several, and a suffix against ids that are used twice: one of each at most.
    for _ in range(2):
        shorter = _SUFFIX.sub("", request_id)
        if shorter == request_id or not shorter:
            return
        request_id = shorter
        yield f"request/{request_id}"


def _list_sample_keys(record: TrajectoryRecord, values: Values) -> Iterator[str]:
    if record.trace_id:
        yield f"trace/{record.trace_id}"
    yield f"request/{record.trajectory_id}"
    for request_id in get_texts(values, names.REQUEST_ID):
        yield f"request/{request_id}"


def _get_first(values: Values, keys: tuple[str, ...]) -> int | None:
    return next((value for key in keys if (value := get_int(values, key)) is not None), None)


def _make_spans(request: EngineRequest, sample: TrajectoryRecord) -> Iterator[TrajectorySpan]:
    queued_ns = round((request.queue_s or 0.0) * _NS_PER_S)
    begun_ns = min(request.start_ns + max(0, queued_ns), request.end_ns)

    def make(kind: str, name: str, start_ns: int, end_ns: int, mark: str) -> TrajectorySpan:
        return TrajectorySpan(
            sample.run_id,
            sample.attempt,
            sample.trajectory_id,
            kind,
            name,
            start_ns,
            end_ns,
            f"{request.span_id}{mark}",
        )

    if begun_ns > request.start_ns:
        yield make("queue", "engine queue", request.start_ns, begun_ns, "q")
    tokens = {"input_tokens": request.input_tokens, "output_tokens": request.output_tokens}
    yield replace(make("generate", "engine", begun_ns, request.end_ns, ""), **tokens)
    if request.prefill_s is None or request.prefill_s < 0:
        return
    # The two halves of that window, beside it: who sums up what was generated counts it once.
    first_ns = min(begun_ns + round(request.prefill_s * _NS_PER_S), request.end_ns)
    yield replace(
        make("prefill", "engine", begun_ns, first_ns, "p"), input_tokens=request.input_tokens
    )
    if first_ns < request.end_ns:
        yield replace(
            make("decode", "engine", first_ns, request.end_ns, "d"),
            output_tokens=request.output_tokens,
        )
