"""Trajectories and their parts as rows: the same as `normalize.trajectories` makes of each."""
# pyarrow carries no complete types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from longpole.conventions import attributes as names
from longpole_server.ingest.columns.meaning import PART, TRAJECTORY, Meaning
from longpole_server.ingest.columns.owners import find_owners
from longpole_server.ingest.columns.spans import SpanColumns
from longpole_server.ingest.columns.texts import Column, pick, take, to_column
from longpole_server.ingest.columns.unions import measure_unions_s
from longpole_server.ingest.columns.wire import Ints
from longpole_server.ingest.normalize.attempts import Attempt
from longpole_server.ingest.normalize.sender import Sender
from longpole_server.ingest.normalize.spans import name_part_kind
from longpole_server.ingest.normalize.trajectories import ROLLOUT, name_phase
from longpole_server.model.records import UNKNOWN_STEP, RowBlock
from longpole_server.store.columns import TIME
from longpole_server.store.tables import TABLES

_SUMS = {
    "generate": names.TRAJECTORY_GENERATE_SECONDS,
    "tool": names.TRAJECTORY_TOOL_SECONDS,
    "score": names.TRAJECTORY_SCORE_SECONDS,
    "queue": names.TRAJECTORY_QUEUE_SECONDS,
}
_INTS = {
    "input_tokens": names.INPUT_TOKENS,
    "output_tokens": names.OUTPUT_TOKENS,
    "turns": names.TRAJECTORY_TURNS,
    "policy_version_start": names.POLICY_VERSION_START,
    "policy_version_end": names.POLICY_VERSION_END,
}


@dataclass(frozen=True, slots=True)
class Samples:
    """Rows that lack only the run and attempt they belong to.

    Attributes:
        trajectories, parts: Columns by name.
        trajectory_groups, part_groups: Number of the group whose attempt each row belongs to.
        steps: Of the trajectories, `UNKNOWN_STEP` where none is named.
    """

    trajectories: Mapping[str, Any]
    trajectory_groups: Ints
    steps: Ints
    trajectory_end_ns: Ints
    parts: Mapping[str, Any]
    part_groups: Ints
    part_end_ns: Ints

    def make_blocks(self, attempts: Sequence[Attempt | None]) -> Sequence[RowBlock]:
        """Return the rows. `attempts` are those of the groups; None where nobody asks."""
        blocks: list[RowBlock] = []
        if len(self.trajectory_groups):
            blocks.append(
                RowBlock(
                    "trajectories",
                    _finish("trajectories", self.trajectories, attempts, self.trajectory_groups),
                    len(self.trajectory_groups),
                    _find_newest(self.trajectory_end_ns, self.trajectory_groups, attempts),
                    self._list_steps(attempts),
                    self._list_loose_ends(attempts),
                )
            )
        if len(self.part_groups):
            blocks.append(
                RowBlock(
                    "trajectory_spans",
                    _finish("trajectory_spans", self.parts, attempts, self.part_groups),
                    len(self.part_groups),
                    _find_newest(self.part_end_ns, self.part_groups, attempts),
                )
            )
        return blocks

    def _list_steps(self, attempts: Sequence[Attempt | None]) -> frozenset[tuple[str, int, int]]:
        known = self.steps >= 0
        pairs = {
            *zip(self.trajectory_groups[known].tolist(), self.steps[known].tolist(), strict=True)
        }
        return frozenset((*_key(attempts[group]), step) for group, step in pairs)

    def _list_loose_ends(
        self, attempts: Sequence[Attempt | None]
    ) -> dict[tuple[str, int], Sequence[int]]:
        ends_ns: dict[tuple[str, int], list[int]] = {}
        for row in np.flatnonzero(self.steps < 0).tolist():
            key = _key(attempts[int(self.trajectory_groups[row])])
            ends_ns.setdefault(key, []).append(int(self.trajectory_end_ns[row]))
        return {**ends_ns}


_NOTHING: Ints = np.zeros(0, np.int64)
_NO_SAMPLES = Samples({}, _NOTHING, _NOTHING, _NOTHING, {}, _NOTHING, _NOTHING)


def read_samples(
    spans: SpanColumns, meaning: Meaning, senders: Sequence[Sender], is_used: "np.ndarray[Any, Any]"
) -> Samples:
    """Read trajectories and parts.

    Args:
        spans: All spans of the requests.
        meaning: What they are.
        senders: Of the groups.
        is_used: Whether a group's spans count (those of agents do not).
    """
    of_group = is_used[spans.group_numbers] if len(spans) else np.zeros(0, np.bool_)
    found = meaning.find(TRAJECTORY)
    roots = found[of_group[found]]
    found = meaning.find(PART)
    children = found[of_group[found]]
    if not len(roots) and not len(children):
        return _NO_SAMPLES
    owners = find_owners(spans, roots, children)
    attributes = spans.attributes
    ids = attributes.read_texts(names.TRAJECTORY_ID)
    root_ids = pc.coalesce(take(ids, roots), take(spans.span_ids, roots))
    part_ids = pc.coalesce(
        take(root_ids, np.maximum(owners, 0), owners >= 0)
        if len(roots)
        else pa.nulls(len(children), pa.string()),
        take(ids, children),
    )
    kept = np.flatnonzero(pc.is_valid(part_ids).to_numpy(zero_copy_only=False))
    part_kinds = np.array([name_part_kind(name) or "" for name in spans.names] or [""], object)
    kinds_of_children = part_kinds[spans.name_codes[children]]
    steps = take(meaning.steps, roots).fill_null(UNKNOWN_STEP)
    trajectories = _read_trajectories(spans, roots, senders)
    for kind, key in _SUMS.items():
        chosen = np.flatnonzero((kinds_of_children == kind) & (owners >= 0))
        unions = measure_unions_s(
            owners[chosen],
            spans.start_ns[children[chosen]],
            spans.end_ns[children[chosen]],
            len(roots),
        )
        sums = take(attributes.read_floats(key), roots)
        trajectories[f"{kind}_s"] = pc.coalesce(sums, unions)
    part_groups = spans.group_numbers[children]
    owned = owners >= 0
    part_groups[owned] = spans.group_numbers[roots[owners[owned]]]
    parts = _read_parts(spans, children[kept], kinds_of_children[kept])
    return Samples(
        {**trajectories, "step": steps, "trajectory_id": root_ids},
        spans.group_numbers[roots],
        steps.to_numpy(zero_copy_only=False),
        spans.end_ns[roots],
        {**parts, "trajectory_id": take(part_ids, kept)},
        part_groups[kept],
        spans.end_ns[children[kept]],
    )


def _read_trajectories(spans: SpanColumns, rows: Ints, senders: Sequence[Sender]) -> dict[str, Any]:
    attributes = spans.attributes
    groups = spans.group_numbers[rows]

    def texts(key: str) -> Column:
        return take(attributes.read_texts(key), rows)

    preemptions = take(attributes.read_ints(names.TRAJECTORY_PREEMPTIONS), rows)
    # Engines that do not count them say -1.
    counted: Column = pc.greater_equal(preemptions, pa.scalar(0))
    instances = [sender.instance if sender.role == ROLLOUT else None for sender in senders]
    return {
        "start_ns": _take_times(spans.start_ns, rows),
        "end_ns": _take_times(spans.end_ns, rows),
        "phase": _name_phases(texts(names.PHASE)),
        "group_id": texts(names.GROUP_ID),
        "paused_s": take(attributes.read_floats(names.TRAJECTORY_PAUSED_SECONDS), rows),
        **{name: take(attributes.read_ints(key), rows) for name, key in _INTS.items()},
        "preemptions": pc.if_else(counted, preemptions, pa.scalar(None, pa.int64())),
        "status": texts(names.TRAJECTORY_STATUS),
        "reward": take(attributes.read_floats(names.REWARD_VALUE), rows),
        "replica": pc.coalesce(texts(names.SERVICE_INSTANCE_ID), pick(instances, groups)),
        "host": pick([sender.host or None for sender in senders], groups),
        "trace_id": take(spans.trace_ids, rows),
        "span_id": take(spans.span_ids, rows),
    }


def _read_parts(spans: SpanColumns, rows: Ints, kinds: "np.ndarray[Any, Any]") -> dict[str, Any]:
    attributes = spans.attributes
    tools = take(attributes.read_texts(names.TOOL_NAME), rows)
    span_names = pick(spans.names, spans.name_codes[rows])
    is_tool = pa.array(kinds == "tool")
    return {
        "kind": pa.array(kinds, pa.string()),
        "name": pc.if_else(is_tool, pc.coalesce(tools, span_names), span_names),
        "start_ns": _take_times(spans.start_ns, rows),
        "end_ns": _take_times(spans.end_ns, rows),
        "span_id": take(spans.span_ids, rows),
        "turn": take(attributes.read_ints(names.TURN), rows),
        "input_tokens": take(attributes.read_ints(names.INPUT_TOKENS), rows),
        "output_tokens": take(attributes.read_ints(names.OUTPUT_TOKENS), rows),
    }


def _name_phases(sent: Column) -> Column:
    encoded = sent.dictionary_encode()
    named: Column = pa.array(
        [name_phase(text) for text in encoded.dictionary.to_pylist()], pa.string()
    )
    return named.take(encoded.indices).fill_null(name_phase(None))


def _take_times(times_ns: Ints, rows: Ints) -> Column:
    return to_column(times_ns[rows]).view(TIME)


def _finish(
    kind: str, columns: Mapping[str, Any], attempts: Sequence[Attempt | None], groups: Ints
) -> pa.Table:
    run_ids = [None if attempt is None else attempt.run_id for attempt in attempts]
    numbers = np.array([0 if attempt is None else attempt.number for attempt in attempts], np.int64)
    owned = {"run_id": pick(run_ids, groups), "attempt": to_column(numbers[groups])}
    schema = TABLES[kind].schema
    return pa.table({name: {**columns, **owned}[name] for name in schema.names}, schema=schema)


def _find_newest(
    end_ns: Ints, groups: Ints, attempts: Sequence[Attempt | None]
) -> dict[tuple[str, int], int]:
    latest_ns = np.full(len(attempts), -1, np.int64)
    np.maximum.at(latest_ns, groups, end_ns)
    newest: dict[tuple[str, int], int] = {}
    for group in np.unique(groups).tolist():
        key = _key(attempts[group])
        newest[key] = max(int(latest_ns[group]), newest.get(key, 0))
    return newest


def _key(attempt: Attempt | None) -> tuple[str, int]:
    assert attempt is not None  # noqa: S101 - a group with samples was given its attempt
    return attempt.run_id, attempt.number
