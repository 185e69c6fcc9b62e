"""GPUs that do not exist: their levels come from a file that a simulator replaces."""

import json
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from longpole_agent.sources.gpu import (
    METRIC_OF_COLUMN,
    WHOLE_COLUMNS,
    make_point,
    make_process_point,
    name_gpu,
)
from longpole_agent.sources.source import Attributes, Point
from longpole_agent.sources.timer import Timer

_log = logging.getLogger(__name__)

_VERSION = 1
_PROCESSES_EVERY_NS = 10_000_000_000
# Relative noise of levels that fluctuate on real hardware; the others are taken as they are.
_NOISE_OF_COLUMN = {
    "utilization_ratio": 0.02,
    "sm_active_ratio": 0.03,
    "tensor_active_ratio": 0.03,
    "dram_active_ratio": 0.03,
    "power_watts": 0.02,
    "temperature_celsius": 0.01,
    "nvlink_rx_bytes_per_s": 0.05,
    "nvlink_tx_bytes_per_s": 0.05,
    "pcie_rx_bytes_per_s": 0.05,
    "pcie_tx_bytes_per_s": 0.05,
}
_ENERGY = "energy_joules"
_POWER = "power_watts"


@dataclass(frozen=True, slots=True)
class SimulatedGpu:
    """One GPU of the file: who it is, and its levels by column of a GPU sample."""

    uuid: str
    attributes: Attributes
    pid: int | None
    levels: Mapping[str, float]


class SimulatedSource:
    """`Source` of the GPUs in a file. A missing file is a node without GPUs.

    Args:
        path: The file; read again whenever it was replaced.
        noise: Gives numbers in -1..1; by default from a generator seeded with the path's name.
    """

    name = "simulated"

    def __init__(self, path: Path, noise: Callable[[], float] | None = None) -> None:
        self._path = path
        generator = random.Random(path.name)  # noqa: S311 - noise, not a secret
        self._noise = noise or (lambda: generator.uniform(-1.0, 1.0))
        self._version: tuple[int, int, int] | None = None
        self._gpus: Sequence[SimulatedGpu] = ()
        self._energy_joules: dict[str, float] = {}
        self._last_ns = 0
        self._processes = Timer()

    def sample(self, ts_ns: int) -> Sequence[Point]:
        """Return the levels of now with a little noise; energy is integrated from power."""
        self._reload()
        passed_s = (ts_ns - self._last_ns) / 1e9 if self._last_ns else 0.0
        self._last_ns = ts_ns
        with_processes = bool(self._gpus) and self._processes.is_due(ts_ns)
        if with_processes:
            self._processes.set(ts_ns, _PROCESSES_EVERY_NS)
        points: list[Point] = []
        for gpu in self._gpus:
            points += self._sample_gpu(gpu, ts_ns, passed_s)
            if with_processes and gpu.pid is not None:
                used = gpu.levels.get("memory_used_bytes")
                memory_bytes = None if used is None else int(used)
                points.append(make_process_point(gpu.pid, memory_bytes, ts_ns, gpu.attributes))
        return points

    def close(self) -> None:
        """Nothing is held."""

    def _sample_gpu(self, gpu: SimulatedGpu, ts_ns: int, passed_s: float) -> list[Point]:
        levels = {column: self._fluctuate(column, level) for column, level in gpu.levels.items()}
        if _POWER in levels and _ENERGY not in levels:
            energy = self._energy_joules.get(gpu.uuid, 0.0) + levels[_POWER] * max(0.0, passed_s)
            levels[_ENERGY] = self._energy_joules[gpu.uuid] = energy
        return [
            make_point(column, level, ts_ns, gpu.attributes) for column, level in levels.items()
        ]

    def _fluctuate(self, column: str, level: float) -> float:
        if column in WHOLE_COLUMNS:
            return int(level)
        level *= 1.0 + _NOISE_OF_COLUMN.get(column, 0.0) * self._noise()
        return min(level, 1.0) if column.endswith("_ratio") else level

    def _reload(self) -> None:
        try:
            status = self._path.stat()
            version = (status.st_ino, status.st_mtime_ns, status.st_size)
            if version == self._version:
                return
            self._version = version
            self._gpus = parse_gpus(self._path.read_bytes())
        except FileNotFoundError:
            self._version, self._gpus = None, ()
        except (OSError, ValueError) as error:
            self._gpus = ()
            _log.warning("%s: %s", self._path, error)


def parse_gpus(data: bytes) -> Sequence[SimulatedGpu]:
    """Return the GPUs of a simulated-GPU file.

    Raises:
        ValueError: The file is no such thing.
    """
    try:
        document = cast("dict[str, Any]", json.loads(data))
        if document["version"] != _VERSION:
            raise ValueError(f"version {document['version']} of simulated GPUs is not known")
        return [_parse_gpu(gpu) for gpu in document["gpus"]]
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no file of simulated GPUs ({error})") from error


def _parse_gpu(gpu: dict[str, Any]) -> SimulatedGpu:
    levels = {str(column): float(level) for column, level in gpu["levels"].items()}
    total_bytes = gpu.get("memory_total_bytes")
    if total_bytes is not None:
        levels.setdefault("memory_total_bytes", float(total_bytes))
    unknown = levels.keys() - METRIC_OF_COLUMN.keys()
    if unknown:
        raise ValueError(f"unknown columns: {', '.join(sorted(unknown))}")
    pid = gpu.get("pid")
    return SimulatedGpu(
        uuid=str(gpu["uuid"]),
        attributes=name_gpu(str(gpu["uuid"]), int(gpu["index"]), str(gpu.get("model", ""))),
        pid=None if pid is None else int(pid),
        levels=levels,
    )
