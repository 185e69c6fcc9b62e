"""Stage spans of a step: from spans that name their step, and from children of a step's span."""

from collections import deque
from dataclasses import dataclass, replace

from longpole.conventions import attributes as names
from longpole.conventions import stages
from longpole_server.ingest.normalize.attempts import Attempt
from longpole_server.ingest.normalize.attributes import get_int, get_text
from longpole_server.ingest.normalize.sender import Sender
from longpole_server.ingest.normalize.spans import SpanFact, SpanKind, get_iteration
from longpole_server.model.records import UNKNOWN_STEP, Records, StageSpan

_LOOPS_PER_TRACE = 16


@dataclass(frozen=True, slots=True)
class _Held:
    """A stage span without a step. A strict one counts only as a direct child of the step."""

    span: StageSpan
    attempt: Attempt
    is_strict: bool


class StagePlacer:
    """Adds stage spans to records, and holds those that do not name their step.

    Children end before the step does, often minutes and several batches before its span arrives:
    they wait for it by trace. Waiting ones are lost with the process, except in the raw spans.

    Args:
        max_held: Most spans that wait. Beyond it those of the oldest trace give up: they go to the
            step their attempt is in, or nowhere if only their name spoke for them.
        max_traces: Most traces whose steps are remembered for late children.
    """

    def __init__(self, max_held: int = 20_000, max_traces: int = 4096) -> None:
        self._max_held = max_held
        self._max_traces = max_traces
        self._held: dict[str, list[_Held]] = {}
        self._loops: dict[str, deque[StageSpan]] = {}
        self.num_held = 0
        self.num_given_up = 0

    def add(
        self, kind: SpanKind, fact: SpanFact, attempt: Attempt, sender: Sender, into: Records
    ) -> None:
        """Add one span of a kind that belongs to a step."""
        span = make_stage_span(kind, fact, attempt, sender)
        if kind is SpanKind.LOOP:
            into.stage_spans.append(span)
            self._remember_loop(span, into)
            return
        is_strict = kind is SpanKind.CANDIDATE
        if span.step != UNKNOWN_STEP and (sender.speaks_rl or not is_strict):
            into.stage_spans.append(span)
            return
        loop = self._find_loop(span, is_strict=is_strict)
        if loop is not None:
            into.stage_spans.append(_put_into(span, loop))
        elif span.parent_span_id:
            self._hold(_Held(span, attempt, is_strict), into)
        elif not is_strict:
            into.stage_spans.append(_put_into_current(span, attempt))

    def _find_loop(self, span: StageSpan, *, is_strict: bool) -> StageSpan | None:
        loops = self._loops.get(span.trace_id, ())
        return next((loop for loop in loops if _belongs(span, loop, is_strict=is_strict)), None)

    def _remember_loop(self, loop: StageSpan, into: Records) -> None:
        loops = self._loops.pop(loop.trace_id, None) or deque(maxlen=_LOOPS_PER_TRACE)
        if len(self._loops) >= self._max_traces:
            del self._loops[next(iter(self._loops))]
        loops.append(loop)
        self._loops[loop.trace_id] = loops
        waiting = self._held.pop(loop.trace_id, [])
        kept: list[_Held] = []
        for held in waiting:
            if _belongs(held.span, loop, is_strict=held.is_strict):
                into.stage_spans.append(_put_into(held.span, loop))
            elif not held.is_strict:
                kept.append(held)
        self.num_held -= len(waiting) - len(kept)
        if kept:
            self._held[loop.trace_id] = kept

    def _hold(self, held: _Held, into: Records) -> None:
        self._held.setdefault(held.span.trace_id, []).append(held)
        self.num_held += 1
        while self.num_held > self._max_held:
            given_up = self._held.pop(next(iter(self._held)))
            self.num_held -= len(given_up)
            self.num_given_up += len(given_up)
            into.stage_spans.extend(
                _put_into_current(each.span, each.attempt)
                for each in given_up
                if not each.is_strict
            )


def make_stage_span(kind: SpanKind, fact: SpanFact, attempt: Attempt, sender: Sender) -> StageSpan:
    """Return the stage span of a fact; its step is `UNKNOWN_STEP` where it names none."""
    raw, values = fact.raw, fact.values
    is_loop = kind is SpanKind.LOOP
    iteration = get_iteration(values)
    return StageSpan(
        run_id=attempt.run_id,
        attempt=attempt.number,
        step=UNKNOWN_STEP if iteration is None else iteration,
        stage=_name_stage(kind, fact),
        name=raw.name,
        start_ns=raw.ts_ns,
        end_ns=fact.end_ns,
        trace_id=raw.trace_id,
        span_id=raw.span_id,
        parent_span_id=raw.parent_span_id,
        role=sender.role,
        host=sender.host,
        pid=sender.pid,
        is_loop=is_loop,
        sync_phase=(
            raw.name.removeprefix(names.SPAN_SYNC_PREFIX) if kind is SpanKind.SYNC_PHASE else None
        ),
        sync_method=get_text(values, names.SYNC_METHOD),
        sync_bytes=get_int(values, names.SYNC_BYTES),
        tokens_total=get_int(values, names.TOKENS_TOTAL) if is_loop else None,
        tokens_prompt=get_int(values, names.TOKENS_PROMPT) if is_loop else None,
        tokens_response=get_int(values, names.TOKENS_RESPONSE) if is_loop else None,
    )


def name_stage(stage: str) -> str:
    """Return the canonical name of a stage as sent, or the name itself where none is known."""
    return stage if stage == names.STEP_STAGE else stages.stage_of(stage) or stage


def _name_stage(kind: SpanKind, fact: SpanFact) -> str:
    if kind is SpanKind.LOOP:
        return names.STEP_STAGE
    if kind is SpanKind.SYNC_PHASE:
        return stages.UPDATE_WEIGHTS
    return name_stage(get_text(fact.values, names.STAGE) or fact.raw.name)


def _belongs(span: StageSpan, loop: StageSpan, *, is_strict: bool) -> bool:
    if span.parent_span_id == loop.span_id:
        return True
    return not is_strict and loop.start_ns <= span.start_ns and span.end_ns <= loop.end_ns


def _put_into(span: StageSpan, loop: StageSpan) -> StageSpan:
    # The step's own run and attempt: a child in another process may have been placed before the
    # controller was heard of.
    return replace(span, run_id=loop.run_id, attempt=loop.attempt, step=loop.step)


def _put_into_current(span: StageSpan, attempt: Attempt) -> StageSpan:
    return span if attempt.step is None else replace(span, step=attempt.step)
