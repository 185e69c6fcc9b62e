"""Ray's object stores: what nodes wrote to disk and read back in a stretch of time."""

from collections.abc import Sequence

from longpole_server.model.facts import ObjectStoreFacts
from longpole_server.read.pool import ClientPool, make_records

# Agents report every ten seconds: samples around the stretch are needed to know what it holds.
_AROUND_NS = 15_000_000_000
# Totals start anew with the raylet: what fell is left out.
_STORES = """
SELECT
    host,
    min(at) AS first_ns,
    max(at) AS last_ns,
    argMax(written, at) - argMin(written, at) AS written_bytes,
    argMax(restored, at) - argMin(restored, at) AS restored_bytes,
    max(fallback) AS fallback_bytes,
    max(used_ratio) AS used_ratio
FROM (
    SELECT
        host,
        toUnixTimestamp64Nano(ts_ns) AS at,
        spilled_bytes_total AS written,
        restored_bytes_total AS restored,
        object_store_fallback_bytes AS fallback,
        object_store_used_bytes / nullIf(object_store_total_bytes, 0) AS used_ratio
    FROM host_samples
    WHERE host IN {hosts:Array(String)}
      AND ts_ns >= fromUnixTimestamp64Nano({start_ns:Int64})
      AND ts_ns <= fromUnixTimestamp64Nano({end_ns:Int64})
      AND toStartOfHour(ts_ns) >= toStartOfHour(fromUnixTimestamp64Nano({start_ns:Int64}))
      AND object_store_used_bytes IS NOT NULL
)
GROUP BY host
ORDER BY host
"""


def list_object_stores(
    pool: ClientPool, hosts: Sequence[str], start_ns: int, end_ns: int
) -> Sequence[ObjectStoreFacts]:
    """Return the object store of each node that reports one.

    Bytes are those of the samples around, in proportion to the time: exact for steps that are long
    against ten seconds, a mean for short ones, and right in the sum over steps.
    """
    if not hosts or end_ns <= start_ns:
        return []
    parameters = {
        "hosts": list(hosts),
        "start_ns": start_ns - _AROUND_NS,
        "end_ns": end_ns + _AROUND_NS,
    }
    rows = make_records(pool.query(_STORES, parameters))
    return [
        ObjectStoreFacts(
            host=row["host"],
            spilled_bytes=_part(row["written_bytes"], row, end_ns - start_ns),
            restored_bytes=_part(row["restored_bytes"], row, end_ns - start_ns),
            fallback_bytes=row["fallback_bytes"],
            used_ratio=row["used_ratio"],
        )
        for row in rows
    ]


def _part(grown: int | None, row: dict[str, object], duration_ns: int) -> float | None:
    first_ns, last_ns = row["first_ns"], row["last_ns"]
    if not isinstance(first_ns, int) or not isinstance(last_ns, int):
        return None
    if grown is None or grown < 0 or last_ns <= first_ns:
        return None
    return grown * duration_ns / (last_ns - first_ns)
