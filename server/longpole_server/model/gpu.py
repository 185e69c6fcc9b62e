"""GPUs, nodes and their series, as the read layer returns them."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

# In the order they are asked: the first that answers counts.
JoinedBy = Literal["gpu_ids", "pid", "pod", "slurm_job", "ray_job", "estimated"]


@dataclass(frozen=True, slots=True)
class RunGpu:
    """A run holds a GPU in a role during a time. `how` says which rule joined them."""

    run_id: str
    attempt: int
    host: str
    gpu_uuid: str
    gpu_index: int
    role: str
    since_ns: int
    until_ns: int | None
    how: JoinedBy
    model: str = ""


@dataclass(frozen=True, slots=True)
class GpuHolder:
    """A process that held memory on a GPU, from the first to the last time it was seen to.

    `pid` is one of the node's, also for a process in a container. `title` is its last one.
    """

    host: str
    gpu_uuid: str
    pid: int
    first_ns: int
    last_ns: int
    pod_uid: str | None = None
    slurm_job_id: str | None = None
    ray_job_id: str | None = None
    title: str | None = None


@dataclass(frozen=True, slots=True)
class GpuGrant:
    """A pod that a node's kubelet gave a GPU, from the first to the last time it said so."""

    host: str
    gpu_uuid: str
    pod_namespace: str
    pod_name: str
    first_ns: int
    last_ns: int


@dataclass(frozen=True, slots=True)
class GpuNow:
    """The newest sample of a GPU. Fractions 0..1; None is not reported.

    Attributes:
        how: Which rule joined it to its run, None while no run holds it.
        parent_uuid, mig_profile: Of a MIG device: the GPU that it is a part of, and its size.
    """

    host: str
    gpu_uuid: str
    gpu_index: int
    model: str
    ts_ns: int
    utilization_ratio: float | None
    memory_used_bytes: int | None
    memory_total_bytes: int | None
    sm_active_ratio: float | None
    tensor_active_ratio: float | None
    power_watts: float | None
    temperature_celsius: float | None
    run_id: str | None
    role: str | None
    how: JoinedBy | None = None
    parent_uuid: str = ""
    mig_profile: str = ""


@dataclass(frozen=True, slots=True)
class GpuHeatmap:
    """One GPU field over time, binned: `values[lane, bin]`, NaN where nothing was measured.

    Attributes:
        field: Column of a GPU sample, e.g. `utilization_ratio`.
        lanes: One per row, ordered by host and index.
        start_ns, bin_ns: Bin `i` covers `start_ns + i * bin_ns` up to the next.
        values: float32, shape (lanes, bins): the bin's mean.
    """

    field: str
    lanes: tuple[RunGpu, ...]
    start_ns: int
    bin_ns: int
    values: NDArray[np.float32]
