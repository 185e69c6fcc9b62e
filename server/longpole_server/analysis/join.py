"""Which run holds which GPU.

For each run and node the first that answers: the GPU ids that its processes declare, the
processes that hold memory on a GPU, else all GPUs of a node on which no other run was alive at
the same time, marked as estimated.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from longpole_server.model.gpu import JoinedBy, RunGpu
from longpole_server.model.records import GpuProcess, ProcessSeen

# Processes that hold no GPU of their own name no role for one.
_ROLES_WITHOUT_GPUS = frozenset({"controller", "agent_loop", ""})
_MIXED_ROLE = "hybrid"


@dataclass(frozen=True, slots=True)
class GpuIdentity:
    """A GPU as its node reports it."""

    host: str
    gpu_uuid: str
    gpu_index: int
    model: str = ""


@dataclass(frozen=True, slots=True)
class RunWindow:
    """When an attempt of a run was alive. `until_ns` is None while it is."""

    run_id: str
    attempt: int
    since_ns: int
    until_ns: int | None

    def overlaps(self, other: "RunWindow") -> bool:
        """Return whether both were alive at one time."""
        return (other.until_ns is None or self.since_ns < other.until_ns) and (
            self.until_ns is None or other.since_ns < self.until_ns
        )


def join_gpus(
    processes: Sequence[ProcessSeen],
    gpu_processes: Sequence[GpuProcess],
    gpus: Sequence[GpuIdentity],
    windows: Sequence[RunWindow],
) -> list[RunGpu]:
    """Return which run holds which GPU, ordered by run, attempt, host and index.

    Args:
        processes: Processes of all runs.
        gpu_processes: Which process holds memory on which GPU.
        gpus: All GPUs that nodes report.
        windows: When each attempt of each run was alive.
    """
    holders = {(seen.host, seen.pid, seen.gpu_uuid) for seen in gpu_processes}
    certain: list[RunGpu] = []
    unanswered: list[tuple[RunWindow, str, list[ProcessSeen]]] = []
    for window in windows:
        own = [
            process
            for process in processes
            if (process.run_id, process.attempt) == (window.run_id, window.attempt)
        ]
        for host in sorted({process.host for process in own}):
            on_host = [process for process in own if process.host == host]
            on_node = [gpu for gpu in gpus if gpu.host == host]
            joined = _declared(window, on_host, on_node) or _by_process(
                window, on_host, on_node, holders
            )
            certain += joined
            if not joined and not any(process.gpu_ids for process in on_host):
                unanswered.append((window, host, on_host))
    estimated = _estimate(unanswered, certain, gpus, _windows_of_hosts(processes, windows))
    return sorted(
        certain + estimated,
        key=lambda gpu: (gpu.run_id, gpu.attempt, gpu.host, gpu.gpu_index, gpu.gpu_uuid),
    )


def _declared(
    window: RunWindow, processes: Sequence[ProcessSeen], gpus: Sequence[GpuIdentity]
) -> list[RunGpu]:
    joined: list[RunGpu] = []
    for gpu in gpus:
        roles = [
            process.role
            for process in processes
            if any(_names_gpu(gpu_id, gpu.gpu_uuid) for gpu_id in process.gpu_ids)
        ]
        if roles:
            joined.append(_hold(window, gpu, _role_of(roles), "gpu_ids"))
    return joined


def _names_gpu(gpu_id: str, uuid: str) -> bool:
    """Compare a declared id with a UUID; CUDA accepts unambiguous beginnings of one."""
    return gpu_id == uuid or (
        gpu_id.startswith("GPU-") and len(gpu_id) >= 12 and uuid.startswith(gpu_id)
    )


def _by_process(
    window: RunWindow,
    processes: Sequence[ProcessSeen],
    gpus: Sequence[GpuIdentity],
    holders: set[tuple[str, int, str]],
) -> list[RunGpu]:
    joined: list[RunGpu] = []
    for gpu in gpus:
        roles = [
            process.role
            for process in processes
            if (process.host, process.pid, gpu.gpu_uuid) in holders
        ]
        if roles:
            joined.append(_hold(window, gpu, _role_of(roles), "pid"))
    return joined


def _windows_of_hosts(
    processes: Sequence[ProcessSeen], windows: Sequence[RunWindow]
) -> dict[str, list[RunWindow]]:
    window_of = {(window.run_id, window.attempt): window for window in windows}
    found: dict[str, list[RunWindow]] = {}
    for process in processes:
        window = window_of.get((process.run_id, process.attempt))
        if window is not None and window not in found.setdefault(process.host, []):
            found[process.host].append(window)
    return found


def _estimate(
    unanswered: Iterable[tuple[RunWindow, str, list[ProcessSeen]]],
    certain: Sequence[RunGpu],
    gpus: Sequence[GpuIdentity],
    windows_of_hosts: dict[str, list[RunWindow]],
) -> list[RunGpu]:
    joined: list[RunGpu] = []
    for window, host, processes in unanswered:
        others = (
            other for other in windows_of_hosts.get(host, ()) if other.run_id != window.run_id
        )
        if any(window.overlaps(other) for other in others):
            continue
        taken = {
            gpu.gpu_uuid
            for gpu in certain
            if window.overlaps(RunWindow(gpu.run_id, gpu.attempt, gpu.since_ns, gpu.until_ns))
        }
        role = _role_of([process.role for process in processes])
        joined += [
            _hold(window, gpu, role, "estimated")
            for gpu in gpus
            if gpu.host == host and gpu.gpu_uuid not in taken
        ]
    return joined


def _role_of(roles: Sequence[str]) -> str:
    named = {role for role in roles if role not in _ROLES_WITHOUT_GPUS}
    if len(named) > 1:
        return _MIXED_ROLE
    return named.pop() if named else ""


def _hold(window: RunWindow, gpu: GpuIdentity, role: str, how: JoinedBy) -> RunGpu:
    return RunGpu(
        window.run_id,
        window.attempt,
        gpu.host,
        gpu.gpu_uuid,
        gpu.gpu_index,
        role,
        window.since_ns,
        window.until_ns,
        how,
        gpu.model,
    )
