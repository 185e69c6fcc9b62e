"""Trajectories, and where their time went: from sums they carry, or from their children."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from longpole.conventions import attributes as names
from longpole_server.ingest.normalize.attempts import Attempt
from longpole_server.ingest.normalize.attributes import Values, get_float, get_int, get_text
from longpole_server.ingest.normalize.sender import Sender
from longpole_server.ingest.normalize.spans import SpanFact, get_iteration, name_part_kind
from longpole_server.model.records import (
    UNKNOWN_STEP,
    Records,
    TrajectoryRecord,
    TrajectorySpan,
)

ROLLOUT = "rollout"
_VALIDATION_WORDS = frozenset({"validation", "validate", "val", "eval", "evaluation", "test"})
MAX_ANCESTORS = 16
_NS_PER_S = 1e9


class PlacedFact(NamedTuple):
    """A span with the attempt it belongs to and who sent it."""

    fact: SpanFact
    attempt: Attempt
    sender: Sender


def join_trajectories(
    trajectories: Sequence[PlacedFact],
    parts: Sequence[PlacedFact],
    parents: Mapping[str, str],
    into: Records,
) -> None:
    """Add the trajectories of one request with their children.

    Args:
        trajectories: The `rl.trajectory` spans.
        parts: Spans that may be children of one, at any depth.
        parents: Parent span id by span id, of all spans of the request.
        into: Where the records go. A part that is nobody's child and names no trajectory stays in
            the raw spans alone.
    """
    parts_of: dict[str, list[SpanFact]] = {}
    owners = _Owners(trajectories, parents)
    for part in parts:
        owner = owners.find(part.fact)
        if owner is not None:
            parts_of.setdefault(owner.fact.raw.span_id, []).append(part.fact)
            trajectory_id = _get_id(owner.fact)
            into.trajectory_spans.append(_make_part(part.fact, owner.attempt, trajectory_id))
            continue
        trajectory_id = get_text(part.fact.values, names.TRAJECTORY_ID)
        if trajectory_id is not None:
            into.trajectory_spans.append(_make_part(part.fact, part.attempt, trajectory_id))
    for trajectory in trajectories:
        children = parts_of.get(trajectory.fact.raw.span_id, ())
        into.trajectories.append(_make_trajectory(trajectory, children))


class _Owners:
    """Finds the trajectory a part belongs to: an ancestor, or the only one of its trace."""

    def __init__(self, trajectories: Sequence[PlacedFact], parents: Mapping[str, str]) -> None:
        self._parents = parents
        self._by_span = {placed.fact.raw.span_id: placed for placed in trajectories}
        self._by_trace: dict[str, list[PlacedFact]] = {}
        for placed in trajectories:
            self._by_trace.setdefault(placed.fact.raw.trace_id, []).append(placed)

    def find(self, part: SpanFact) -> PlacedFact | None:
        of_trace = self._by_trace.get(part.raw.trace_id, ())
        if len(of_trace) <= 1:
            return of_trace[0] if of_trace else None
        span_id = part.raw.parent_span_id
        for _ in range(MAX_ANCESTORS):
            owner = self._by_span.get(span_id)
            if owner is not None:
                return owner
            span_id = self._parents.get(span_id, "")
        return None


def measure_union_s(windows: Iterable[tuple[int, int]]) -> float:
    """Return the seconds that at least one window (start and end in ns) covers."""
    total_ns = 0
    covered_ns = 0
    for start_ns, end_ns in sorted(windows):
        total_ns += max(0, end_ns - max(start_ns, covered_ns))
        covered_ns = max(covered_ns, end_ns)
    return total_ns / _NS_PER_S


def _make_trajectory(placed: PlacedFact, parts: Sequence[SpanFact]) -> TrajectoryRecord:
    fact, attempt, sender = placed
    raw, values = fact.raw, fact.values
    iteration = get_iteration(values)
    return TrajectoryRecord(
        run_id=attempt.run_id,
        attempt=attempt.number,
        step=UNKNOWN_STEP if iteration is None else iteration,
        trajectory_id=_get_id(fact),
        start_ns=raw.ts_ns,
        end_ns=fact.end_ns,
        phase=name_phase(get_text(values, names.PHASE)),
        group_id=get_text(values, names.GROUP_ID),
        generate_s=_sum_kind("generate", names.TRAJECTORY_GENERATE_SECONDS, values, parts),
        tool_s=_sum_kind("tool", names.TRAJECTORY_TOOL_SECONDS, values, parts),
        score_s=_sum_kind("score", names.TRAJECTORY_SCORE_SECONDS, values, parts),
        queue_s=_sum_kind("queue", names.TRAJECTORY_QUEUE_SECONDS, values, parts),
        paused_s=get_float(values, names.TRAJECTORY_PAUSED_SECONDS),
        input_tokens=get_int(values, names.INPUT_TOKENS),
        output_tokens=get_int(values, names.OUTPUT_TOKENS),
        turns=get_int(values, names.TRAJECTORY_TURNS),
        preemptions=_get_preemptions(values),
        status=get_text(values, names.TRAJECTORY_STATUS),
        reward=get_float(values, names.REWARD_VALUE),
        policy_version_start=get_int(values, names.POLICY_VERSION_START),
        policy_version_end=get_int(values, names.POLICY_VERSION_END),
        replica=_get_replica(values, sender),
        host=sender.host or None,
        trace_id=raw.trace_id,
        span_id=raw.span_id,
    )


def _make_part(fact: SpanFact, attempt: Attempt, trajectory_id: str) -> TrajectorySpan:
    raw, values = fact.raw, fact.values
    tool = get_text(values, names.TOOL_NAME)
    kind = name_part_kind(raw.name) or ""
    return TrajectorySpan(
        run_id=attempt.run_id,
        attempt=attempt.number,
        trajectory_id=trajectory_id,
        kind=kind,
        name=tool if kind == "tool" and tool is not None else raw.name,
        start_ns=raw.ts_ns,
        end_ns=fact.end_ns,
        span_id=raw.span_id,
        turn=get_int(values, names.TURN),
        input_tokens=get_int(values, names.INPUT_TOKENS),
        output_tokens=get_int(values, names.OUTPUT_TOKENS),
    )


def _get_id(fact: SpanFact) -> str:
    return get_text(fact.values, names.TRAJECTORY_ID) or fact.raw.span_id


def name_phase(sent: str | None) -> str:
    """Return the canonical name of a phase as sent."""
    phase = (sent or names.PHASES[0]).lower()
    return "validation" if phase in _VALIDATION_WORDS else phase


def _sum_kind(kind: str, attribute: str, values: Values, parts: Sequence[SpanFact]) -> float | None:
    """Return the seconds of a kind: the sum sent, else what the children cover together."""
    seconds = get_float(values, attribute)
    if seconds is not None:
        return seconds
    windows = [
        (part.raw.ts_ns, part.end_ns) for part in parts if name_part_kind(part.raw.name) == kind
    ]
    return measure_union_s(windows) if windows else None


def _get_preemptions(values: Values) -> int | None:
    preemptions = get_int(values, names.TRAJECTORY_PREEMPTIONS)
    # Engines that do not count them say -1.
    return None if preemptions is None or preemptions < 0 else preemptions


def _get_replica(values: Values, sender: Sender) -> str | None:
    replica = get_text(values, names.SERVICE_INSTANCE_ID)
    if replica is None and sender.role == ROLLOUT:
        return sender.instance
    return replica
