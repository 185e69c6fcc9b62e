"""Where the replica that made a sample runs."""

from collections.abc import Collection

from longpole_server.analysis.replica_gpus import find_replica_gpus, list_replica_processes
from longpole_server.model.gpu import RunGpu
from longpole_server.model.trajectory import Trajectory
from longpole_server.read import Reader

# Agents look at the memory of processes now and then: a short sample lies between two looks.
_AROUND_NS = 60 * 10**9


def find_replica(reader: Reader, sample: Trajectory) -> tuple[tuple[str, ...], tuple[RunGpu, ...]]:
    """Return the nodes of a sample's replica and the GPUs it works on, as far as something tells.

    Args:
        reader: Reads the store.
        sample: The sample.
    """
    if sample.replica is None:
        return (), ()
    processes = reader.list_processes(sample.run_id)
    own = list_replica_processes(sample.replica, sample.attempt, processes)
    if not own:
        return _find_named_host(sample.replica, {process.host for process in processes}), ()
    seen = frozenset[str]()
    if not any(process.gpu_ids for process in own):
        seen = reader.list_gpus_of_processes(
            [(process.host, process.pid) for process in own],
            sample.start_ns - _AROUND_NS,
            sample.end_ns + _AROUND_NS,
        )
    held = [
        gpu
        for gpu in reader.list_run_gpus(sample.run_id)
        if gpu.attempt == sample.attempt
        and gpu.since_ns <= sample.end_ns
        and (gpu.until_ns is None or gpu.until_ns >= sample.start_ns)
    ]
    hosts = tuple(sorted({process.host for process in own}))
    return hosts, tuple(find_replica_gpus(own, held, seen))


def _find_named_host(replica: str, hosts: Collection[str]) -> tuple[str, ...]:
    """Return the node of the run that a replica is called by: alone, or before a port."""
    name = replica.partition("/")[0]
    return next(((each,) for each in (name, name.rpartition(":")[0]) if each in hosts), ())
