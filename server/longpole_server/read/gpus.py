"""GPUs: their newest samples, who uses them, and which run holds them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from longpole_server.model.gpu import GpuGrant, GpuHolder, GpuNow, RunGpu
from longpole_server.read.pool import ClientPool, make_records, make_rows

_LATEST = """
SELECT * FROM gpu_latest FINAL
WHERE ts_ns >= fromUnixTimestamp64Nano({since_ns:Int64})
ORDER BY host, gpu_index, gpu_uuid
"""
_HOSTS = """
SELECT host, toUnixTimestamp64Nano(max(gpu_latest.ts_ns)) FROM gpu_latest
WHERE ts_ns >= fromUnixTimestamp64Nano({since_ns:Int64})
GROUP BY host
ORDER BY host
"""
# A row that ends before it begins takes back what was said before.
_HELD = """
SELECT * FROM run_gpus FINAL
WHERE until_ns IS NULL
   OR (until_ns >= fromUnixTimestamp64Nano({since_ns:Int64}) AND until_ns >= run_gpus.since_ns)
ORDER BY since_ns
"""
_OF_RUN = """
SELECT * FROM run_gpus FINAL
WHERE run_id = {run_id:String} AND (until_ns IS NULL OR until_ns >= since_ns)
ORDER BY host, gpu_index, gpu_uuid, attempt, since_ns
"""
_HOLDERS = """
SELECT
    host, gpu_uuid, pid,
    min(process.ts_ns) AS first_ns,
    max(process.ts_ns) AS last_ns,
    pod_uid, slurm_job_id, ray_job_id,
    argMax(process.title, process.ts_ns) AS title
FROM gpu_processes AS process
WHERE process.ts_ns >= fromUnixTimestamp64Nano({since_ns:Int64})
GROUP BY host, gpu_uuid, pid, pod_uid, slurm_job_id, ray_job_id
ORDER BY host, gpu_uuid, pid, first_ns
"""
_OF_PROCESSES = """
SELECT DISTINCT gpu_uuid FROM gpu_processes
WHERE ts_ns >= fromUnixTimestamp64Nano({start_ns:Int64})
  AND ts_ns <= fromUnixTimestamp64Nano({end_ns:Int64})
  AND (host, pid) IN arrayZip({hosts:Array(String)}, {pids:Array(Int64)})
"""
_GRANTS = """
SELECT
    host, gpu_uuid, pod_namespace, pod_name,
    min(allocation.ts_ns) AS first_ns,
    max(allocation.ts_ns) AS last_ns
FROM gpu_allocations AS allocation
WHERE allocation.ts_ns >= fromUnixTimestamp64Nano({since_ns:Int64})
GROUP BY host, gpu_uuid, pod_namespace, pod_name
ORDER BY host, gpu_uuid, pod_namespace, pod_name
"""

# Samples come evenly: their mean distance stands for the time of each.
_WORK = """
SELECT
    gpu_uuid,
    num_busy * interval_s AS busy_s,
    (num_samples - num_busy) * interval_s AS idle_s,
    busy_sm_clock_hz,
    if(num_told = 0, NULL, num_slow / num_told) AS slow_ratio,
    reasons,
    last_ns AS reported_to_ns,
    busy_power_watts
FROM (
    SELECT
        gpu_uuid,
        count() AS num_samples,
        countIf(is_busy) AS num_busy,
        countIf(is_busy AND is_told) AS num_told,
        countIf(is_busy AND slow != 0) AS num_slow,
        avgOrNullIf(toFloat64(sm_clock_hz), is_busy) AS busy_sm_clock_hz,
        avgOrNullIf(toFloat64(power_watts), is_busy) AS busy_power_watts,
        groupBitOrIf(slow, is_busy) AS reasons,
        max(at) AS last_ns,
        if(
            num_samples > 1,
            (max(at) - min(at)) / (num_samples - 1),
            {end_ns:Int64} - {start_ns:Int64}
        ) / 1e9 AS interval_s
    FROM (
        SELECT
            gpu_uuid,
            sm_clock_hz,
            power_watts,
            toUnixTimestamp64Nano(ts_ns) AS at,
            ifNull(
                coalesce(toFloat64(sm_active_ratio), toFloat64(utilization_ratio)), 0
            ) >= {busy:Float64} AS is_busy,
            isNotNull(clocks_event_reasons) AS is_told,
            toUInt64(bitAnd(ifNull(clocks_event_reasons, 0), {mask:Int64})) AS slow
        FROM gpu_samples
        WHERE ts_ns >= fromUnixTimestamp64Nano({start_ns:Int64})
          AND ts_ns < fromUnixTimestamp64Nano({end_ns:Int64})
          AND host IN (SELECT host FROM gpu_latest WHERE gpu_uuid IN {gpus:Array(String)})
          AND gpu_uuid IN {gpus:Array(String)}
    )
    GROUP BY gpu_uuid
)
ORDER BY gpu_uuid
"""

# Several ranks on one GPU: the first stands for them.
_RANKS = """
SELECT gpu_uuid, min(rank)
FROM gpu_processes
WHERE ts_ns >= fromUnixTimestamp64Nano({start_ns:Int64})
  AND ts_ns < fromUnixTimestamp64Nano({end_ns:Int64})
  AND gpu_uuid IN {gpus:Array(String)}
  AND rank IS NOT NULL
GROUP BY gpu_uuid
"""


@dataclass(frozen=True, slots=True)
class GpuWork:
    """One GPU over a range of time. None is not reported.

    Attributes:
        busy_s, idle_s: Seconds at work and not, by its samples.
        busy_sm_clock_hz: Mean SM clock at work.
        slow_ratio: Part of the samples at work that name a slowdown, 0..1.
        reasons: Bits of these slowdowns.
        reported_to_ns: Time of its last sample.
        busy_power_watts: Mean power at work.
    """

    gpu_uuid: str
    busy_s: float
    idle_s: float
    busy_sm_clock_hz: float | None
    slow_ratio: float | None
    reasons: int
    reported_to_ns: int
    busy_power_watts: float | None = None


def list_gpus(pool: ClientPool, since_ns: int) -> Sequence[GpuNow]:
    """Return the newest sample of each GPU seen since a time, with the run that held it then."""
    parameters = {"since_ns": since_ns}
    held: defaultdict[str, list[RunGpu]] = defaultdict(list)
    for run_gpu in pool.select(RunGpu, _HELD, parameters):
        held[run_gpu.gpu_uuid].append(run_gpu)
    gpus: list[GpuNow] = []
    for row in make_records(pool.query(_LATEST, parameters)):
        holder = _find_holder(held[row["gpu_uuid"]], row["ts_ns"])
        held_by = (holder.run_id, holder.role, holder.how) if holder else (None, None, None)
        gpus.append(GpuNow(**row, run_id=held_by[0], role=held_by[1], how=held_by[2]))
    return gpus


def list_gpu_hosts(pool: ClientPool, since_ns: int) -> Mapping[str, int]:
    """Return when each node with GPUs last sent a sample of one, since a time."""
    return dict(make_rows(pool.query(_HOSTS, {"since_ns": since_ns})))


def list_run_gpus(pool: ClientPool, run_id: str) -> Sequence[RunGpu]:
    """Return the GPUs that the run holds or held, by host and index."""
    return pool.select(RunGpu, _OF_RUN, {"run_id": run_id})


def list_gpu_holders(pool: ClientPool, since_ns: int) -> Sequence[GpuHolder]:
    """Return which processes held memory on which GPU since a time."""
    return pool.select(GpuHolder, _HOLDERS, {"since_ns": since_ns})


def list_gpus_of_processes(
    pool: ClientPool, processes: Sequence[tuple[str, int]], start_ns: int, end_ns: int
) -> frozenset[str]:
    """Return UUIDs of the GPUs on which processes, by host and pid, held memory in a time."""
    parameters = {
        "start_ns": start_ns,
        "end_ns": end_ns,
        "hosts": [host for host, _ in processes],
        "pids": [pid for _, pid in processes],
    }
    return frozenset(uuid for (uuid,) in make_rows(pool.query(_OF_PROCESSES, parameters)))


def list_gpu_grants(pool: ClientPool, since_ns: int) -> Sequence[GpuGrant]:
    """Return which pods were given which GPU since a time, as kubelets said."""
    return pool.select(GpuGrant, _GRANTS, {"since_ns": since_ns})


def _find_holder(candidates: Sequence[RunGpu], ts_ns: int) -> RunGpu | None:
    """Return the last to take the GPU among those that held it at a time."""
    return next(
        (
            run_gpu
            for run_gpu in reversed(candidates)
            if run_gpu.since_ns <= ts_ns and (run_gpu.until_ns is None or ts_ns <= run_gpu.until_ns)
        ),
        None,
    )


def list_gpu_work(
    pool: ClientPool,
    gpu_uuids: Sequence[str],
    start_ns: int,
    end_ns: int,
    busy_activity: float,
    slowdown_mask: int,
) -> Sequence[GpuWork]:
    """Return what each GPU did over a range; those without a sample in it are left out.

    Args:
        pool: Connections.
        gpu_uuids: The GPUs.
        start_ns: Begin of the range.
        end_ns: End of the range.
        busy_activity: Activity from which a sample counts as at work: of the SMs, else NVML's.
        slowdown_mask: Clock-event reasons that mean lost speed.
    """
    if not gpu_uuids:
        return []
    parameters = {
        "gpus": list(gpu_uuids),
        "start_ns": start_ns,
        "end_ns": end_ns,
        "busy": busy_activity,
        "mask": slowdown_mask,
    }
    return pool.select(GpuWork, _WORK, parameters)


def list_gpu_ranks(
    pool: ClientPool, gpu_uuids: Sequence[str], start_ns: int, end_ns: int
) -> Mapping[str, int]:
    """Return the rank of the process on each GPU in a range, where its launcher says one."""
    if not gpu_uuids:
        return {}
    parameters = {"gpus": list(gpu_uuids), "start_ns": start_ns, "end_ns": end_ns}
    return dict(make_rows(pool.query(_RANKS, parameters)))
