"""What leak detection reads: series of rollout engines, and memory of GPUs and nodes."""

from collections.abc import Sequence
from dataclasses import dataclass

from longpole_server.read.pool import ClientPool, make_rows

# Names are matched whole or up to the labels' brace, so that the primary key finds them.
_SERIES = """
SELECT replica, name, groupArray(newest_ns), groupArray(newest)
FROM (
    SELECT
        replica,
        name,
        toUnixTimestamp64Nano(max(ts_ns)) AS newest_ns,
        argMax(value, ts_ns) AS newest
    FROM engine_samples
    WHERE run_id = {run_id:String} AND attempt = {attempt:Int64}
      AND ts_ns >= fromUnixTimestamp64Nano({start_ns:Int64})
      AND ts_ns <= fromUnixTimestamp64Nano({end_ns:Int64})
      AND (%s)
    GROUP BY replica, name, intDiv(toUnixTimestamp64Nano(ts_ns), {bucket_ns:Int64})
)
GROUP BY replica, name
ORDER BY replica, name
"""
# A bin that begins in the span may end after it: it is left out.
_GPU_MEMORY_BINS = """
SELECT
    gpu_uuid,
    toUnixTimestamp64Nano(ts_ns) AS begin_ns,
    begin_ns + 10000000000,
    toFloat64(min(memory_used_bytes_min)),
    toFloat64(max(total_bytes))
FROM gpu_samples_10s
LEFT JOIN (
    SELECT gpu_uuid, max(memory_total_bytes) AS total_bytes FROM gpu_latest GROUP BY gpu_uuid
) AS totals USING gpu_uuid
WHERE gpu_uuid IN {ids:Array(String)}
  AND ts_ns >= fromUnixTimestamp64Nano({start_ns:Int64})
  AND ts_ns <= fromUnixTimestamp64Nano({end_ns:Int64})
  AND toStartOfHour(ts_ns) >= toStartOfHour(fromUnixTimestamp64Nano({start_ns:Int64}))
  AND host IN (SELECT host FROM gpu_latest WHERE gpu_uuid IN {ids:Array(String)})
GROUP BY gpu_uuid, ts_ns
HAVING min(memory_used_bytes_min) IS NOT NULL
"""
_GPU_MEMORY = """
SELECT
    gpu_uuid,
    toUnixTimestamp64Nano(ts_ns) AS at_ns,
    at_ns,
    toFloat64(memory_used_bytes),
    toFloat64(memory_total_bytes)
FROM gpu_samples
WHERE gpu_uuid IN {ids:Array(String)}
  AND ts_ns >= fromUnixTimestamp64Nano({start_ns:Int64})
  AND ts_ns <= fromUnixTimestamp64Nano({end_ns:Int64})
  AND toStartOfTenMinutes(ts_ns) >= toStartOfTenMinutes(fromUnixTimestamp64Nano({start_ns:Int64}))
  AND toStartOfTenMinutes(ts_ns) <= toStartOfTenMinutes(fromUnixTimestamp64Nano({end_ns:Int64}))
  AND host IN (SELECT host FROM gpu_latest WHERE gpu_uuid IN {ids:Array(String)})
  AND memory_used_bytes IS NOT NULL
"""
_HOST_MEMORY = """
SELECT
    host,
    toUnixTimestamp64Nano(ts_ns) AS at_ns,
    at_ns,
    toFloat64(memory_used_bytes),
    toFloat64(memory_total_bytes)
FROM host_samples
WHERE host IN {ids:Array(String)}
  AND ts_ns >= fromUnixTimestamp64Nano({start_ns:Int64})
  AND ts_ns <= fromUnixTimestamp64Nano({end_ns:Int64})
  AND toStartOfHour(ts_ns) >= toStartOfHour(fromUnixTimestamp64Nano({start_ns:Int64}))
  AND memory_used_bytes IS NOT NULL
"""


@dataclass(frozen=True, slots=True)
class EngineSeriesRow:
    """One series of one replica: UTC nanoseconds and values, in no certain order."""

    replica: str
    name: str
    times_ns: tuple[int, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """Memory of a GPU (by uuid) or node (by name): the least that was taken in a stretch."""

    name: str
    start_ns: int
    end_ns: int
    used_bytes: float
    total_bytes: float | None


def list_engine_series(
    pool: ClientPool,
    run_id: str,
    attempt: int,
    names: Sequence[str],
    span_ns: tuple[int, int],
    bucket_ns: int,
) -> list[EngineSeriesRow]:
    """Return the newest value of each stretch, of every replica and series of an attempt."""
    conditions: list[str] = []
    parameters: dict[str, object] = {
        "run_id": run_id,
        "attempt": attempt,
        "start_ns": span_ns[0],
        "end_ns": span_ns[1],
        "bucket_ns": max(1, bucket_ns),
    }
    for index, name in enumerate(names):
        conditions.append(
            f"name = {{name{index}:String}} OR startsWith(name, {{labelled{index}:String}})"
        )
        parameters[f"name{index}"] = name
        parameters[f"labelled{index}"] = name + "{"
    sql = _SERIES % " OR ".join(conditions)
    return [EngineSeriesRow(*row) for row in make_rows(pool.query(sql, parameters))]


def list_gpu_memory(
    pool: ClientPool, gpus: Sequence[str], span_ns: tuple[int, int], *, in_bins: bool
) -> list[MemoryRow]:
    """Return the memory taken of GPUs, sample by sample or in bins of ten seconds."""
    return _list_memory(pool, _GPU_MEMORY_BINS if in_bins else _GPU_MEMORY, gpus, span_ns)


def list_host_memory(
    pool: ClientPool, hosts: Sequence[str], span_ns: tuple[int, int]
) -> list[MemoryRow]:
    """Return the memory taken of nodes."""
    return _list_memory(pool, _HOST_MEMORY, hosts, span_ns)


def _list_memory(
    pool: ClientPool, sql: str, ids: Sequence[str], span_ns: tuple[int, int]
) -> list[MemoryRow]:
    if not ids:
        return []
    parameters = {"ids": list(ids), "start_ns": span_ns[0], "end_ns": span_ns[1]}
    return [MemoryRow(*row) for row in make_rows(pool.query(sql, parameters))]
