"""Logged scalars: those of a step, of many steps, and some over a run."""
# pyarrow carries no complete types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from longpole_server.model.metric import MetricColumns
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
_COUNTS = """
SELECT name, count() AS points FROM metric_series
WHERE run_id = {run_id:String} AND step >= {first:Int64} AND step <= {last:Int64}
GROUP BY name ORDER BY name
"""
_COLUMNS = """
SELECT name, step, ts_ns, value FROM metric_series FINAL
WHERE run_id = {run_id:String} AND name IN {names:Array(String)}
    AND step >= {first:Int64} AND step <= {last:Int64}
ORDER BY name, step, attempt DESC
LIMIT 1 BY name, step
"""
_FIRST_STEP, _LAST_STEP = -(1 << 63), (1 << 63) - 1


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


def count_points(
    pool: ClientPool, run_id: str, first: int | None, last: int | None
) -> Mapping[str, int]:
    """Return how many points each metric of a run has, by name in order.

    A point that was logged again may count twice: enough to know how much there is to read.
    """
    found = pool.query(_COUNTS, {"run_id": run_id, **_bound(first, last)})
    return dict(make_rows(found))


def read_columns(
    pool: ClientPool, run_id: str, names: Sequence[str], first: int | None, last: int | None
) -> Mapping[str, MetricColumns]:
    """Return the points of each of `names` that the run has, of a range of steps."""
    if not names:
        return {}
    parameters = {"run_id": run_id, "names": list(names), **_bound(first, last)}
    table = pool.query(_COLUMNS, parameters).combine_chunks()
    if not table.num_rows:
        return {}
    texts: Any = table["name"].combine_chunks().dictionary_encode()
    codes = texts.indices.to_numpy()
    steps, ts_ns = (table[name].cast(pa.int64()).to_numpy() for name in ("step", "ts_ns"))
    values = table["value"].to_numpy()
    begins = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist()]
    ends = [*begins[1:], len(codes)]
    found: dict[str, MetricColumns] = {}
    for begin, end in zip(begins, ends, strict=True):
        name = texts.dictionary[int(codes[begin])].as_py()
        part = slice(begin, end)
        found[name] = MetricColumns(name, steps[part], ts_ns[part], values[part])
    return found


def _bound(first: int | None, last: int | None) -> Mapping[str, int]:
    return {
        "first": _FIRST_STEP if first is None else first,
        "last": _LAST_STEP if last is None else last,
    }
