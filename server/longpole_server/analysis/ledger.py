"""The ledger: what the seconds of a step were spent on, from spans, from scalars, or from both.

Spans win for time where both exist; scalars fill what spans lack. Parts and `unattributed_s` add
up to the step exactly.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from longpole.conventions import stages
from longpole_server.analysis.intervals import Interval
from longpole_server.analysis.modes import has_separate_pools, infer_mode
from longpole_server.analysis.scalar_ledger import (
    SUM_TOLERANCE_RATIO,
    ScalarLedger,
    TimedStage,
    read_scalar_ledger,
    read_step_seconds,
)
from longpole_server.analysis.span_ledger import (
    LedgerSpans,
    SpanLedger,
    build_span_ledger,
    select_spans,
)
from longpole_server.analysis.step_metrics import measure_step
from longpole_server.model.facts import StepInputs
from longpole_server.model.step import ClosedBy, Note, OutsideStage, StageTime, Step

_NS = 1_000_000_000
_NO_SPANS = SpanLedger((), 0, (), ())


@dataclass(frozen=True, slots=True)
class Extent:
    """Where a step begins and ends, and what says so. `duration_s` is None while it is open."""

    start_ns: int
    end_ns: int | None
    duration_s: float | None
    closed_by: ClosedBy | None


def assemble_step(inputs: StepInputs) -> Step:
    """Return the step with its stages' exclusive seconds, which add up to it exactly.

    A step is closed by its loop span, by a logged timer of the whole step, or by its successor.
    While it is open, stages that have ended are listed with their windows and without shares.
    """
    gen_is_wait = has_separate_pools(inputs.run.mode or infer_mode(inputs.scalars))
    selected = select_spans(inputs.spans)
    extent = _find_extent(inputs, selected)
    from_spans = _span_ledger(inputs, selected, extent, gen_is_wait=gen_is_wait)
    from_scalars = read_scalar_ledger(inputs.scalars, inputs.step, extent.duration_s)
    filled = _fill(from_spans, from_scalars, extent, gen_is_wait=gen_is_wait)
    in_order = sorted((*from_spans.inside, *filled), key=lambda stage: _ORDER[stage.stage])
    # On GPUs of its own the trainer holds only some of those that the figures count.
    update_s = None if gen_is_wait else _inclusive_seconds(in_order, stages.UPDATE_ACTOR)
    measured = measure_step(inputs, selected, extent.duration_s, update_s)
    notes = (*from_spans.notes, *_scalar_notes(from_spans, from_scalars), *measured.notes)
    return Step(
        run_id=inputs.run.run_id,
        step=inputs.step,
        attempt=inputs.attempt,
        start_ns=extent.start_ns,
        end_ns=extent.end_ns,
        duration_s=extent.duration_s,
        closed_by=extent.closed_by,
        stages=tuple(in_order),
        unattributed_s=_unattributed(extent, in_order),
        outside=_outside(from_spans, from_scalars),
        tokens_total=measured.tokens_total,
        throughput_tokens_per_s_per_gpu=measured.throughput_tokens_per_s_per_gpu,
        mfu_actor=measured.mfu_actor,
        mfu_infer=measured.mfu_infer,
        mfu_step=measured.mfu_step,
        gpu_count=measured.gpu_count,
        notes=notes,
        tokens_response=measured.responses.tokens,
        response_length_mean=measured.responses.mean,
        response_length_max=measured.responses.longest,
    )


_ORDER = {stage: index for index, stage in enumerate(stages.STAGES)}


def _inclusive_seconds(in_order: Sequence[StageTime], name: str) -> float | None:
    return next((stage.inclusive_s for stage in in_order if stage.stage == name), None)


def _find_extent(inputs: StepInputs, selected: LedgerSpans) -> Extent:
    if selected.loop is not None:
        start_ns, end_ns = selected.loop
        return Extent(start_ns, end_ns, (end_ns - start_ns) / _NS, "loop")
    seconds = read_step_seconds(inputs.scalars)
    if selected.stages:
        return _extent_of_stages(inputs, selected, seconds)
    arrived_ns = _first_known(inputs.end_ns_hint, inputs.scalars_ns, inputs.successor_start_ns)
    closed_by: ClosedBy = "metrics"
    if seconds is None and inputs.successor_start_ns is not None:
        # Some frameworks log no time of the whole step: the sum of its stages stands for it.
        seconds = read_scalar_ledger(inputs.scalars, inputs.step).step_s
        closed_by = "successor"
    if seconds is None:
        return Extent(arrived_ns, None, None, None)
    return Extent(arrived_ns - round(seconds * _NS), arrived_ns, seconds, closed_by)


def _extent_of_stages(inputs: StepInputs, selected: LedgerSpans, seconds: float | None) -> Extent:
    start_ns = min(span.start_ns for span in selected.stages)
    if seconds is not None:
        end_ns = start_ns + round(seconds * _NS)
        return Extent(start_ns, end_ns, (end_ns - start_ns) / _NS, "metrics")
    successor_ns = inputs.successor_start_ns
    if successor_ns is not None and successor_ns > start_ns:
        return Extent(start_ns, successor_ns, (successor_ns - start_ns) / _NS, "successor")
    return Extent(start_ns, None, None, None)


def _first_known(*times_ns: int | None) -> int:
    return next((time_ns for time_ns in times_ns if time_ns is not None), 0)


def _span_ledger(
    inputs: StepInputs, selected: LedgerSpans, extent: Extent, *, gen_is_wait: bool
) -> SpanLedger:
    if not selected.stages and not selected.unknown:
        return _NO_SPANS
    bounds: Interval
    if extent.end_ns is not None:
        bounds = (extent.start_ns, extent.end_ns)
    elif selected.stages:
        bounds = (extent.start_ns, max(span.end_ns for span in selected.stages))
    else:
        return _NO_SPANS
    ledger = build_span_ledger(
        selected, bounds, inputs.step, inputs.successor_start_ns, gen_is_wait=gen_is_wait
    )
    if extent.end_ns is not None:
        return ledger
    return SpanLedger(
        tuple(_without_share(stage) for stage in ledger.inside), ledger.inside_ns, (), ledger.notes
    )


def _without_share(stage: StageTime) -> StageTime:
    return StageTime(
        stage.stage,
        stage.exclusive_s,
        stage.inclusive_s,
        None,
        stage.start_ns,
        stage.end_ns,
        stage.includes,
        stage.source,
        stage.windows,
    )


def _fill(
    from_spans: SpanLedger, from_scalars: ScalarLedger, extent: Extent, *, gen_is_wait: bool
) -> list[StageTime]:
    """Return the timers of stages that no span shows and that fit beside the spans."""
    if extent.duration_s is None:
        return []
    spanned = {stage.stage for stage in from_spans.inside}
    # A timer of what ran after the step may well fit into what no stage covers.
    shown = spanned | {outside.stage for outside in from_spans.outside}
    room_s = extent.duration_s - math.fsum(stage.exclusive_s for stage in from_spans.inside)
    slack_s = extent.duration_s * SUM_TOLERANCE_RATIO if spanned else 0.0
    filled: dict[str, StageTime] = {}
    for timed in from_scalars.inside:
        name = stages.TRAINER_WAIT if gen_is_wait and timed.stage == stages.GEN else timed.stage
        if name in shown or (spanned and timed.exclusive_s > room_s + slack_s):
            continue
        exclusive_s = min(timed.exclusive_s, max(room_s, 0.0))
        room_s -= exclusive_s
        filled[name] = _from_timer(name, timed, exclusive_s, extent.duration_s, filled.get(name))
    return list(filled.values())


def _from_timer(
    name: str, timed: TimedStage, exclusive_s: float, duration_s: float, before: StageTime | None
) -> StageTime:
    inclusive_s = timed.inclusive_s
    if before is not None:
        exclusive_s += before.exclusive_s
        inclusive_s += before.inclusive_s
    share = exclusive_s / duration_s if duration_s else None
    includes = timed.includes or stages.STAGES[name].includes
    return StageTime(name, exclusive_s, inclusive_s, share, None, None, includes, "scalar")


def _unattributed(extent: Extent, in_order: Sequence[StageTime]) -> float | None:
    if extent.duration_s is None or not in_order:
        return None
    covered_s = math.fsum(stage.exclusive_s for stage in in_order)
    return max(0.0, extent.duration_s - covered_s)


def _outside(from_spans: SpanLedger, from_scalars: ScalarLedger) -> tuple[OutsideStage, ...]:
    spanned = {stage.stage for stage in from_spans.inside}
    spanned.update(outside.stage for outside in from_spans.outside)
    logged = (
        OutsideStage(timed.stage, timed.exclusive_s)
        for timed in from_scalars.outside
        if timed.stage not in spanned and timed.exclusive_s > 0
    )
    return (*from_spans.outside, *logged)


def _scalar_notes(from_spans: SpanLedger, from_scalars: ScalarLedger) -> tuple[Note, ...]:
    """Return what timers give to note; their sums and names matter only where they are used."""
    if not from_spans.inside:
        return from_scalars.notes
    return tuple(note for note in from_scalars.notes if note.code == "time.impossible")
