"""Samples of a step, and where one sample's time went."""

from collections.abc import Mapping, Sequence
from dataclasses import fields

from longpole_server.model.records import UNKNOWN_STEP
from longpole_server.model.trajectory import Trajectory, TrajectoryPart
from longpole_server.read.pool import ClientPool, make_records, make_rows

# A sample of unknown step belongs to the step whose window holds its end.
_OF_STEP = """
SELECT
    * EXCEPT step,
    {step:Int64} AS step,
    toUnixTimestamp64Nano(end_ns) - toUnixTimestamp64Nano(start_ns) AS duration_ns,
    duration_ns / 1e9 AS duration_s
FROM trajectories FINAL
WHERE run_id = {run_id:String} AND attempt = {attempt:Int64}
  AND (trajectories.step = {step:Int64} OR (
    trajectories.step = {unknown:Int64}
    AND end_ns > fromUnixTimestamp64Nano({window_start_ns:Int64})
    AND end_ns <= fromUnixTimestamp64Nano({window_end_ns:Int64})
  ))
  AND ({phase:Nullable(String)} IS NULL OR phase = {phase:Nullable(String)})
ORDER BY
    multiIf(
        {order:String} = '-duration', -duration_ns,
        {order:String} = 'duration', duration_ns,
        {order:String} = '-output_tokens', -output_tokens,
        {order:String} = 'output_tokens', output_tokens,
        toUnixTimestamp64Nano(start_ns)
    ) ASC NULLS LAST,
    start_ns, trajectory_id, span_id
LIMIT {limit:UInt64} OFFSET {offset:UInt64}
"""
_ANY = """
SELECT 1 FROM trajectories WHERE run_id = {run_id:String} AND attempt = {attempt:Int64} LIMIT 1
"""
_ONE = """
SELECT
    *,
    (toUnixTimestamp64Nano(end_ns) - toUnixTimestamp64Nano(start_ns)) / 1e9 AS duration_s
FROM trajectories FINAL
WHERE run_id = {run_id:String} AND trajectory_id = {trajectory_id:String}
ORDER BY attempt DESC, step DESC, end_ns DESC
LIMIT 1
"""
_GROUP = """
SELECT
    *,
    (toUnixTimestamp64Nano(end_ns) - toUnixTimestamp64Nano(start_ns)) / 1e9 AS duration_s
FROM trajectories FINAL
WHERE run_id = {run_id:String} AND attempt = {attempt:Int64} AND step = {step:Int64}
  AND group_id = {group_id:String}
ORDER BY start_ns, trajectory_id, span_id
"""
# Of each sample of a step that used tools, the one that it spent most time in.
_MAIN_TOOLS = """
SELECT trajectory_id, argMax(name, seconds) AS tool
FROM (
    SELECT
        trajectory_id, name,
        sum(toUnixTimestamp64Nano(end_ns) - toUnixTimestamp64Nano(start_ns)) AS seconds
    FROM trajectory_spans FINAL
    WHERE run_id = {run_id:String} AND attempt = {attempt:Int64} AND kind = 'tool'
      AND trajectory_id IN (
        SELECT trajectory_id FROM trajectories
        WHERE run_id = {run_id:String} AND attempt = {attempt:Int64}
          AND (step = {step:Int64} OR step = {unknown:Int64})
      )
    GROUP BY trajectory_id, name
)
GROUP BY trajectory_id
"""
_PARTS = """
SELECT * FROM trajectory_spans FINAL
WHERE run_id = {run_id:String} AND trajectory_id = {trajectory_id:String}
  AND attempt = (
    SELECT max(attempt) FROM trajectory_spans
    WHERE run_id = {run_id:String} AND trajectory_id = {trajectory_id:String}
  )
ORDER BY start_ns, end_ns, span_id
"""
_PARTS_OF = """
SELECT * FROM trajectory_spans FINAL
WHERE run_id = {run_id:String} AND attempt = {attempt:Int64}
  AND trajectory_id IN {trajectory_ids:Array(String)}
ORDER BY trajectory_id, start_ns, end_ns, span_id
"""


def has_any(pool: ClientPool, run_id: str, attempt: int) -> bool:
    """Tell whether an attempt has samples at all. Cheap."""
    return bool(pool.query(_ANY, {"run_id": run_id, "attempt": attempt}).num_rows)


def list_trajectories(
    pool: ClientPool,
    run_id: str,
    attempt: int,
    step: int,
    *,
    window_ns: tuple[int, int] | None,
    phase: str | None,
    order: str,
    limit: int,
    offset: int,
) -> Sequence[Trajectory]:
    """Return samples of a step; those of unknown step count when they end in `window_ns`.

    Args:
        pool: Where to ask.
        run_id: The run.
        attempt: Its attempt.
        step: The step.
        window_ns: Start (excluded) and end (included) of the step; None takes known ones only.
        phase: `train`, `validation`, or None for all.
        order: `-duration`, `duration`, `-output_tokens`, `output_tokens`; else by start.
        limit: At most so many.
        offset: Leave out so many first.
    """
    start_ns, end_ns = window_ns or (0, 0)
    parameters = {
        "run_id": run_id,
        "attempt": attempt,
        "step": step,
        "unknown": UNKNOWN_STEP,
        "window_start_ns": start_ns,
        "window_end_ns": end_ns,
        "phase": phase,
        "order": order,
        "limit": limit,
        "offset": offset,
    }
    return pool.select(Trajectory, _OF_STEP, parameters)


def find_trajectory(pool: ClientPool, run_id: str, trajectory_id: str) -> Trajectory | None:
    """Return one sample of the latest attempt that has it, or None."""
    parameters = {"run_id": run_id, "trajectory_id": trajectory_id}
    return next(iter(pool.select(Trajectory, _ONE, parameters)), None)


def list_parts(pool: ClientPool, run_id: str, trajectory_id: str) -> Sequence[TrajectoryPart]:
    """Return where a sample's time went, in order of time."""
    parameters = {"run_id": run_id, "trajectory_id": trajectory_id}
    return pool.select(TrajectoryPart, _PARTS, parameters)


def list_parts_of(
    pool: ClientPool, run_id: str, attempt: int, trajectory_ids: Sequence[str]
) -> Mapping[str, Sequence[TrajectoryPart]]:
    """Return where the time of several samples of one attempt went, by sample."""
    found: dict[str, list[TrajectoryPart]] = {name: [] for name in trajectory_ids}
    parameters = {"run_id": run_id, "attempt": attempt, "trajectory_ids": list(trajectory_ids)}
    names = [field.name for field in fields(TrajectoryPart)]
    for row in make_records(pool.query(_PARTS_OF, parameters)):
        part = TrajectoryPart(**{name: row[name] for name in names})
        found[row["trajectory_id"]].append(part)
    return found


def list_main_tools(pool: ClientPool, run_id: str, attempt: int, step: int) -> Mapping[str, str]:
    """Return the tool that each sample of a step, or of no known one, spent most time in."""
    parameters = {"run_id": run_id, "attempt": attempt, "step": step, "unknown": UNKNOWN_STEP}
    return dict(make_rows(pool.query(_MAIN_TOOLS, parameters)))


def list_group(
    pool: ClientPool, run_id: str, attempt: int, step: int, group_id: str
) -> Sequence[Trajectory]:
    """Return the samples of one prompt's group in one step."""
    parameters = {"run_id": run_id, "attempt": attempt, "step": step, "group_id": group_id}
    return pool.select(Trajectory, _GROUP, parameters)
