"""The pretend hardware: nodes, GPUs, and the rollout replicas that lie on them."""

import uuid
from dataclasses import dataclass
from functools import cached_property

GPU_MODEL = "NVIDIA H100 80GB HBM3"
GPU_MEMORY_BYTES = 85_520_809_984
_GPU_NAMESPACE = uuid.UUID("6f6e6770-6f6c-4573-8d69-6d0000000000")


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU by node and by its index on that node."""

    node: int
    index: int


@dataclass(frozen=True, slots=True)
class Replica:
    """One copy of the rollout engine and the GPUs it is sharded over, all of one node."""

    name: str
    index: int
    gpus: tuple[Gpu, ...]

    @property
    def node(self) -> int:
        """The node that holds the replica."""
        return self.gpus[0].node


@dataclass(frozen=True)
class Cluster:
    """Equal nodes of equal GPUs.

    Attributes:
        tag: Makes the GPUs' UUIDs differ from those of other clusters.
        host_prefix: Node `i` is called `<host_prefix>-<i>`.
        trainer_gpu_count: GPUs, from the first on, that only train; 0 where all do both.
    """

    nodes: int = 2
    gpus_per_node: int = 8
    tag: str = "default"
    host_prefix: str = "sim-node"
    trainer_gpu_count: int = 0

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """All GPUs in order."""
        return tuple(
            Gpu(node, index) for node in range(self.nodes) for index in range(self.gpus_per_node)
        )

    @property
    def trainer_gpus(self) -> tuple[Gpu, ...]:
        """The GPUs that train: those of the trainer's pool, all where there are no pools."""
        return self.gpus[: self.trainer_gpu_count] if self.trainer_gpu_count else self.gpus

    @property
    def rollout_gpu_count(self) -> int:
        """GPUs that hold rollout replicas."""
        return self.gpu_count - self.trainer_gpu_count

    @property
    def gpu_count(self) -> int:
        """All GPUs."""
        return self.nodes * self.gpus_per_node

    @property
    def tensor_parallel_size(self) -> int:
        """GPUs per rollout replica."""
        even = self.gpus_per_node % 2 == 0 and self.trainer_gpu_count % 2 == 0
        return 2 if even else 1

    @cached_property
    def replicas(self) -> tuple[Replica, ...]:
        """The replicas in order of their GPUs."""
        width = self.tensor_parallel_size
        gpus = self.gpus[self.trainer_gpu_count :]
        groups = [tuple(gpus[start : start + width]) for start in range(0, len(gpus), width)]
        return tuple(Replica(f"replica-{i}", i, group) for i, group in enumerate(groups))

    def host_name(self, node: int) -> str:
        """Return the host name of a node."""
        return f"{self.host_prefix}-{node}"

    def gpu_uuid(self, gpu: Gpu) -> str:
        """Return the GPU's UUID as NVML writes it."""
        name = f"{self.tag}/{self.host_name(gpu.node)}/{gpu.index}"
        return f"GPU-{uuid.uuid5(_GPU_NAMESPACE, name)}"

    def node_gpu_uuids(self, node: int) -> tuple[str, ...]:
        """Return the UUIDs of a node's GPUs in order of their index."""
        return tuple(self.gpu_uuid(Gpu(node, index)) for index in range(self.gpus_per_node))
