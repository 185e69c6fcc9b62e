"""The file through which a node's agent learns what the simulated GPUs show."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from longpole_sim.cluster import GPU_MEMORY_BYTES, GPU_MODEL, Cluster, Gpu
from longpole_sim.levels import GpuLevels
from longpole_sim.seeding import around, random_for

VERSION = 1
_AMBIENT_CELSIUS = 31.0
_CELSIUS_PER_WATT = 0.058
_THERMAL_SECONDS = 15.0


class GpuFile:
    """Writes one node's GPUs, replacing the file as a whole each time.

    Temperatures follow power with the delay that a heat sink has.
    """

    def __init__(self, path: Path, cluster: Cluster, node: int) -> None:
        self.path = path
        self._cluster = cluster
        self._node = node
        # No two chips draw the same power for the same work.
        self._power_factors = [
            around(random_for(cluster.gpu_uuid(Gpu(node, index))), 1.0, 0.02)
            for index in range(cluster.gpus_per_node)
        ]
        self._celsius: dict[int, float] = {}
        self._written_s: float | None = None

    def write(
        self,
        now_s: float,
        stage: str,
        levels: Mapping[int, GpuLevels],
        pids: Mapping[int, int] | None = None,
    ) -> None:
        """Write the levels by GPU index.

        Args:
            now_s: A monotonic clock, for the temperatures.
            stage: What the trainer does, for people who read the file.
            levels: By index of the GPU on this node; a GPU without is not shown at all.
            pids: The processes that hold the GPUs' memory, by index of the GPU.
        """
        elapsed_s = 0.0 if self._written_s is None else now_s - self._written_s
        self._written_s = now_s
        gpus: list[dict[str, object]] = []
        for index in sorted(levels):
            entry: dict[str, object] = {
                "index": index,
                "uuid": self._cluster.gpu_uuid(Gpu(self._node, index)),
                "model": GPU_MODEL,
                "memory_total_bytes": GPU_MEMORY_BYTES,
                "levels": self._sample(index, levels[index], elapsed_s),
            }
            if pids and index in pids:
                entry["pid"] = pids[index]
            gpus.append(entry)
        self._replace(json.dumps({"version": VERSION, "stage": stage, "gpus": gpus}))

    def _sample(self, index: int, levels: GpuLevels, elapsed_s: float) -> dict[str, float]:
        watts = levels.power_watts * self._power_factors[index]
        target = _AMBIENT_CELSIUS + _CELSIUS_PER_WATT * watts
        before = self._celsius.get(index, target)
        celsius = target + (before - target) * math.exp(-elapsed_s / _THERMAL_SECONDS)
        self._celsius[index] = celsius
        sample: dict[str, float] = asdict(levels)
        sample["power_watts"] = watts
        sample["memory_used_bytes"] = round(levels.memory_used_bytes)
        sample["temperature_celsius"] = celsius
        return sample

    def _replace(self, text: str) -> None:
        partial = self.path.with_suffix(".partial")
        partial.write_text(text, encoding="utf-8")
        partial.replace(self.path)
