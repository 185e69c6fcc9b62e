"""Where the replica that made a sample runs."""

from collections.abc import Collection, Mapping, Sequence

from longpole_server.analysis.replica_gpus import find_replica_gpus, list_replica_processes
from longpole_server.model.gpu import RunGpu
from longpole_server.model.records import ProcessSeen
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
    hosts = _find_hosts(sample.replica, sample.attempt, processes)
    span_ns = (sample.start_ns, sample.end_ns)
    return hosts, _find_gpus(
        reader, sample.run_id, sample.replica, sample.attempt, processes, span_ns
    )


def list_replica_gpus(
    reader: Reader, run_id: str, replica: str, attempt: int, span_ns: tuple[int, int]
) -> tuple[RunGpu, ...]:
    """Return the GPUs that a replica works on in a time; none where nothing tells."""
    processes = reader.list_processes(run_id)
    return _find_gpus(reader, run_id, replica, attempt, processes, span_ns)


def list_replica_hosts(
    reader: Reader, run_id: str, replicas: Sequence[str], attempt: int
) -> Mapping[str, tuple[str, ...]]:
    """Return the nodes of replicas; those of which nothing tells are left out."""
    processes = reader.list_processes(run_id)
    found = {replica: _find_hosts(replica, attempt, processes) for replica in replicas}
    return {replica: hosts for replica, hosts in found.items() if hosts}


def _find_hosts(replica: str, attempt: int, processes: Sequence[ProcessSeen]) -> tuple[str, ...]:
    own = list_replica_processes(replica, attempt, processes)
    if not own:
        return _find_named_host(replica, {process.host for process in processes})
    return tuple(sorted({process.host for process in own}))


def _find_gpus(
    reader: Reader,
    run_id: str,
    replica: str,
    attempt: int,
    processes: Sequence[ProcessSeen],
    span_ns: tuple[int, int],
) -> tuple[RunGpu, ...]:
    own = list_replica_processes(replica, attempt, processes)
    if not own:
        return ()
    start_ns, end_ns = span_ns
    seen = frozenset[str]()
    if not any(process.gpu_ids for process in own):
        seen = reader.list_gpus_of_processes(
            [(process.host, process.pid) for process in own],
            start_ns - _AROUND_NS,
            end_ns + _AROUND_NS,
        )
    held = [
        gpu
        for gpu in reader.list_run_gpus(run_id)
        if gpu.attempt == attempt
        and gpu.since_ns <= end_ns
        and (gpu.until_ns is None or gpu.until_ns >= start_ns)
    ]
    return tuple(find_replica_gpus(own, held, seen))


def _find_named_host(replica: str, hosts: Collection[str]) -> tuple[str, ...]:
    """Return the node of the run that a replica is called by: alone, or before a port."""
    name = replica.partition("/")[0]
    return next(((each,) for each in (name, name.rpartition(":")[0]) if each in hosts), ())
