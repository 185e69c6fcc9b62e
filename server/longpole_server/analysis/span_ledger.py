"""A step's stages from spans: which spans count, how they nest, what each stage owns."""

from collections.abc import Sequence
from dataclasses import dataclass

from longpole.conventions import attributes, stages
from longpole_server.analysis.intervals import (
    Interval,
    Node,
    Ownership,
    clip,
    length,
    share_out,
    union,
)
from longpole_server.model.records import StageSpan
from longpole_server.model.step import Note, OutsideStage, StageTime

# Shorter overlaps are how clocks are read, not how stages run.
OVERLAP_NOTE_NS = 1_000_000
_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class LedgerSpans:
    """The spans of a step that its ledger is made of.

    Attributes:
        loop: Window of the step on the process that announces it, None without one.
        loop_spans: Its loop spans.
        stages: Stage spans of known meaning.
        unknown: Stage spans whose stage nobody knows.
        single_process: Whether all come from one process, so that their nesting is known.
    """

    loop: Interval | None
    loop_spans: tuple[StageSpan, ...]
    stages: tuple[StageSpan, ...]
    unknown: tuple[StageSpan, ...]
    single_process: bool


@dataclass(frozen=True, slots=True)
class SpanLedger:
    """Stages inside the step, stages after or before it, and what to know about them."""

    inside: tuple[StageTime, ...]
    inside_ns: int
    outside: tuple[OutsideStage, ...]
    notes: tuple[Note, ...]


def select_spans(spans: Sequence[StageSpan]) -> LedgerSpans:
    """Choose the process that sends `rl.loop`, else all of the roles that make a ledger.

    What is chosen, and in which order, depends on the spans alone and not on their arrival.
    """
    kept = _once(spans)
    loops = [span for span in kept if span.is_loop]
    windows = [span for span in kept if not span.is_loop and span.sync_phase is None]
    loop: Interval | None = None
    chosen: list[StageSpan] = []
    if loops:
        last = max(loops, key=lambda span: (span.end_ns, _process(span)))
        loops = [span for span in loops if _process(span) == _process(last)]
        loop = (min(span.start_ns for span in loops), max(span.end_ns for span in loops))
        chosen = [span for span in windows if _process(span) == _process(last)]
    if not any(span.stage in stages.STAGES for span in chosen):
        chosen = _of_ledger_roles(windows) or chosen
    return LedgerSpans(
        loop,
        tuple(loops),
        tuple(span for span in chosen if span.stage in stages.STAGES),
        tuple(span for span in chosen if span.stage not in stages.STAGES),
        len({_process(span) for span in chosen}) <= 1,
    )


def build_span_ledger(
    selected: LedgerSpans,
    bounds: Interval,
    step: int,
    following_start_ns: int | None,
    *,
    gen_is_wait: bool,
) -> SpanLedger:
    """Share out a step's window over its stage spans.

    Args:
        selected: The spans that count.
        bounds: Window of the step; what lies outside of it is outside the step.
        step: Its number, for notes.
        following_start_ns: Start of the next step: stages outside end there at the latest.
        gen_is_wait: Whether the trainer's `gen` is its exposed wait (separate GPU pools).
    """
    nodes = _tree(selected) if selected.single_process else _by_stage(selected)
    if gen_is_wait:
        nodes = [_as_wait(node) for node in nodes]
    ownership = share_out(nodes, bounds)
    inside = tuple(
        _stage_time(stage, nodes, bounds, ownership) for stage in _in_order(nodes, bounds)
    )
    notes = _overlap_notes(ownership, step) + _unknown_notes(selected, step)
    outside = _outside(nodes, bounds, following_start_ns)
    return SpanLedger(inside, sum(ownership.owned.values()), outside, notes)


def _once(spans: Sequence[StageSpan]) -> list[StageSpan]:
    """Return each span once, by start; of several versions of one, that which ends last."""
    latest: dict[object, StageSpan] = {}
    for span in sorted(spans, key=_place):
        if span.end_ns >= span.start_ns:
            latest[(span.trace_id, span.span_id) if span.span_id else span] = span
    return sorted(latest.values(), key=lambda span: (span.start_ns, *_place(span)))


def _place(span: StageSpan) -> tuple[int, int, str, str, str, str, int]:
    return (
        span.end_ns,
        span.start_ns,
        span.stage,
        span.span_id,
        span.parent_span_id,
        span.host,
        span.pid,
    )


def _process(span: StageSpan) -> tuple[str, int]:
    return (span.host, span.pid)


def _of_ledger_roles(windows: Sequence[StageSpan]) -> list[StageSpan]:
    """Return spans of roles that make a ledger; of processes without a role if there are none."""
    named = [span for span in windows if span.role in attributes.LEDGER_ROLES]
    return named or [span for span in windows if not span.role]


def _tree(selected: LedgerSpans) -> list[Node]:
    """Nest windows by their parents; by containment where no parent is known."""
    spans = selected.stages
    index_of = {span.span_id: index for index, span in enumerate(spans) if span.span_id}
    between = {span.span_id: span.parent_span_id for span in selected.unknown if span.span_id}
    loop_ids = {span.span_id for span in selected.loop_spans}
    containers = _smallest_containers(spans)
    parents: list[int | None] = []
    for index, span in enumerate(spans):
        above = span.parent_span_id
        seen: set[str] = set()
        while above in between and above not in seen:
            seen.add(above)
            above = between[above]
        if above in index_of:
            parents.append(index_of[above])
        elif above and above in loop_ids:
            parents.append(None)
        else:
            parents.append(containers[index])
    return [
        Node(span.stage, span.start_ns, span.end_ns, None if _is_cyclic(parents, index) else parent)
        for index, (span, parent) in enumerate(zip(spans, parents, strict=True))
    ]


def _smallest_containers(spans: Sequence[StageSpan]) -> list[int | None]:
    """Return for each window the smallest one that is longer and contains it."""
    containers: list[int | None] = [None] * len(spans)
    by_start = sorted(
        range(len(spans)), key=lambda index: (spans[index].start_ns, -spans[index].end_ns)
    )
    running: list[int] = []
    for index in by_start:
        inner = spans[index]
        running = [other for other in running if spans[other].end_ns > inner.start_ns]
        around = [
            other
            for other in running
            if spans[other].end_ns >= inner.end_ns
            and _duration_ns(spans[other]) > _duration_ns(inner)
        ]
        containers[index] = min(around, key=lambda other: _duration_ns(spans[other]), default=None)
        running.append(index)
    return containers


def _duration_ns(span: StageSpan) -> int:
    return span.end_ns - span.start_ns


def _is_cyclic(parents: Sequence[int | None], index: int) -> bool:
    seen = {index}
    parent = parents[index]
    while parent is not None:
        if parent in seen:
            return True
        seen.add(parent)
        parent = parents[parent]
    return False


def _by_stage(selected: LedgerSpans) -> list[Node]:
    """Merge the windows of several processes by stage: many ranks run one stage together."""
    windows: dict[str, list[Interval]] = {}
    for span in selected.stages:
        windows.setdefault(span.stage, []).append((span.start_ns, span.end_ns))
    return [
        Node(stage, start, end)
        for stage, intervals in windows.items()
        for start, end in union(intervals)
    ]


def _as_wait(node: Node) -> Node:
    if node.stage != stages.GEN:
        return node
    return Node(stages.TRAINER_WAIT, node.start, node.end, node.parent)


def _in_order(nodes: Sequence[Node], bounds: Interval) -> list[str]:
    """Return the stages that show inside the bounds, in the order steps run them."""
    shown = {
        node.stage
        for node in nodes
        if clip((node.start, node.end), bounds) or bounds[0] <= node.start == node.end <= bounds[1]
    }
    return [stage for stage in stages.STAGES if stage in shown]


def _stage_time(
    stage: str, nodes: Sequence[Node], bounds: Interval, ownership: Ownership
) -> StageTime:
    clipped = [clip((node.start, node.end), bounds) for node in nodes if node.stage == stage]
    windows = union(window for window in clipped if window is not None)
    owned_ns = ownership.owned.get(stage, 0)
    total_ns = bounds[1] - bounds[0]
    return StageTime(
        stage,
        exclusive_s=owned_ns / _NS,
        inclusive_s=length(windows) / _NS,
        share_ratio=owned_ns / total_ns if total_ns else None,
        start_ns=windows[0][0] if windows else None,
        end_ns=windows[-1][1] if windows else None,
        includes=stages.STAGES[stage].includes,
        source="span",
        windows=tuple(windows),
    )


def _outside(
    nodes: Sequence[Node], bounds: Interval, following_start_ns: int | None
) -> tuple[OutsideStage, ...]:
    parts: dict[str, list[Interval]] = {}
    for node in nodes:
        # A last millisecond beyond the loop is how clocks are read.
        before = (node.start, min(node.end, bounds[0]))
        after = (max(node.start, bounds[1]), node.end)
        if following_start_ns is not None and following_start_ns >= bounds[1]:
            after = (after[0], min(after[1], following_start_ns))
        parts.setdefault(node.stage, []).extend(
            part for part in (before, after) if part[1] - part[0] > OVERLAP_NOTE_NS
        )
    found: list[OutsideStage] = []
    for stage in stages.STAGES:
        windows = union(parts.get(stage, ()))
        if windows:
            seconds = length(windows) / _NS
            found.append(OutsideStage(stage, seconds, windows[0][0], windows[-1][1]))
    return tuple(found)


def _overlap_notes(ownership: Ownership, step: int) -> tuple[Note, ...]:
    notes: list[Note] = []
    for (kept, lost), overlap_ns in sorted(ownership.overlaps.items()):
        if overlap_ns <= OVERLAP_NOTE_NS:
            continue
        summary = (
            f"Stages {kept} and {lost} ran at the same time for {overlap_ns / _NS:.3g} s; "
            f"the time counts as {kept}, which ended last."
        )
        notes.append(Note("stage.overlap", "info", summary, lost, step, step))
    return tuple(notes)


def _unknown_notes(selected: LedgerSpans, step: int) -> tuple[Note, ...]:
    names = sorted({span.stage for span in selected.unknown})
    if not names:
        return ()
    shown = ", ".join(f"`{name}`" for name in names[:5]) + (", ..." if len(names) > 5 else "")
    summary = f"Stages of unknown meaning count as unattributed: {shown}."
    return (Note("stage.unknown", "info", summary, names[0], step, step),)
