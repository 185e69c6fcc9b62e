"""GPUs: their newest samples, who uses them, and which run holds them."""

from collections import defaultdict
from collections.abc import Sequence

from longpole_server.model.gpu import GpuGrant, GpuHolder, GpuNow, RunGpu
from longpole_server.read.pool import ClientPool, make_records

_LATEST = """
SELECT * FROM gpu_latest FINAL
WHERE ts_ns >= fromUnixTimestamp64Nano({since_ns:Int64})
ORDER BY host, gpu_index, gpu_uuid
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
    pod_uid, slurm_job_id, ray_job_id
FROM gpu_processes AS process
WHERE process.ts_ns >= fromUnixTimestamp64Nano({since_ns:Int64})
GROUP BY host, gpu_uuid, pid, pod_uid, slurm_job_id, ray_job_id
ORDER BY host, gpu_uuid, pid, first_ns
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


def list_run_gpus(pool: ClientPool, run_id: str) -> Sequence[RunGpu]:
    """Return the GPUs that the run holds or held, by host and index."""
    return pool.select(RunGpu, _OF_RUN, {"run_id": run_id})


def list_gpu_holders(pool: ClientPool, since_ns: int) -> Sequence[GpuHolder]:
    """Return which processes held memory on which GPU since a time."""
    return pool.select(GpuHolder, _HOLDERS, {"since_ns": since_ns})


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
