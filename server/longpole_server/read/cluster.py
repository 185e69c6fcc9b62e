"""The cluster as it is now: newest samples of nodes, and the last minute of GPUs."""

from collections.abc import Mapping, Sequence

from longpole.conventions.gpus import THROTTLE_REASONS
from longpole_server.model.cluster import GpuMinute, NodeNow
from longpole_server.read.pool import ClientPool

_NODES = """
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
    argMax(object_store_spilled_bytes, sample.ts_ns) AS object_store_spilled_bytes
FROM host_samples AS sample
WHERE sample.ts_ns >= fromUnixTimestamp64Nano({since_ns:Int64})
GROUP BY host
ORDER BY host
"""
_MINUTE = """
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
    groupBitOr(bitAnd(ifNull(clocks_event_reasons, 0), {mask:Int64})) AS throttle_bits
FROM gpu_samples AS sample
WHERE sample.ts_ns >= fromUnixTimestamp64Nano({since_ns:Int64})
  AND toStartOfTenMinutes(sample.ts_ns)
    >= toStartOfTenMinutes(fromUnixTimestamp64Nano({since_ns:Int64}))
GROUP BY host, gpu_uuid
"""
_THROTTLE_MASK = sum(THROTTLE_REASONS)


def list_nodes(pool: ClientPool, since_ns: int) -> Sequence[NodeNow]:
    """Return the newest sample of each node that sent one since a time, by name."""
    return pool.select(NodeNow, _NODES, {"since_ns": since_ns})


def get_gpu_minutes(pool: ClientPool, since_ns: int) -> Mapping[tuple[str, str], GpuMinute]:
    """Return what each GPU did since a time, by node and uuid."""
    parameters = {"since_ns": since_ns, "mask": _THROTTLE_MASK}
    found = pool.select(GpuMinute, _MINUTE, parameters)
    return {(minute.host, minute.gpu_uuid): minute for minute in found}
