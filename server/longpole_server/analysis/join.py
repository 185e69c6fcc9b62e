"""Which run holds which GPU."""

from collections.abc import Sequence
from dataclasses import dataclass

from longpole_server.model.gpu import RunGpu
from longpole_server.model.records import GpuProcess, ProcessSeen


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


def join_gpus(
    processes: Sequence[ProcessSeen],
    gpu_processes: Sequence[GpuProcess],
    gpus: Sequence[GpuIdentity],
    windows: Sequence[RunWindow],
) -> list[RunGpu]:
    """Return which run holds which GPU: declared ids, then (host, pid), then the only live run."""
    raise NotImplementedError
