"""The cluster as it is now: newest samples of nodes, and the last minute of GPUs."""

from collections.abc import Mapping, Sequence

from longpole.conventions.gpus import THROTTLE_REASONS
from longpole_server.model.cluster import GpuMinute, NodeNow
from longpole_server.read.pool import ClientPool

# What agents last said of their clocks. They compare them with the server's, and what they said is
# as old as that makes it. Where a clock was ahead and was put right, what it stamped before lies in
# the future: later than its node's clock shows now (`last_ns`), it is not the newest.
_CLOCKS = """
WITH clocks AS (
    SELECT host, argMax(ahead_ns, said_ns) AS ahead_ns
    FROM (
        SELECT
            host,
            toInt64(assumeNotNull(clock_offset_s) * 1000) * 1000000 AS ahead_ns,
            toUnixTimestamp64Nano(ts_ns) - ahead_ns AS said_ns
        FROM host_samples
        WHERE ts_ns >= fromUnixTimestamp64Nano({clocks_ns:Int64}) AND clock_offset_s IS NOT NULL
    )
    WHERE said_ns <= toUnixTimestamp64Nano(now64(9)) + {slack_ns:Int64}
    GROUP BY host
), limits AS (
    SELECT
        host,
        ahead_ns,
        toUnixTimestamp64Nano(now64(9)) + ahead_ns + {slack_ns:Int64} AS last_ns
    FROM clocks
)
"""
_NODES = """$clocks
SELECT
    host,
    toUnixTimestamp64Nano(max(sample.ts_ns)) AS seen_ns,
    argMax(toFloat64(cpu_utilization_ratio), sample.ts_ns) AS cpu_utilization_ratio,
    argMax(memory_used_bytes, sample.ts_ns) AS memory_used_bytes,
    argMax(memory_total_bytes, sample.ts_ns) AS memory_total_bytes,
    argMax(toFloat64(network_receive_bytes_per_s), sample.ts_ns) AS network_receive_bytes_per_s,
    argMax(toFloat64(network_transmit_bytes_per_s), sample.ts_ns) AS network_transmit_bytes_per_s,
    argMax(cpu_count, sample.ts_ns) AS cpu_count,
    argMax(toFloat64(disk_read_bytes_per_s), sample.ts_ns) AS disk_read_bytes_per_s,
    argMax(toFloat64(disk_write_bytes_per_s), sample.ts_ns) AS disk_write_bytes_per_s,
    argMax(toFloat64(fabric_receive_bytes_per_s), sample.ts_ns) AS fabric_receive_bytes_per_s,
    argMax(toFloat64(fabric_transmit_bytes_per_s), sample.ts_ns) AS fabric_transmit_bytes_per_s,
    argMax(object_store_used_bytes, sample.ts_ns) AS object_store_used_bytes,
    argMax(object_store_total_bytes, sample.ts_ns) AS object_store_total_bytes,
    argMax(object_store_spilled_bytes, sample.ts_ns) AS object_store_spilled_bytes,
    argMax(toFloat64(spool_used_ratio), sample.ts_ns) AS spool_used_ratio,
    argMax(agent_dropped_total, sample.ts_ns) AS agent_dropped_total,
    argMax(toFloat64(clock_offset_s), sample.ts_ns) AS clock_offset_s
FROM host_samples AS sample
LEFT JOIN limits USING (host)
WHERE sample.ts_ns >= fromUnixTimestamp64Nano({since_ns:Int64})
  AND (last_ns = 0 OR toUnixTimestamp64Nano(sample.ts_ns) <= last_ns)
GROUP BY host
ORDER BY host
""".replace("$clocks", _CLOCKS)
_MINUTE = """$clocks
SELECT
    host,
    gpu_uuid,
    count() AS num_samples,
    avg(toFloat64(sample.utilization_ratio)) AS utilization_ratio,
    if(
        countIf(clocks_event_reasons IS NOT NULL) = 0,
        NULL,
        countIf(bitAnd(ifNull(clocks_event_reasons, 0), {mask:Int64}) != 0)
            / countIf(clocks_event_reasons IS NOT NULL)
    ) AS throttled_ratio,
    groupBitOr(bitAnd(ifNull(clocks_event_reasons, 0), {mask:Int64})) AS throttle_bits,
    max(sample.ecc_uncorrected_errors) AS ecc_uncorrected_errors,
    max(nullIf(sample.xid, 0)) AS xid
FROM gpu_samples AS sample
LEFT JOIN limits USING (host)
WHERE toUnixTimestamp64Nano(sample.ts_ns) >= {since_ns:Int64} + ahead_ns
  AND (last_ns = 0 OR toUnixTimestamp64Nano(sample.ts_ns) <= last_ns)
  AND toStartOfTenMinutes(sample.ts_ns) >= toStartOfTenMinutes(
      fromUnixTimestamp64Nano({since_ns:Int64} + (SELECT least(0, min(ahead_ns)) FROM limits))
  )
GROUP BY host, gpu_uuid
""".replace("$clocks", _CLOCKS)
_THROTTLE_MASK = sum(THROTTLE_REASONS)
# How wrong a comparison of clocks may be: answers tell the server's to a second.
_SLACK_NS = 5 * 10**9
# By so much a clock may be behind to be found among the words of the last minutes.
_CLOCKS_NS = 3_600 * 10**9


def list_nodes(pool: ClientPool, since_ns: int) -> Sequence[NodeNow]:
    """Return the newest sample of each node that sent one since a time, by name."""
    parameters = {"since_ns": since_ns, "clocks_ns": since_ns, "slack_ns": _SLACK_NS}
    return pool.select(NodeNow, _NODES, parameters)


def get_gpu_minutes(pool: ClientPool, since_ns: int) -> Mapping[tuple[str, str], GpuMinute]:
    """Return what each GPU did since a time by the server's clock, by node and uuid."""
    parameters = {
        "since_ns": since_ns,
        "clocks_ns": since_ns - _CLOCKS_NS,
        "slack_ns": _SLACK_NS,
        "mask": _THROTTLE_MASK,
    }
    found = pool.select(GpuMinute, _MINUTE, parameters)
    return {(minute.host, minute.gpu_uuid): minute for minute in found}
