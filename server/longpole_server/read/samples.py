"""The training samples of a step as columns: many numbers and no object for each sample."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from longpole_server.model.facts import TrajectoryFacts
from longpole_server.model.records import UNKNOWN_STEP
from longpole_server.read.pool import ClientPool, make_columns

# A sample of unknown step belongs to the step whose window holds its end. Columns are named as in
# `TrajectoryFacts`.
_OF_STEP = """
SELECT
    trajectory_id,
    toUnixTimestamp64Nano(sample.start_ns) AS start_ns,
    toUnixTimestamp64Nano(sample.end_ns) AS end_ns,
    (end_ns - start_ns) / 1e9 AS durations_s,
    generate_s,
    tool_s,
    score_s,
    queue_s,
    output_tokens,
    preemptions,
    status AS statuses,
    replica AS replicas,
    paused_s,
    input_tokens,
    turns,
    group_id AS group_ids,
    reward AS rewards,
    policy_version_start AS policy_versions_start,
    policy_version_end AS policy_versions_end
FROM trajectories AS sample FINAL
WHERE run_id = {run_id:String} AND attempt = {attempt:Int64} AND phase = 'train'
  AND (step = {step:Int64} OR (
    step = {unknown:Int64}
    AND sample.end_ns > fromUnixTimestamp64Nano({window_start_ns:Int64})
    AND sample.end_ns <= fromUnixTimestamp64Nano({window_end_ns:Int64})
  ))
ORDER BY sample.start_ns, trajectory_id, span_id
LIMIT {limit:UInt64}
"""
_COLUMNS = tuple(field.name for field in fields(TrajectoryFacts) if field.name != "tools")


@dataclass(frozen=True, slots=True)
class SampleColumns:
    """Samples as columns, by their start; `facts` is None without any."""

    trajectory_ids: Sequence[str] = ()
    facts: TrajectoryFacts | None = None

    @property
    def uses_tools(self) -> bool:
        """Whether any of them spent time in tools."""
        return self.facts is not None and any(self.facts.tool_s)

    def with_tools(self, tools: Mapping[str, str]) -> TrajectoryFacts | None:
        """Return the facts with the tool that each spent most time in, by its id in `tools`."""
        if self.facts is None:
            return None
        return replace(self.facts, tools=[tools.get(name) for name in self.trajectory_ids])


def read_samples(
    pool: ClientPool,
    run_id: str,
    attempt: int,
    step: int,
    *,
    window_ns: tuple[int, int] | None,
    limit: int,
) -> SampleColumns:
    """Return the training samples of a step, at most `limit`, by start.

    Those of unknown step count when they end in `window_ns`; None takes known ones only.
    """
    start_ns, end_ns = window_ns or (0, 0)
    parameters = {
        "run_id": run_id,
        "attempt": attempt,
        "step": step,
        "unknown": UNKNOWN_STEP,
        "window_start_ns": start_ns,
        "window_end_ns": end_ns,
        "limit": limit,
    }
    found = pool.query(_OF_STEP, parameters)
    if not found.num_rows:
        return SampleColumns()
    columns: Mapping[str, Sequence[Any]] = make_columns(found)
    facts = TrajectoryFacts(**{name: columns[name] for name in _COLUMNS})
    return SampleColumns(columns["trajectory_id"], facts)
