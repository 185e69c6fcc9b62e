"""Which run holds which GPU.

For each run and node the first that answers:

1. `gpu_ids`: the ids that its processes declare;
2. `pid`: its processes hold memory on the GPU;
3. `pod`: the kubelet gave the GPU to the pod of its processes, or that pod's processes hold memory;
4. `slurm_job`, then `ray_job`: processes of the job of its processes on that node hold memory;
5. `estimated`: all GPUs of a node on which no other run was alive at the same time.

The role is what the run's processes on the GPU say of themselves; where they say nothing, Ray's
titles of the processes that hold memory there hint at it. Of a GPU that is divided into MIG devices
only those are estimated to be held.

Pods, jobs and nodes speak for a run that is alone in them: of two runs in one pod or job neither
gets its GPUs that way, and a note says so. What a run holds by one of these rules is no other
run's by a rule above, unless the kubelet gave the GPU to several pods.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from longpole.conventions.ray_titles import MIXED_ROLE
from longpole_server.analysis.gpu_evidence import Evidence, GpuIdentity, PodOnNode, RunWindow
from longpole_server.analysis.replica_gpus import names_gpu
from longpole_server.model.gpu import JoinedBy, RunGpu
from longpole_server.model.records import ProcessSeen

# Processes that hold no GPU of their own name no role for one.
_ROLES_WITHOUT_GPUS = frozenset({"controller", "agent_loop", ""})


@dataclass(frozen=True, slots=True)
class JoinNote:
    """Why GPUs of a node were not joined to a run, for people."""

    run_id: str
    attempt: int
    host: str
    text: str


@dataclass(frozen=True, slots=True)
class GpuJoin:
    """Which run holds which GPU, by run, attempt, host and index; and what could not be told."""

    held: tuple[RunGpu, ...]
    notes: tuple[JoinNote, ...]


@dataclass(frozen=True, slots=True)
class _Share:
    """Something that several runs may be in: a pod, or a job on a node."""

    how: JoinedBy
    host: str
    name: str


@dataclass(slots=True)
class _View:
    """An attempt with its processes, and what its pods and jobs hold: GPU -> roles.

    Attributes:
        answered, held: Nodes and GPUs that a rule has joined.
    """

    window: RunWindow
    processes: Sequence[ProcessSeen]
    shares: dict[_Share, dict[GpuIdentity, list[str]]] = field(
        default_factory=dict[_Share, dict[GpuIdentity, list[str]]]
    )
    answered: set[str] = field(default_factory=set[str])
    held: set[str] = field(default_factory=set[str])
    notes: list[JoinNote] = field(default_factory=list[JoinNote])

    def add(self, share: _Share, gpus: Iterable[GpuIdentity], role: str) -> None:
        held = self.shares.setdefault(share, {})
        for gpu in gpus:
            held.setdefault(gpu, []).append(role)

    def note(self, host: str, text: str) -> None:
        self.notes.append(JoinNote(self.window.run_id, self.window.attempt, host, text))


_Found = Iterator[tuple[GpuIdentity, Sequence[str]]]


def join_gpus(
    processes: Iterable[ProcessSeen], evidence: Evidence, windows: Sequence[RunWindow]
) -> GpuJoin:
    """Return which run holds which GPU.

    Args:
        processes: Processes of all runs.
        evidence: What nodes say of their GPUs.
        windows: When each attempt of each run was alive.
    """
    by_attempt: defaultdict[tuple[str, int], list[ProcessSeen]] = defaultdict(list)
    for process in processes:
        by_attempt[process.run_id, process.attempt].append(process)
    views = [
        _look_at(window, by_attempt.get((window.run_id, window.attempt), ()), evidence)
        for window in windows
    ]
    held: list[RunGpu] = []
    for how in ("gpu_ids", "pid", "pod", "slurm_job", "ray_job", "estimated"):
        find = _make_rule(how, evidence, views)
        joined = [
            (view, _hold(view.window, gpu, _find_role(gpu, roles, view, evidence), how))
            for view in views
            for gpu, roles in find(view)
            if gpu.host not in view.answered
        ]
        for view, run_gpu in joined:
            view.answered.add(run_gpu.host)
            view.held.add(run_gpu.gpu_uuid)
            held.append(run_gpu)
    return GpuJoin(
        held=tuple(sorted(held, key=_order)),
        notes=tuple(
            note
            for view in views
            for note in dict.fromkeys(view.notes)
            if note.host not in view.answered
        ),
    )


def _make_rule(
    how: JoinedBy, evidence: Evidence, views: Sequence[_View]
) -> Callable[[_View], _Found]:
    """Return what answers for a view: GPUs with the roles of those who use them.

    Args:
        how: The rule.
        evidence: What nodes say.
        views: All attempts, with what the rules before this one joined.
    """
    match how:
        case "gpu_ids":
            return lambda view: _declared(view, evidence)
        case "pid":
            return lambda view: _by_process(view, evidence)
        case "estimated":
            live = _list_live(views)
            return lambda view: _estimate(view, evidence, live, _taken_from(view, views))
        case _:
            sharers = _list_sharers(views)
            return lambda view: _by_share(how, view, evidence, sharers, _taken_from(view, views))


def _look_at(window: RunWindow, processes: Sequence[ProcessSeen], evidence: Evidence) -> _View:
    """Return an attempt with all that its processes and their nodes say of its pods and jobs."""
    view = _View(window, [_complete(process, evidence, window) for process in processes])
    for process in view.processes:
        _add_pod(view, process, evidence)
        host = process.host
        if (job_id := process.slurm_job_id) is not None:
            gpus = evidence.find_by_slurm_job(host, job_id, window)
            view.add(_Share("slurm_job", host, job_id), gpus, process.role)
        if (job_id := process.ray_job_id) is not None:
            gpus = evidence.find_by_ray_job(host, job_id, window)
            view.add(_Share("ray_job", host, job_id), gpus, process.role)
    return view


def _complete(process: ProcessSeen, evidence: Evidence, window: RunWindow) -> ProcessSeen:
    """Add what the node's agent knows of the process and the process did not say."""
    for holder in evidence.find_by_process(process, window):
        if holder.pod_uid or holder.slurm_job_id or holder.ray_job_id:
            process = replace(
                process,
                pod_uid=process.pod_uid or holder.pod_uid,
                slurm_job_id=process.slurm_job_id or holder.slurm_job_id,
                ray_job_id=process.ray_job_id or holder.ray_job_id,
            )
    return process


def _add_pod(view: _View, process: ProcessSeen, evidence: Evidence) -> None:
    pods = evidence.find_by_pod(process, view.window)
    if len(pods) == 1:
        ((pod, gpus),) = pods.items()
        view.add(_Share("pod", pod.host, _name_pod(pod)), gpus, process.role)
    elif pods:
        hosts = sorted({pod.host for pod in pods})
        text = f"pod {process.pod_name}: there is one of that name on {' and on '.join(hosts)}"
        for host in hosts:
            view.note(host, text)
    if process.pod_uid is not None:
        # Whom the kubelet answered needs no memory seen, but is in the pod all the same.
        gpus = {} if pods else evidence.find_by_pod_uid(process.pod_uid, view.window)
        view.add(_Share("pod", "", process.pod_uid), gpus, process.role)


def _declared(view: _View, evidence: Evidence) -> _Found:
    roles: defaultdict[GpuIdentity, list[str]] = defaultdict(list)
    for process in view.processes:
        on_node = evidence.list_gpus(process.host)
        for gpu_id in process.gpu_ids:
            for gpu in on_node:
                if names_gpu(gpu_id, gpu.gpu_uuid):
                    roles[gpu].append(process.role)
            # In a pod the host name is the pod's: no node is known under it.
            elsewhere = None if on_node else evidence.find_gpu(gpu_id)
            if elsewhere is not None:
                roles[elsewhere].append(process.role)
    yield from roles.items()


def _by_process(view: _View, evidence: Evidence) -> _Found:
    roles: defaultdict[GpuIdentity, list[str]] = defaultdict(list)
    for process in view.processes:
        uuids = {holder.gpu_uuid for holder in evidence.find_by_process(process, view.window)}
        for gpu in evidence.list_gpus(process.host):
            if gpu.gpu_uuid in uuids:
                roles[gpu].append(process.role)
    yield from roles.items()


def _by_share(
    how: JoinedBy,
    view: _View,
    evidence: Evidence,
    sharers: Mapping[_Share, Sequence[RunWindow]],
    taken: frozenset[str],
) -> _Found:
    roles: defaultdict[GpuIdentity, list[str]] = defaultdict(list)
    for share, gpus in view.shares.items():
        if share.how != how:
            continue
        others = sorted({each.run_id for each in _others(view.window, sharers[share])})
        if others:
            for host in dict.fromkeys(gpu.host for gpu in gpus):
                view.note(host, f"{_describe(share)}: {' and '.join(others)} ran in it too")
            continue
        for gpu, names in gpus.items():
            is_shared = how == "pod" and len(evidence.list_pods_of_gpu(gpu, view.window)) > 1
            if gpu.gpu_uuid not in taken or is_shared:
                roles[gpu] += names
    yield from roles.items()


def _estimate(
    view: _View,
    evidence: Evidence,
    live: Mapping[str, Sequence[RunWindow]],
    taken: frozenset[str],
) -> _Found:
    for host in sorted({process.host for process in view.processes}):
        on_host = [process for process in view.processes if process.host == host]
        gpus = evidence.list_gpus(host)
        is_granted = {gpu: bool(evidence.list_pods_of_gpu(gpu, view.window)) for gpu in gpus}
        in_pod = any(process.pod_name or process.pod_uid for process in on_host)
        if any(process.gpu_ids for process in on_host) or (in_pod and any(is_granted.values())):
            # They hold GPUs that are not known, or the kubelet gave them none.
            continue
        if any(_others(view.window, live.get(host, ()))):
            continue
        for gpu in gpus:
            if gpu.gpu_uuid in taken or is_granted[gpu] or evidence.is_divided(gpu):
                continue
            yield gpu, [process.role for process in on_host]


def _list_sharers(views: Iterable[_View]) -> Mapping[_Share, Sequence[RunWindow]]:
    sharers: defaultdict[_Share, list[RunWindow]] = defaultdict(list)
    for view in views:
        for share in view.shares:
            sharers[share].append(view.window)
    return sharers


def _list_live(views: Iterable[_View]) -> Mapping[str, Sequence[RunWindow]]:
    """Return who was alive on which node: by its processes, or by GPUs that it holds there."""
    live: defaultdict[str, list[RunWindow]] = defaultdict(list)
    for view in views:
        for host in {process.host for process in view.processes} | view.answered:
            live[host].append(view.window)
    return live


def _taken_from(view: _View, views: Iterable[_View]) -> frozenset[str]:
    """Return the GPUs that other runs held while an attempt was alive."""
    mine = view.window
    return frozenset[str]().union(
        *(
            other.held
            for other in views
            if other.window.run_id != mine.run_id and mine.overlaps(other.window)
        )
    )


def _others(window: RunWindow, windows: Iterable[RunWindow]) -> Iterator[RunWindow]:
    return (each for each in windows if each.run_id != window.run_id and window.overlaps(each))


def _name_pod(pod: PodOnNode) -> str:
    return f"{pod.namespace}/{pod.name}"


def _describe(share: _Share) -> str:
    kinds: Mapping[JoinedBy, str] = {"pod": "pod", "slurm_job": "Slurm job", "ray_job": "Ray job"}
    return f"{kinds[share.how]} {share.name}"


def _find_role(gpu: GpuIdentity, roles: Sequence[str], view: _View, evidence: Evidence) -> str:
    """Return the role that processes name for a GPU, else the one that their titles hint at."""
    return _role_of(roles) or evidence.find_role(gpu, view.window)


def _role_of(roles: Sequence[str]) -> str:
    named = {role for role in roles if role not in _ROLES_WITHOUT_GPUS}
    if len(named) > 1:
        return MIXED_ROLE
    return named.pop() if named else ""


def _order(gpu: RunGpu) -> tuple[str, int, str, int, str]:
    return gpu.run_id, gpu.attempt, gpu.host, gpu.gpu_index, gpu.gpu_uuid


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
