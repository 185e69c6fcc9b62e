"""Steps, and the windows they are made of.

A step recorded under several attempts counts once, as its latest attempt has it. What an earlier
attempt did beyond the point of resume stays until a later attempt has done it again.
"""

from collections.abc import Mapping, Sequence

from longpole_server.model.records import StageSpan
from longpole_server.model.step import Step
from longpole_server.read.pool import ClientPool, make_records, make_rows
from longpole_server.read.step_memory import Edition, StepMemory
from longpole_server.store.steps import read_step

_EDITIONS = """
SELECT attempt, step, toInt64(version) FROM steps FINAL
WHERE run_id = {run_id:String} AND step BETWEEN {first:Int64} AND {last:Int64}
ORDER BY step, attempt DESC
LIMIT 1 BY step
"""
_RANGE = """
SELECT * EXCEPT (version, diagnosis) FROM steps FINAL
WHERE run_id = {run_id:String} AND step BETWEEN {first:Int64} AND {last:Int64}
ORDER BY step, attempt DESC
LIMIT 1 BY step
"""
# The wide columns are read for the chosen steps only.
_LAST = """
SELECT * EXCEPT (version, diagnosis) FROM steps FINAL
WHERE run_id = {run_id:String} AND (attempt, step) IN (
    SELECT attempt, step FROM (
        SELECT attempt, step, closed_by FROM steps FINAL
        WHERE run_id = {run_id:String}
        ORDER BY step, attempt DESC
        LIMIT 1 BY step
    )
    WHERE closed_by IS NOT NULL
    ORDER BY step DESC
    LIMIT {count:UInt64}
)
ORDER BY step
"""
_AT = """
SELECT * EXCEPT (version, diagnosis) FROM steps FINAL
WHERE run_id = {run_id:String} AND (attempt, step) IN {steps:Array(Tuple(Int64, Int64))}
ORDER BY step, attempt
"""
_NUMBERS = """
SELECT step, attempt, closed_by IS NOT NULL FROM steps FINAL
WHERE run_id = {run_id:String}
ORDER BY step, attempt DESC
LIMIT 1 BY step
"""
_NEIGHBOURS = """
SELECT
    maxOrNullIf(step, step < {step:Int64}),
    minOrNullIf(step, step > {step:Int64})
FROM steps
WHERE run_id = {run_id:String}
"""
_VERDICTS = """
SELECT step, verdict FROM steps FINAL
WHERE run_id = {run_id:String}
ORDER BY step, attempt DESC
LIMIT 1 BY step
"""
_NEWEST_VERSION = "SELECT toInt64(max(version)) FROM steps"
_DIAGNOSIS = """
SELECT diagnosis FROM steps FINAL
WHERE run_id = {run_id:String} AND attempt = {attempt:Int64} AND step = {step:Int64}
"""
_SPANS = """
SELECT * FROM stage_spans FINAL
WHERE run_id = {run_id:String} AND attempt = {attempt:Int64} AND step = {step:Int64}
ORDER BY start_ns, end_ns, span_id
"""
_SPANS_OF_MANY = """
SELECT * FROM stage_spans FINAL
WHERE run_id = {run_id:String} AND (attempt, step) IN {steps:Array(Tuple(Int64, Int64))}
ORDER BY start_ns, end_ns, span_id
"""
_RECORDED = """
SELECT DISTINCT step FROM (
    SELECT step FROM stage_spans WHERE run_id = {run_id:String} AND attempt = {attempt:Int64}
    UNION ALL
    SELECT step FROM metric_points WHERE run_id = {run_id:String} AND attempt = {attempt:Int64}
)
WHERE step >= 0
ORDER BY step
"""
_FIRST, _LAST_POSSIBLE = -(1 << 63), (1 << 63) - 1


def list_steps(
    pool: ClientPool, memory: StepMemory, run_id: str, first: int | None, last: int | None
) -> Sequence[Step]:
    """Return the steps of an inclusive range, in order; None is open."""
    parameters = {
        "run_id": run_id,
        "first": _FIRST if first is None else first,
        "last": _LAST_POSSIBLE if last is None else last,
    }

    def read(missing: Sequence[Edition]) -> Mapping[Edition, Step]:
        # A step that was written anew since is remembered under its earlier edition: it is read
        # once more the next time, and not left out now.
        wanted = {number: (attempt, number, edition) for attempt, number, edition in missing}
        span = {"run_id": run_id, "first": min(wanted), "last": max(wanted)}
        rows = make_records(pool.query(_RANGE, span))
        return {wanted[row["step"]]: read_step(row) for row in rows if row["step"] in wanted}

    editions = make_rows(pool.query(_EDITIONS, parameters))
    return memory.recall(run_id, editions, read)


def list_last_steps(pool: ClientPool, run_id: str, count: int) -> Sequence[Step]:
    """Return the last `count` closed steps, in order."""
    table = pool.query(_LAST, {"run_id": run_id, "count": count})
    return [read_step(row) for row in make_records(table)]


def list_steps_at(
    pool: ClientPool, run_id: str, steps: Sequence[tuple[int, int]]
) -> Sequence[Step]:
    """Return the steps of (attempt, step) pairs, as far as they are there, by number."""
    if not steps:
        return []
    table = pool.query(_AT, {"run_id": run_id, "steps": list(steps)})
    return [read_step(row) for row in make_records(table)]


def list_step_numbers(pool: ClientPool, run_id: str) -> Sequence[tuple[int, int, bool]]:
    """Return (step, attempt, closed) of every step, in order."""
    rows = make_rows(pool.query(_NUMBERS, {"run_id": run_id}))
    return [(step, attempt, bool(closed)) for step, attempt, closed in rows]


def find_neighbours(pool: ClientPool, run_id: str, step: int) -> tuple[int | None, int | None]:
    """Return the numbers of the steps before and after one, None where there is none."""
    ((before, after),) = make_rows(pool.query(_NEIGHBOURS, {"run_id": run_id, "step": step}))
    return before, after


def list_step_verdicts(pool: ClientPool, run_id: str) -> Sequence[tuple[int, str | None]]:
    """Return (step, verdict) of every step, in order."""
    rows = make_rows(pool.query(_VERDICTS, {"run_id": run_id}))
    return [(step, verdict or None) for step, verdict in rows]


def get_newest_version(pool: ClientPool) -> int:
    """Return the highest version of any derived step, 0 without one."""
    return int(make_rows(pool.query(_NEWEST_VERSION))[0][0])


def get_diagnosis(pool: ClientPool, run_id: str, attempt: int, step: int) -> str:
    """Return the diagnosis that was stored with a step, "" when there is none."""
    parameters = {"run_id": run_id, "attempt": attempt, "step": step}
    rows = make_rows(pool.query(_DIAGNOSIS, parameters))
    return str(rows[0][0]) if rows else ""


def list_stage_spans(pool: ClientPool, run_id: str, attempt: int, step: int) -> Sequence[StageSpan]:
    """Return every window of a step, of all processes, once each, by start."""
    parameters = {"run_id": run_id, "attempt": attempt, "step": step}
    return pool.select(StageSpan, _SPANS, parameters)


def list_stage_spans_of(
    pool: ClientPool, run_id: str, steps: Sequence[tuple[int, int]]
) -> Mapping[tuple[int, int], Sequence[StageSpan]]:
    """Return the windows of many (attempt, step) pairs; a pair without any has none."""
    found: dict[tuple[int, int], list[StageSpan]] = {step: [] for step in steps}
    if found:
        parameters = {"run_id": run_id, "steps": list(found)}
        for span in pool.select(StageSpan, _SPANS_OF_MANY, parameters):
            found[span.attempt, span.step].append(span)
    return found


def list_recorded_steps(pool: ClientPool, run_id: str, attempt: int) -> Sequence[int]:
    """Return the numbers of the steps of which an attempt sent windows or scalars, in order."""
    rows = make_rows(pool.query(_RECORDED, {"run_id": run_id, "attempt": attempt}))
    return [step for (step,) in rows]
