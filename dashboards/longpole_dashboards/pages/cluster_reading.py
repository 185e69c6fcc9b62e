"""What the cluster page draws from: every node and GPU, and what is the matter with it."""

# pyright: reportMissingTypeStubs=false

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from longpole.conventions.gpus import THROTTLE_REASONS
from longpole_dashboards.figures.gpus import HEAT_FIELDS
from longpole_dashboards.formats import NS_PER_MS, NS_PER_S
from longpole_dashboards.reading import Reader
from longpole_dashboards.refresh import View
from longpole_server.model.cluster import ClusterNow, GpuState, NodeNow
from longpole_server.model.gpu import GpuHeatmap
from longpole_server.model.storage import StorageReport

# In the order in which they want to be looked at.
Condition = Literal["silent", "throttled", "idle", "working", "free"]
CONDITIONS: tuple[Condition, ...] = ("silent", "throttled", "idle", "working", "free")
SPANS = ("10", "60", "360")
# A longer time is not read for whoever types it.
MAX_CHOSEN_MS = 7 * 86_400_000
MAX_HEAT_BINS = 480
SILENT_NS = 60 * NS_PER_S
# Of a time that ended so long ago all has been told.
_SETTLED_NS = 60 * NS_PER_S
IDLE_RATIO = 0.05
THROTTLED_RATIO = 0.1
# The cluster is read anew this often; tabs share what was read.
_STRIDE_S = 3.0
# Sizes of tables change slowly.
_STORAGE_STRIDE_S = 30.0
# The heat-map moves on in strides, longer ones over a longer time.
_HEAT_STRIDE_NS, _HEAT_STRIDES = 15 * NS_PER_S, 240


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU and what is the matter with it."""

    state: GpuState
    condition: Condition

    @property
    def name(self) -> str:
        """Node and index."""
        return f"{self.state.now.host} · GPU {self.state.now.gpu_index}"

    @property
    def throttle_words(self) -> str:
        """Why it is slowed down, empty while it is not."""
        minute = self.state.minute
        if minute is None:
            return ""
        words = [word for bit, word in THROTTLE_REASONS.items() if minute.throttle_bits & bit]
        return ", ".join(words)


class ClusterReading:
    """The cluster as one browser looks at it; everything is read when it is first asked for."""

    def __init__(self, reader: Reader, view: View) -> None:
        self.view = view
        self._service = reader.service
        self._memory = reader.memory

    @cached_property
    def cluster(self) -> ClusterNow:
        """All nodes and GPUs. On a silent cluster time goes on too: nodes fall silent."""
        return self._memory.ask("cluster", self._cluster_token, self._service.get_cluster)

    @cached_property
    def _cluster_token(self) -> tuple[int, int]:
        return (self._service.changes.current.version, int(time.monotonic() / _STRIDE_S))

    @cached_property
    def gpus(self) -> Sequence[Gpu]:
        """All GPUs by node and index."""
        silent = {node.host for node in self.silent_nodes}
        return [Gpu(state, find_condition(state, silent)) for state in self.cluster.gpus]

    @cached_property
    def silent_nodes(self) -> Sequence[NodeNow]:
        """Nodes of which nothing was heard for a minute."""
        now_ns = self.cluster.ts_ns
        return [node for node in self.cluster.nodes if now_ns - node.seen_ns > SILENT_NS]

    @cached_property
    def names(self) -> Mapping[str, str]:
        """Run id -> name."""
        version = self._service.changes.current.version
        runs = self._memory.ask("runs", version, self._service.list_runs)
        return {run.run_id: run.name for run in runs}

    @property
    def node(self) -> str | None:
        """The node that was chosen, if it exists."""
        chosen = self.view.query.text("node")
        return chosen if any(node.host == chosen for node in self.cluster.nodes) else None

    @cached_property
    def chosen_span_ns(self) -> tuple[int, int] | None:
        """The time that the address names, None where it names none or one that is too long."""
        asked = self.view.query.span_ms("time")
        if asked is None or asked[1] - asked[0] > MAX_CHOSEN_MS:
            return None
        return asked[0] * NS_PER_MS, asked[1] * NS_PER_MS

    @cached_property
    def span_ns(self) -> tuple[int, int]:
        """The time that the charts show: one chosen on them, else the last minutes."""
        chosen = self.chosen_span_ns
        if chosen is not None:
            return chosen
        length_ns = int(self.view.query.choice("span", SPANS)) * 60 * NS_PER_S
        stride_ns = _find_stride_ns(length_ns)
        end_ns = self.cluster.ts_ns - self.cluster.ts_ns % stride_ns + stride_ns
        return end_ns - length_ns, end_ns

    @cached_property
    def span_key(self) -> tuple[tuple[int, int], int | None]:
        """What the charts of that time depend on: also the passing time while more of it comes."""
        start_ns, end_ns = self.span_ns
        now_ns = self.cluster.ts_ns
        is_settled = end_ns < now_ns - _SETTLED_NS
        return self.span_ns, None if is_settled else now_ns // _find_stride_ns(end_ns - start_ns)

    @cached_property
    def heatmap(self) -> GpuHeatmap:
        """The chosen GPU field of every GPU over that time."""
        field = self.view.query.choice("field", HEAT_FIELDS[1:])
        return self._memory.ask(
            ("cluster-heatmap", field, self.view.query.text("span"), self.chosen_span_ns),
            self.span_key,
            lambda: self._service.get_cluster_heatmap(field, *self.span_ns, MAX_HEAT_BINS),
        )

    @cached_property
    def storage(self) -> StorageReport:
        """What the store holds."""
        token = int(time.monotonic() / _STORAGE_STRIDE_S)
        return self._memory.ask("storage", token, self._service.get_storage)

    def key(self) -> object:
        """What every panel depends on that shows the present."""
        return (self._mark, [node.host for node in self.silent_nodes], sorted(self.names.items()))

    @cached_property
    def _mark(self) -> int:
        """Changes with what is known of nodes and GPUs."""
        cluster = self.cluster
        return self._memory.ask(
            "cluster-mark", self._cluster_token, lambda: hash((cluster.nodes, cluster.gpus))
        )


def _find_stride_ns(length_ns: int) -> int:
    return max(_HEAT_STRIDE_NS, length_ns // _HEAT_STRIDES)


def find_condition(state: GpuState, silent_hosts: set[str]) -> Condition:
    """Return what is the matter with a GPU, or what it does when nothing is."""
    now, minute = state.now, state.minute
    if now.host in silent_hosts or minute is None:
        return "silent"
    if minute.throttled_ratio is not None and minute.throttled_ratio >= THROTTLED_RATIO:
        return "throttled"
    if now.run_id is None:
        return "free"
    used = minute.utilization_ratio
    return "idle" if used is not None and used < IDLE_RATIO else "working"
