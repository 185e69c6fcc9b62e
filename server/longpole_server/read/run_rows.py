"""All rows of one run, table by table, in slices that fit into memory: for export."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from longpole_server.errors import BadRequestError
from longpole_server.read.pool import ClientPool, make_rows
from longpole_server.store.times import TIME_COLUMNS

PARQUET = "Parquet"
MAX_SLICE_ROWS = 400_000

_BY_RUN = "run_id = {run_id:String}"
_SPAN = """
SELECT min(started_ns) AS since_ns, max(greatest(started_ns, last_seen_ns)) AS until_ns
FROM run_starts FINAL
LEFT JOIN (
    SELECT run_id, max(last_seen_ns) AS last_seen_ns FROM run_activity
    WHERE run_id = {run_id:String} GROUP BY run_id
) AS activity USING (run_id)
WHERE run_id = {run_id:String}
HAVING count() > 0
"""
# In the order in which they are best put back: a run is not seen before its start is there.
# Samples of hardware belong to the run that held it; the rollups follow from them.
_CONDITIONS: Mapping[str, str] = MappingProxyType(
    {
        "gpu_samples": "(host, gpu_uuid) IN"
        " (SELECT host, gpu_uuid FROM run_gpus WHERE run_id = {run_id:String})",
        "host_samples": "host IN (SELECT host FROM processes WHERE run_id = {run_id:String}"
        " UNION ALL SELECT host FROM run_gpus WHERE run_id = {run_id:String})",
        "otel_traces": "ResourceAttributes['rl.run.id'] = {run_id:String}",
        "engine_samples": _BY_RUN,
        "trajectory_spans": _BY_RUN,
        "trajectories": _BY_RUN,
        "metric_points": _BY_RUN,
        "stage_starts": _BY_RUN,
        "stage_spans": _BY_RUN,
        "steps": _BY_RUN,
        "processes": _BY_RUN,
        "run_gpus": _BY_RUN,
        "run_activity": _BY_RUN,
        "run_ends": _BY_RUN,
        "run_starts": _BY_RUN,
    }
)
RUN_TABLES = tuple(_CONDITIONS)
# Without versions of a row; the others are asked for the valid one.
_APPENDED = frozenset({"gpu_samples", "host_samples"})
# Found by the run's time: their rows belong to no run alone, or are found by it slowly.
_BY_TIME = _APPENDED | {"otel_traces"}


@dataclass(frozen=True, slots=True)
class Slice:
    """Rows of a table between two times, the second exclusive."""

    table: str
    from_ns: int
    to_ns: int
    rows: int


def list_slices(pool: ClientPool, run_id: str) -> list[Slice]:
    """Return the slices that make up a run; none when there is no such run.

    Raises:
        StoreError: The database failed.
    """
    span = make_rows(pool.query(_SPAN, {"run_id": run_id}))
    if not span:
        return []
    parameters = {"run_id": run_id, "since_ns": int(span[0][0]), "until_ns": int(span[0][1])}
    return [piece for table in RUN_TABLES for piece in _slice(pool, table, parameters)]


def read_slice(pool: ClientPool, run_id: str, piece: Slice) -> bytes:
    """Return the rows of a slice as a Parquet file.

    Raises:
        BadRequestError: The table is none of a run's.
        StoreError: The database failed.
    """
    if piece.table not in _CONDITIONS:
        raise BadRequestError(f"{piece.table!r} is no table of a run")
    column = TIME_COLUMNS[piece.table]
    # Names are this module's own; what comes from outside is a parameter.
    sql = (
        f"SELECT * FROM {_source(piece.table)} WHERE {_CONDITIONS[piece.table]}"  # noqa: S608
        f" AND {column} >= fromUnixTimestamp64Nano({{from_ns:Int64}}, 'UTC')"
        f" AND {column} < fromUnixTimestamp64Nano({{to_ns:Int64}}, 'UTC')"
    )
    bounds = {"run_id": run_id, "from_ns": piece.from_ns, "to_ns": piece.to_ns}
    return pool.query_bytes(sql, bounds, PARQUET)


def _slice(pool: ClientPool, table: str, parameters: Mapping[str, object]) -> Iterable[Slice]:
    column = TIME_COLUMNS[table]
    within = ""
    if table in _BY_TIME:
        within = (
            f" AND {column} >= fromUnixTimestamp64Nano({{since_ns:Int64}}, 'UTC')"
            f" AND {column} <= fromUnixTimestamp64Nano({{until_ns:Int64}}, 'UTC')"
        )
    # Names are this module's own; what comes from outside is a parameter.
    sql = (
        f"SELECT intDiv(toUnixTimestamp64Nano({column}), 60000000000) AS minute, count() AS num"  # noqa: S608
        f" FROM {_source(table)} WHERE {_CONDITIONS[table]}{within}"
        " GROUP BY minute ORDER BY minute"
    )
    asked = {name: value for name, value in parameters.items() if f"{{{name}:" in sql}
    minutes = [(int(minute), int(num)) for minute, num in make_rows(pool.query(sql, asked))]
    return _cut(table, minutes)


def _cut(table: str, minutes: list[tuple[int, int]]) -> Iterable[Slice]:
    """Put neighbouring minutes together as long as they fit."""
    first, num_rows, last = 0, 0, 0
    for minute, num in minutes:
        if num_rows and num_rows + num > MAX_SLICE_ROWS:
            yield _make_slice(table, first, last, num_rows)
            num_rows = 0
        if not num_rows:
            first = minute
        num_rows += num
        last = minute
    if num_rows:
        yield _make_slice(table, first, last, num_rows)


def _make_slice(table: str, first: int, last: int, rows: int) -> Slice:
    minute_ns = 60 * 10**9
    return Slice(table, first * minute_ns, (last + 1) * minute_ns, rows)


def _source(table: str) -> str:
    return table if table in _APPENDED else f"{table} FINAL"
