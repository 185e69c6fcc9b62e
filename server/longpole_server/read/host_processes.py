"""What processes hold of their nodes' memory, without what they share."""

from collections.abc import Sequence

from longpole_server.model.cluster import ProcessMemory
from longpole_server.read.pool import ClientPool, make_records

_SECOND_NS = 1_000_000_000
# A process gives itself new titles all the time: its number says who it is.
_PROCESSES = """
SELECT
    host,
    pid,
    argMax(title, last_at) AS title,
    argMax(job, last_at) AS ray_job_id,
    min(first_at) AS first_ns,
    max(last_at) AS last_ns,
    argMin(begun, first_at) AS first_bytes,
    argMax(ended, last_at) AS last_bytes,
    max(most) AS max_bytes,
    groupArray(bin) AS bins,
    groupArray(most) AS peaks
FROM (
    SELECT
        host,
        pid,
        intDiv(at - {start_ns:Int64}, {bin_ns:Int64}) AS bin,
        argMax(title, at) AS title,
        argMax(ray_job_id, at) AS job,
        min(at) AS first_at,
        max(at) AS last_at,
        argMin(private_bytes, at) AS begun,
        argMax(private_bytes, at) AS ended,
        max(private_bytes) AS most
    FROM (
        SELECT
            host, pid, title, ray_job_id, assumeNotNull(private_bytes) AS private_bytes,
            toUnixTimestamp64Nano(ts_ns) AS at
        FROM host_processes
        WHERE toStartOfHour(ts_ns) >= toStartOfHour(fromUnixTimestamp64Nano({start_ns:Int64}))
          AND ts_ns >= fromUnixTimestamp64Nano({start_ns:Int64})
          AND ts_ns < fromUnixTimestamp64Nano({end_ns:Int64})
          AND ({host:String} = '' OR host = {host:String})
          AND private_bytes IS NOT NULL
    )
    GROUP BY host, pid, bin
    ORDER BY host, pid, bin
)
GROUP BY host, pid
ORDER BY toInt64(last_bytes) - toInt64(first_bytes) DESC, last_bytes DESC, host, pid
LIMIT {limit:UInt32}
"""


def list_host_processes(
    pool: ClientPool, host: str | None, start_ns: int, end_ns: int, max_bins: int, limit: int
) -> Sequence[ProcessMemory]:
    """Return the processes that grew most.

    Args:
        pool: Connections.
        host: The node; None: every one.
        start_ns: Begin of the range.
        end_ns: End of the range.
        max_bins: Points of each at most.
        limit: At most so many.
    """
    bin_ns = max(_SECOND_NS, -(-(end_ns - start_ns) // max(1, max_bins)))
    parameters = {
        "host": host or "",
        "start_ns": start_ns,
        "end_ns": end_ns,
        "bin_ns": bin_ns,
        "limit": limit,
    }
    found: list[ProcessMemory] = []
    for row in make_records(pool.query(_PROCESSES, parameters)):
        bins, peaks = row.pop("bins"), row.pop("peaks")
        points = sorted(zip(bins, peaks, strict=True))
        middles = tuple((start_ns + at * bin_ns + bin_ns // 2, size) for at, size in points)
        found.append(ProcessMemory(**row, points=middles))
    return found
