"""Runs as stored: attempts, processes, and the windows they announced."""

from collections.abc import Sequence
from dataclasses import dataclass

from longpole_server.model.records import ProcessSeen, RunEnd, RunStart, StageStart
from longpole_server.read.pool import ClientPool, make_rows

_STARTS = """
SELECT * FROM run_starts FINAL
WHERE {run_id:Nullable(String)} IS NULL OR run_id = {run_id:Nullable(String)}
ORDER BY run_id, attempt
"""
# What tells whose a run is. Runs that collided with an id have a `#` and a number behind it.
_CLAIMS = """
SELECT run_id, attempt, started_ns, project, host, pid, process_start_ns, notes
FROM run_starts FINAL
WHERE run_id = {run_id:String} OR startsWith(run_id, {prefix:String})
ORDER BY run_id, attempt
"""
_ENDS = """
SELECT * FROM run_ends FINAL
WHERE {run_id:Nullable(String)} IS NULL OR run_id = {run_id:Nullable(String)}
"""
_ACTIVITY = """
SELECT run_id, attempt, max(last_seen_ns) FROM run_activity
WHERE {run_id:Nullable(String)} IS NULL OR run_id = {run_id:Nullable(String)}
GROUP BY run_id, attempt
"""
_PROCESSES = """
SELECT * FROM processes FINAL WHERE run_id = {run_id:String}
ORDER BY attempt, host, pid, role, instance
"""
_STAGE_STARTS = """
SELECT * FROM stage_starts FINAL
WHERE run_id = {run_id:String} AND attempt = {attempt:Int64}
  AND seen_ns >= fromUnixTimestamp64Nano({since_ns:Int64})
ORDER BY start_ns, stage, host, pid
"""


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """One attempt of a run as stored, with what its data says about its extent.

    Attributes:
        last_seen_ns: Newest time in any of its facts; may lag a second behind while it runs.
    """

    start: RunStart
    end: RunEnd | None
    last_seen_ns: int


def list_claims(pool: ClientPool, run_id: str) -> Sequence[RunStart]:
    """Return the starts of a run, and of those whose ids are its own with `#` and more behind.

    By run and attempt, with project, leader and notes alone: a look at whose they are is cheap.
    """
    parameters = {"run_id": run_id, "prefix": f"{run_id}#"}
    return [
        RunStart(
            run, attempt, started_ns, project=project, host=host, pid=pid,
            process_start_ns=process_start_ns, notes=notes,
        )
        for run, attempt, started_ns, project, host, pid, process_start_ns, notes in make_rows(
            pool.query(_CLAIMS, parameters)
        )
    ]  # fmt: skip


def list_attempts(pool: ClientPool, run_id: str | None) -> Sequence[AttemptRow]:
    """Return all attempts of one or all runs, by run and attempt."""
    parameters = {"run_id": run_id}
    starts = pool.select(RunStart, _STARTS, parameters)
    ends = {(end.run_id, end.attempt): end for end in pool.select(RunEnd, _ENDS, parameters)}
    seen = {
        (run, attempt): seen_ns
        for run, attempt, seen_ns in make_rows(pool.query(_ACTIVITY, parameters))
    }
    return [
        AttemptRow(
            start,
            end=ends.get((start.run_id, start.attempt)),
            last_seen_ns=seen.get((start.run_id, start.attempt), start.started_ns),
        )
        for start in starts
    ]


def list_processes(pool: ClientPool, run_id: str) -> Sequence[ProcessSeen]:
    """Return the processes of a run, newest sighting of each."""
    return pool.select(ProcessSeen, _PROCESSES, {"run_id": run_id})


def list_stage_starts(
    pool: ClientPool, run_id: str, attempt: int, since_ns: int
) -> Sequence[StageStart]:
    """Return announced windows whose newest heartbeat is not older than a time."""
    parameters = {"run_id": run_id, "attempt": attempt, "since_ns": since_ns}
    return pool.select(StageStart, _STAGE_STARTS, parameters)
