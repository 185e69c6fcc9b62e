"""Which GPUs a rollout replica works on: what its own processes say, and what they hold."""

from collections.abc import Collection, Iterable, Sequence

from longpole_server.model.gpu import RunGpu
from longpole_server.model.records import ProcessSeen

# CUDA accepts unambiguous beginnings of a UUID.
MIN_ID_CHARS = 12


def names_gpu(gpu_id: str, uuid: str) -> bool:
    """Compare an id that a process declares with a GPU's UUID."""
    return gpu_id == uuid or (
        gpu_id.startswith("GPU-") and len(gpu_id) >= MIN_ID_CHARS and uuid.startswith(gpu_id)
    )


def list_replica_processes(
    replica: str, attempt: int, processes: Iterable[ProcessSeen]
) -> Sequence[ProcessSeen]:
    """Return the processes of an attempt that call themselves by a replica's name."""
    return [each for each in processes if each.instance == replica and each.attempt == attempt]


def find_replica_gpus(
    own: Sequence[ProcessSeen], held: Iterable[RunGpu], seen: Collection[str]
) -> Sequence[RunGpu]:
    """Return the GPUs of a run that a replica works on, once each; none where nothing tells.

    Args:
        own: The replica's processes.
        held: GPUs of the attempt.
        seen: UUIDs of those on which agents saw these processes hold memory: asked where the
            processes declare none.
    """
    declares = any(process.gpu_ids for process in own)
    found = (gpu for gpu in held if (_declares(own, gpu) if declares else gpu.gpu_uuid in seen))
    by_uuid = {gpu.gpu_uuid: gpu for gpu in found}
    return sorted(by_uuid.values(), key=lambda gpu: (gpu.host, gpu.gpu_index, gpu.gpu_uuid))


def _declares(own: Iterable[ProcessSeen], gpu: RunGpu) -> bool:
    return any(
        names_gpu(gpu_id, gpu.gpu_uuid)
        or (process.host == gpu.host and gpu_id == str(gpu.gpu_index))
        for process in own
        for gpu_id in process.gpu_ids
    )
