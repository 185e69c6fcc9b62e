"""Whose GPUs, engines and samples a page shows: those of a node, a role or a replica, or all."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np

from longpole_server.model.engines import EngineLanes
from longpole_server.model.gpu import GpuHeatmap
from longpole_server.service import Service

ONLY = "only"
Kind = Literal["node", "role", "replica"]
_KINDS = ("node", "role", "replica")


class Held(Protocol):
    """What lies on one GPU."""

    @property
    def gpu_uuid(self) -> str:
        """UUID of the GPU."""
        ...

    @property
    def host(self) -> str:
        """Its node."""
        ...

    @property
    def role(self) -> str:
        """What it works as."""
        ...


@dataclass(frozen=True, slots=True)
class LaneFilter:
    """What was chosen, and what it means for GPUs and for replicas.

    Attributes:
        kind, name: What was chosen; None and empty is everything.
        gpu_uuids: GPUs of the chosen replica; None where nothing tells, or no replica was chosen.
        replicas: Replicas of the chosen node; None where nothing tells, or no node was chosen.
        num_homeless: Replicas of which nothing tells on which node they are, beside some of which
            something does: they are left out.
    """

    kind: Kind | None = None
    name: str = ""
    gpu_uuids: frozenset[str] | None = None
    replicas: frozenset[str] | None = None
    num_homeless: int = 0

    @classmethod
    def parse(cls, only: str | None) -> "LaneFilter":
        """Read `node:<host>`, `role:<role>` or `replica:<name>`; anything else is everything."""
        kind, _, name = (only or "").partition(":")
        return cls(kind, name) if kind in _KINDS and name else cls()

    @property
    def narrows_gpus(self) -> bool:
        """Whether it is known which GPUs are meant."""
        return self.kind in ("node", "role") or self.gpu_uuids is not None

    @property
    def narrows_replicas(self) -> bool:
        """Whether it is known which replicas are meant."""
        return self.kind == "replica" or self.replicas is not None

    def keeps_gpu(self, gpu: Held) -> bool:
        """Tell whether a GPU is meant."""
        if self.kind == "replica":
            return self.gpu_uuids is None or gpu.gpu_uuid in self.gpu_uuids
        return self.kind is None or self.name == (gpu.host if self.kind == "node" else gpu.role)

    def keeps_replica(self, replica: str | None) -> bool:
        """Tell whether a replica's engine and samples are meant."""
        if self.kind == "replica":
            return replica == self.name
        return self.replicas is None or replica in self.replicas

    def select_gpus(self, heatmap: GpuHeatmap) -> GpuHeatmap:
        """Return the rows of the GPUs that are meant: none where none of these is among them."""
        # Everything is shared with other viewers, as it is.
        if not self.narrows_gpus:
            return heatmap
        rows = [row for row, lane in enumerate(heatmap.lanes) if self.keeps_gpu(lane)]
        lanes = tuple(heatmap.lanes[row] for row in rows)
        return replace(heatmap, lanes=lanes, values=heatmap.values[rows])

    def select_engines(self, engines: EngineLanes) -> EngineLanes:
        """Return the rows of the engines that are meant."""
        if not self.narrows_replicas:
            return engines
        kept = [row for row, name in enumerate(engines.replicas) if self.keeps_replica(name)]
        rows = np.array(kept, dtype=np.intp)
        return replace(
            engines,
            replicas=tuple(engines.replicas[row] for row in kept),
            kv_usage_ratio=engines.kv_usage_ratio[rows],
            running=engines.running[rows],
            waiting=engines.waiting[rows],
            preemptions=engines.preemptions[rows],
        )

    def describe(self) -> str:
        """Return what was chosen, in words."""
        return self.name if self.kind == "replica" else f"{self.kind} {self.name}"

    def say_gpus(self, *, has_any: bool, has_shown: bool) -> str | None:
        """Return what must be said of GPUs: that the choice does not reach them, or finds none."""
        if self.kind is None or not has_any:
            return None
        if not self.narrows_gpus:
            return f"GPUs: all, not filtered. Nothing tells which {self.name} works on."
        return None if has_shown else f"No GPU of {self.describe()} is among those of this time."

    def say_replicas(self, what: str, *, has_any: bool, has_shown: bool) -> str | None:
        """Return the same of what replicas did, `what` in the plural."""
        if self.kind is None or not has_any:
            return None
        if self.kind == "role":
            return f"{what}: all, not filtered. They belong to replicas, of which no role is told."
        if not self.narrows_replicas:
            return f"{what}: all, not filtered. Nothing tells on which nodes the replicas are."
        if self.num_homeless:
            known = self.describe() if has_shown else f"none of {self.describe()}"
            count = self.num_homeless
            return f"{what}: {known}; of {count} replica{'s' * (count > 1)} no node is told."
        return None if has_shown else f"{what}: none of {self.describe()}."

    def say_whole(self, what: str) -> str | None:
        """Return that the choice does not reach a panel at all."""
        return None if self.kind is None else f"Not filtered: {what}."


def open_filter(
    service: Service,
    run_id: str,
    only: str | None,
    replicas: Sequence[str],
    span_ns: tuple[int, int],
    attempt: int | None = None,
) -> LaneFilter:
    """Return what was chosen with what the service knows of it.

    Args:
        service: Where to ask.
        run_id: The run.
        only: The choice as the address writes it.
        replicas: Those that are shown.
        span_ns: The time that is shown.
        attempt: Which attempt; the newest by default.
    """
    chosen = LaneFilter.parse(only)
    if chosen.kind == "replica":
        gpus = service.list_replica_gpus(run_id, chosen.name, *span_ns, attempt)
        uuids = frozenset(gpu.gpu_uuid for gpu in gpus)
        return replace(chosen, gpu_uuids=uuids or None)
    if chosen.kind == "node" and replicas:
        hosts = service.list_replica_hosts(run_id, replicas, attempt)
        own = frozenset(name for name, at in hosts.items() if chosen.name in at)
        if hosts:
            num_homeless = sum(not hosts.get(name) for name in replicas)
            return replace(chosen, replicas=own, num_homeless=num_homeless)
    return chosen
