"""Who sent a batch: one process, as its resource describes it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from longpole.conventions import attributes as names
from longpole.conventions import rl_insight
from longpole_server.ingest.normalize.attributes import (
    Values,
    format_attributes,
    get_int,
    get_text,
    get_texts,
    read_attributes,
)
from longpole_server.ingest.normalize.free_text import FreeText
from longpole_server.ingest.normalize.identity import (
    find_run_id,
    invent_run_id,
    make_addressable,
)

AGENT_SERVICE = "longpole-agent"
CONTROLLER = "controller"
# Names of a sender and its scope stand in the rows of each of its spans.
MAX_NAME_CHARS = 256
_RL_PREFIX = "rl."
_NODE_NAME = "k8s.node.name"


class Process(NamedTuple):
    """One life of a process. `start_ns` is None where the sender does not say."""

    host: str
    pid: int
    start_ns: int | None


class Owner(NamedTuple):
    """The pod and the job that a process belongs to, as far as they are said."""

    pod_namespace: str | None
    pod_name: str | None
    pod_uid: str | None
    slurm_job_id: str | None
    ray_job_id: str | None


@dataclass(frozen=True, slots=True, eq=False)
class Sender:
    """A process that sends. Compared by identity: the cache gives one object per resource.

    Attributes:
        values: Its resource attributes.
        text: The same as text, for raw spans.
        run_id: Its run; invented when it declares none.
        attempt: The attempt it declares, None without one.
        process: None when no pid is known.
        owner: Its pod and its job.
        names_run: Whether it declares a run.
        job: The job that an agent found it to work for, "" if unknown.
        speaks_rl: Whether its resource declares a run or any `rl.*` attribute.
        notes: What was done to its run id, for people.
    """

    values: Values
    text: Mapping[str, str]
    run_id: str
    attempt: int | None
    process: Process | None
    service: str
    host: str
    role: str
    instance: str | None
    gpu_ids: tuple[str, ...]
    owner: Owner
    names_run: bool
    job: str
    speaks_rl: bool
    notes: tuple[str, ...]

    @property
    def is_agent(self) -> bool:
        """Whether it is a node agent, which belongs to no run."""
        return self.service == AGENT_SERVICE

    @property
    def is_monitor(self) -> bool:
        """Whether it tells what RL-Insight's client shows of a trainer, which names no process."""
        return self.service == rl_insight.SERVICE

    @property
    def pid(self) -> int:
        """Its process id, 0 when unknown."""
        return 0 if self.process is None else self.process.pid


def read_sender(resource: Resource, free_text: FreeText) -> Sender:
    """Read the resource of a batch."""
    values = read_attributes(resource.attributes)
    service = (get_text(values, names.SERVICE_NAME) or "")[:MAX_NAME_CHARS]
    host = _find_host(values)
    declared_id = find_run_id(values)
    wanted_id = declared_id or invent_run_id(service, host)
    run_id = make_addressable(wanted_id)
    notes = () if run_id == wanted_id else (f"The run id {wanted_id!r} is kept as {run_id!r}.",)
    return Sender(
        values=values,
        text=format_attributes(values, free_text),
        run_id=run_id,
        attempt=get_int(values, names.RUN_ATTEMPT),
        process=read_process(values),
        service=service,
        host=host,
        role=(get_text(values, names.ROLE) or "").lower()[:MAX_NAME_CHARS],
        instance=_cut(get_text(values, names.SERVICE_INSTANCE_ID)),
        gpu_ids=get_texts(values, names.GPU_IDS),
        owner=read_owner(values),
        names_run=declared_id is not None,
        job=get_text(values, rl_insight.JOB) or "",
        speaks_rl=declared_id is not None or any(key.startswith(_RL_PREFIX) for key in values),
        notes=notes,
    )


def read_process(values: Values) -> Process | None:
    """Read which process a resource describes, None when it says no pid."""
    pid = get_int(values, names.PROCESS_PID)
    if pid is None:
        return None
    return Process(_find_host(values), pid, get_int(values, names.PROCESS_START_NS))


def _find_host(values: Values) -> str:
    host = get_text(values, names.HOST_NAME) or get_text(values, _NODE_NAME) or ""
    return host[:MAX_NAME_CHARS]


def _cut(text: str | None) -> str | None:
    return None if text is None else text[:MAX_NAME_CHARS]


def read_owner(values: Values) -> Owner:
    """Read the pod and the job that a resource or a point names."""
    return Owner(
        pod_namespace=get_text(values, names.K8S_NAMESPACE_NAME),
        pod_name=get_text(values, names.K8S_POD_NAME),
        pod_uid=get_text(values, names.K8S_POD_UID),
        slurm_job_id=get_text(values, names.SLURM_JOB_ID),
        ray_job_id=get_text(values, names.RAY_JOB_ID),
    )


class SenderCache:
    """Reads each distinct resource once: a process sends the same one with every batch.

    Args:
        capacity: Most resources remembered; the oldest is forgotten first.
        free_text: Decides about text of prompts and responses.
    """

    def __init__(self, free_text: FreeText, capacity: int = 4096) -> None:
        self._capacity = capacity
        self._free_text = free_text
        self._senders: dict[bytes, Sender] = {}

    def get(self, resource: Resource) -> Sender:
        """Return the sender that a resource describes."""
        return self.get_encoded(resource.SerializeToString())

    def get_encoded(self, key: bytes) -> Sender:
        """Return the sender that a resource in protobuf describes.

        Raises:
            DecodeError: It cannot be read.
        """
        sender = self._senders.get(key)
        if sender is None:
            sender = read_sender(Resource.FromString(key), self._free_text)
            if len(self._senders) >= self._capacity:
                del self._senders[next(iter(self._senders))]
            self._senders[key] = sender
        return sender
