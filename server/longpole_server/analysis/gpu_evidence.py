"""What nodes say of who uses their GPUs, found by whom it is about."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from longpole.conventions.ray_titles import MIXED_ROLE, role_of
from longpole_server.model.gpu import GpuGrant, GpuHolder
from longpole_server.model.records import ProcessSeen

_Sighting = TypeVar("_Sighting", bound=GpuGrant | GpuHolder)


@dataclass(frozen=True, slots=True)
class GpuIdentity:
    """A GPU as its node reports it."""

    host: str
    gpu_uuid: str
    gpu_index: int
    model: str = ""
    parent_uuid: str = ""


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

    def includes(self, sighting: GpuGrant | GpuHolder) -> bool:
        """Return whether it was alive while something was seen, or for a moment of that."""
        return sighting.last_ns >= self.since_ns and (
            self.until_ns is None or sighting.first_ns <= self.until_ns
        )


@dataclass(frozen=True, slots=True)
class PodOnNode:
    """A pod as the kubelet of its node knows it."""

    host: str
    namespace: str
    name: str


class Evidence:
    """Who holds memory on GPUs, and to whom GPUs were given, on all nodes.

    Args:
        holders: Processes that hold memory, by their nodes' agents.
        grants: Pods that GPUs were given, by their nodes' kubelets.
        gpus: All GPUs that nodes report. What is said of others is left out.
    """

    def __init__(
        self,
        holders: Iterable[GpuHolder],
        grants: Iterable[GpuGrant],
        gpus: Iterable[GpuIdentity],
    ) -> None:
        self._gpus = {(gpu.host, gpu.gpu_uuid): gpu for gpu in gpus}
        self._of_host: defaultdict[str, list[GpuIdentity]] = defaultdict(list)
        self._of_uuid: defaultdict[str, list[GpuIdentity]] = defaultdict(list)
        for gpu in self._gpus.values():
            self._of_host[gpu.host].append(gpu)
            self._of_uuid[gpu.gpu_uuid].append(gpu)
        self._divided = {(gpu.host, gpu.parent_uuid) for gpu in self._gpus.values()}
        self._of_process: defaultdict[tuple[str, int], list[GpuHolder]] = defaultdict(list)
        self._of_gpu: defaultdict[tuple[str, str], list[GpuHolder]] = defaultdict(list)
        self._of_slurm: defaultdict[tuple[str, str], list[GpuHolder]] = defaultdict(list)
        self._of_ray: defaultdict[tuple[str, str], list[GpuHolder]] = defaultdict(list)
        self._of_pod_uid: defaultdict[str, list[GpuHolder]] = defaultdict(list)
        self._pod_uids: defaultdict[tuple[str, str], list[GpuHolder]] = defaultdict(list)
        for holder in holders:
            self._add_holder(holder)
        self._of_pod: defaultdict[str, list[GpuGrant]] = defaultdict(list)
        self._grants: defaultdict[tuple[str, str], list[GpuGrant]] = defaultdict(list)
        for grant in grants:
            if (grant.host, grant.gpu_uuid) in self._gpus:
                self._of_pod[grant.pod_name].append(grant)
                self._grants[grant.host, grant.gpu_uuid].append(grant)

    def list_gpus(self, host: str) -> Sequence[GpuIdentity]:
        """Return the GPUs of a node."""
        return self._of_host.get(host, ())

    def is_divided(self, gpu: GpuIdentity) -> bool:
        """Tell whether a GPU is divided into MIG devices: programs run on those."""
        return (gpu.host, gpu.gpu_uuid) in self._divided

    def find_role(self, gpu: GpuIdentity, window: RunWindow) -> str:
        """Return what the titles of the processes on a GPU say they are, "" when nothing does."""
        titles = (
            holder.title
            for holder in _during(self._of_gpu.get((gpu.host, gpu.gpu_uuid), ()), window)
            if holder.title is not None
        )
        roles = {role for role in map(role_of, titles) if role}
        if len(roles) > 1:
            return MIXED_ROLE
        return roles.pop() if roles else ""

    def find_gpu(self, uuid: str) -> GpuIdentity | None:
        """Return the GPU of this UUID, None when no node or more than one reports it."""
        gpus = self._of_uuid.get(uuid, ())
        return gpus[0] if len(gpus) == 1 else None

    def find_by_process(self, process: ProcessSeen, window: RunWindow) -> list[GpuHolder]:
        """Return where a process itself was seen to hold memory.

        A process of that number in another pod or job is another process: numbers are counted
        anew in every container.
        """
        candidates = self._of_process.get((process.host, process.pid), ())
        return [
            holder for holder in _during(candidates, window) if not _contradicts(process, holder)
        ]

    def find_by_slurm_job(
        self, host: str, job_id: str, window: RunWindow
    ) -> dict[GpuIdentity, None]:
        """Return the GPUs on which processes of a Slurm job hold memory, on one node."""
        return self._name(_during(self._of_slurm.get((host, job_id), ()), window))

    def find_by_ray_job(self, host: str, job_id: str, window: RunWindow) -> dict[GpuIdentity, None]:
        """Return the GPUs on which processes of a Ray job hold memory, on one node."""
        return self._name(_during(self._of_ray.get((host, job_id), ()), window))

    def find_by_pod_uid(self, uid: str, window: RunWindow) -> dict[GpuIdentity, None]:
        """Return the GPUs on which processes of a pod hold memory."""
        return self._name(_during(self._of_pod_uid.get(uid, ()), window))

    def find_by_pod(
        self, process: ProcessSeen, window: RunWindow
    ) -> dict[PodOnNode, dict[GpuIdentity, None]]:
        """Return the GPUs that kubelets gave the pod of a process.

        Names repeat between clusters: of several pods the one counts that is on the process's
        node, or whose uid was seen there. More than one in the answer: it cannot be told which.
        """
        found: defaultdict[PodOnNode, dict[GpuIdentity, None]] = defaultdict(dict)
        for grant in _during(self._of_pod.get(process.pod_name or "", ()), window):
            if process.pod_namespace in (None, grant.pod_namespace):
                pod = PodOnNode(grant.host, grant.pod_namespace, grant.pod_name)
                found[pod][self._gpus[grant.host, grant.gpu_uuid]] = None
        uids = {pod: self._list_pod_uids(gpus, window) for pod, gpus in found.items()}
        if process.pod_uid is not None:
            for pod, seen in uids.items():
                if seen and process.pod_uid not in seen:
                    del found[pod]
        if len(found) > 1:
            exact = [pod for pod in found if process.pod_uid in uids[pod]]
            exact = exact or [pod for pod in found if pod.host == process.host]
            if len(exact) == 1:
                return {exact[0]: found[exact[0]]}
        return dict(found)

    def list_pods_of_gpu(self, gpu: GpuIdentity, window: RunWindow) -> set[PodOnNode]:
        """Return the pods that a GPU was given; more than one share it."""
        return {
            PodOnNode(grant.host, grant.pod_namespace, grant.pod_name)
            for grant in _during(self._grants.get((gpu.host, gpu.gpu_uuid), ()), window)
        }

    def _add_holder(self, holder: GpuHolder) -> None:
        key = (holder.host, holder.gpu_uuid)
        if key not in self._gpus:
            return
        self._of_process[holder.host, holder.pid].append(holder)
        self._of_gpu[key].append(holder)
        if holder.slurm_job_id is not None:
            self._of_slurm[holder.host, holder.slurm_job_id].append(holder)
        if holder.ray_job_id is not None:
            self._of_ray[holder.host, holder.ray_job_id].append(holder)
        if holder.pod_uid is not None:
            self._of_pod_uid[holder.pod_uid].append(holder)
            self._pod_uids[key].append(holder)

    def _list_pod_uids(self, gpus: Iterable[GpuIdentity], window: RunWindow) -> set[str | None]:
        return {
            holder.pod_uid
            for gpu in gpus
            for holder in _during(self._pod_uids.get((gpu.host, gpu.gpu_uuid), ()), window)
        }

    def _name(self, holders: Iterable[GpuHolder]) -> dict[GpuIdentity, None]:
        return {self._gpus[holder.host, holder.gpu_uuid]: None for holder in holders}


def _during(sightings: Iterable[_Sighting], window: RunWindow) -> Iterator[_Sighting]:
    return (sighting for sighting in sightings if window.includes(sighting))


def _contradicts(process: ProcessSeen, holder: GpuHolder) -> bool:
    pairs = (
        (process.pod_uid, holder.pod_uid),
        (process.slurm_job_id, holder.slurm_job_id),
        (process.ray_job_id, holder.ray_job_id),
    )
    return any(said is not None and seen is not None and said != seen for said, seen in pairs)
