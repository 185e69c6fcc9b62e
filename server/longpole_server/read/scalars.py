"""Logged scalars: those of a step, of many steps, and one over a run."""

from collections.abc import Mapping, Sequence

from longpole_server.read.pool import ClientPool, make_rows

_SCALARS = """
SELECT name, value, ts_ns FROM metric_points FINAL
WHERE run_id = {run_id:String} AND attempt = {attempt:Int64} AND step = {step:Int64}
ORDER BY name
"""
_SCALARS_OF_MANY = """
SELECT attempt, step, name, value FROM metric_points FINAL
WHERE run_id = {run_id:String} AND (attempt, step) IN {steps:Array(Tuple(Int64, Int64))}
ORDER BY attempt, step, name
"""
_METRICS = """
SELECT name, step, ts_ns, value FROM metric_series FINAL
WHERE run_id = {run_id:String} AND name IN {names:Array(String)}
ORDER BY name, step, attempt DESC
LIMIT 1 BY name, step
"""


def get_scalars(
    pool: ClientPool, run_id: str, attempt: int, step: int
) -> tuple[Mapping[str, float], int | None]:
    """Return the step's scalars and the time of the newest (ns)."""
    parameters = {"run_id": run_id, "attempt": attempt, "step": step}
    rows = make_rows(pool.query(_SCALARS, parameters))
    newest_ns = max((ts_ns for _, _, ts_ns in rows), default=None)
    return {name: value for name, value, _ in rows}, newest_ns


def list_scalars(
    pool: ClientPool, run_id: str, steps: Sequence[tuple[int, int]]
) -> Mapping[tuple[int, int], Mapping[str, float]]:
    """Return the scalars of many (attempt, step) pairs; a pair without any has none."""
    found: dict[tuple[int, int], dict[str, float]] = {step: {} for step in steps}
    if found:
        parameters = {"run_id": run_id, "steps": list(found)}
        rows = make_rows(pool.query(_SCALARS_OF_MANY, parameters))
        for attempt, step, name, value in rows:
            found[attempt, step][name] = value
    return found


def get_metrics(
    pool: ClientPool, run_id: str, names: Sequence[str]
) -> Mapping[str, Sequence[tuple[int, int, float]]]:
    """Return (step, ts_ns, value) in step order of each of `names` that the run has."""
    found: dict[str, list[tuple[int, int, float]]] = {}
    if names:
        rows = make_rows(pool.query(_METRICS, {"run_id": run_id, "names": list(names)}))
        for name, step, ts_ns, value in rows:
            found.setdefault(name, []).append((step, ts_ns, value))
    return found
