"""Trajectories as OTLP spans: one small trace per sample, made off the trainer's threads."""

import os
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

from longpole.conventions import attributes as names
from longpole.otlp import Encoded, encode_attributes
from longpole.values import AttributeValue, to_iteration, to_number

# (kind, name, start_ns, end_ns); kind is `generate`, `tool`, `score` or `queue`.
Part: TypeAlias = tuple[str, str, int, int]

MAX_PARTS = 256
_NS_PER_S = 1_000_000_000
_MAX_TIME_NS = (1 << 64) - 1
_GENERATE, _TOOL, _SCORE, _QUEUE = _KINDS = ("generate", "tool", "score", "queue")
_SPAN_OF_KIND = {_GENERATE: names.SPAN_GENERATE, _SCORE: names.SPAN_SCORE}


class Trajectory(NamedTuple):
    """One sample as the trainer gave it, in the order of `longpole.trajectory`."""

    trajectory_id: object
    start_ns: object
    end_ns: object
    iteration: object
    phase: object
    group_id: object
    generate_s: object
    tool_s: object
    score_s: object
    queue_s: object
    paused_s: object
    input_tokens: object
    output_tokens: object
    turns: object
    preemptions: object
    status: object
    reward: object
    policy_version_start: object
    policy_version_end: object
    replica: object
    request_ids: Sequence[object] = ()
    parts: Sequence[Part] = ()


def weigh_parts(record: tuple[Any, ...]) -> int:
    """Return what a record weighs in its buffer beyond itself: its parts."""
    return len(record[-1])


def encode_trajectories(
    records: Sequence[tuple[object, ...]], resource: Resource, scope: InstrumentationScope
) -> Encoded:
    """Encode trajectories as one OTLP trace request.

    Records and parts without usable times, and parts of an unknown kind, are skipped and counted.
    """
    spans: list[Span] = []
    num_trajectories = num_parts_skipped = 0
    for record in records:
        encoded, num_bad_parts = _try_encode(record)
        spans.extend(encoded)
        num_trajectories += bool(encoded)
        num_parts_skipped += num_bad_parts
    request = ExportTraceServiceRequest(
        resource_spans=[
            ResourceSpans(resource=resource, scope_spans=[ScopeSpans(scope=scope, spans=spans)])
        ]
    )
    num_skipped = len(records) - num_trajectories + num_parts_skipped
    return Encoded(request.SerializeToString(), num_trajectories, num_skipped)


def _try_encode(record: tuple[object, ...]) -> tuple[list[Span], int]:
    """Return spans and the number of parts left out; no spans when the record cannot be sent."""
    try:
        return _encode_trajectory(Trajectory._make(record))
    except Exception:  # noqa: BLE001 - a trainer's objects may raise anything
        return [], 0


def _encode_trajectory(trajectory: Trajectory) -> tuple[list[Span], int]:
    parts = [part for part in map(_read_part, trajectory.parts[:MAX_PARTS]) if part is not None]
    random_bytes = os.urandom(24 + 8 * len(parts))
    trace_id, span_id = random_bytes[:16], random_bytes[16:24]
    root = Span(
        trace_id=trace_id,
        span_id=span_id,
        name=names.SPAN_TRAJECTORY,
        kind=Span.SPAN_KIND_INTERNAL,
        start_time_unix_nano=_to_time(trajectory.start_ns),
        end_time_unix_nano=_to_time(trajectory.end_ns),
        attributes=encode_attributes(_describe(trajectory, parts, trace_id.hex())),
    )
    if trajectory.status == "error":
        root.status.CopyFrom(Status(code=Status.STATUS_CODE_ERROR))
    spans = [root]
    num_generates = 0
    for index, part in enumerate(parts):
        # A turn begins with each `generate` after the first.
        num_generates += part[0] == _GENERATE
        child = _encode_part(part, max(num_generates, 1))
        if child is not None:
            child.trace_id, child.parent_span_id = trace_id, span_id
            child.span_id = random_bytes[24 + 8 * index : 32 + 8 * index]
            spans.append(child)
    return spans, len(trajectory.parts) - len(parts)


def _read_part(part: Part) -> Part | None:
    """Return the part with plain values, or None when it cannot be sent."""
    try:
        kind, name, start_ns, end_ns = part
        known = kind in _KINDS
        return (kind, str(name), _to_time(start_ns), _to_time(end_ns)) if known else None
    except Exception:  # noqa: BLE001 - a trainer's objects may raise anything
        return None


def _describe(
    trajectory: Trajectory, parts: Sequence[Part], default_id: str
) -> dict[str, AttributeValue | None]:
    queue_s = to_number(trajectory.queue_s)
    if queue_s is None:
        queue_s = _sum_queue_s(parts)
    return {
        names.ITERATION: to_iteration(trajectory.iteration),
        names.PHASE: _to_text(trajectory.phase),
        names.TRAJECTORY_ID: _to_text(trajectory.trajectory_id) or default_id,
        names.GROUP_ID: _to_text(trajectory.group_id),
        names.TRAJECTORY_TURNS: to_iteration(trajectory.turns),
        names.TRAJECTORY_PREEMPTIONS: to_iteration(trajectory.preemptions),
        names.TRAJECTORY_STATUS: _to_text(trajectory.status),
        names.TRAJECTORY_GENERATE_SECONDS: _to_seconds(trajectory.generate_s),
        names.TRAJECTORY_TOOL_SECONDS: _to_seconds(trajectory.tool_s),
        names.TRAJECTORY_SCORE_SECONDS: _to_seconds(trajectory.score_s),
        names.TRAJECTORY_QUEUE_SECONDS: _to_seconds(queue_s),
        names.TRAJECTORY_PAUSED_SECONDS: _to_seconds(trajectory.paused_s),
        names.INPUT_TOKENS: to_iteration(trajectory.input_tokens),
        names.OUTPUT_TOKENS: to_iteration(trajectory.output_tokens),
        names.REWARD_VALUE: _to_seconds(trajectory.reward),
        names.POLICY_VERSION_START: to_iteration(trajectory.policy_version_start),
        names.POLICY_VERSION_END: to_iteration(trajectory.policy_version_end),
        names.SERVICE_INSTANCE_ID: _to_text(trajectory.replica),
        names.REQUEST_ID: tuple(map(str, trajectory.request_ids[:MAX_PARTS])) or None,
    }


def _encode_part(part: Part, turn: int) -> Span | None:
    """Return the child span of a part, None for a wait in a queue, which is a sum only."""
    kind, name, start_ns, end_ns = part
    if kind == _QUEUE:
        return None
    attributes: dict[str, AttributeValue | None] = {names.TURN: turn}
    if kind == _TOOL:
        attributes[names.TOOL_NAME] = name
    return Span(
        name=f"{names.SPAN_TOOL_PREFIX} {name}" if kind == _TOOL else _SPAN_OF_KIND[kind],
        kind=Span.SPAN_KIND_INTERNAL,
        start_time_unix_nano=start_ns,
        end_time_unix_nano=end_ns,
        attributes=encode_attributes(attributes),
    )


def _sum_queue_s(parts: Sequence[Part]) -> float | None:
    waits_ns = [end_ns - start_ns for kind, _, start_ns, end_ns in parts if kind == _QUEUE]
    return sum(waits_ns) / _NS_PER_S if waits_ns else None


def _to_time(value: object) -> int:
    time_ns = to_iteration(value)
    if time_ns is None or not 0 <= time_ns <= _MAX_TIME_NS:
        raise ValueError("a time is whole nanoseconds since 1970")
    return time_ns


def _to_seconds(value: object) -> float | None:
    number = to_number(value)
    return None if number is None else float(number)


def _to_text(value: object) -> str | None:
    return None if value is None or value == "" else str(value)
