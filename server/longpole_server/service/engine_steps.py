"""Reads what rollout engines did in each step, and what memory was taken while they rested."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from longpole_server.alerts.engines import EngineStep, Rest
from longpole_server.alerts.rest import (
    ENGINE_SERIES,
    RestWindow,
    Samples,
    observe_engine,
    with_memory,
)
from longpole_server.model.gpu import RunGpu
from longpole_server.model.records import ProcessSeen
from longpole_server.model.step import Step
from longpole_server.read.alert_engines import MemoryRow
from longpole_server.read.alerts import AlertReader

_NS_PER_S = 10**9
# Before a step's start: whether counters stood still needs a scrape before the first one in it.
_LOOKBACK_NS = 60 * _NS_PER_S
# Values a series and step at most: longer steps are read more coarsely.
_MAX_VALUES = 600
# Steps that are read in one query span at most this.
_CHUNK_NS = 600 * _NS_PER_S
# Rests of longer steps are long enough for bins of ten seconds.
_LONG_NS = 300 * _NS_PER_S


@dataclass(frozen=True, slots=True)
class RunPlace:
    """Where an attempt runs: its GPUs, its processes, and their nodes."""

    gpus: tuple[RunGpu, ...]
    processes: tuple[ProcessSeen, ...] = ()

    @property
    def hosts(self) -> frozenset[str]:
        """Nodes of its processes."""
        return frozenset(process.host for process in self.processes)


@dataclass(frozen=True, slots=True)
class ReplicaPlace:
    """Where a replica runs, as far as that is certain.

    Attributes:
        gpus: Ids of its GPUs, empty when it is not certain which are its own.
        host: Its node; None when not known, and for all but the first replica of a node, since
            the node's memory belongs to all of them.
    """

    gpus: frozenset[str] = frozenset()
    host: str | None = None


@dataclass(slots=True)
class _Memory:
    gpus: defaultdict[str, list[MemoryRow]] = field(default_factory=lambda: defaultdict(list))
    hosts: defaultdict[str, list[MemoryRow]] = field(default_factory=lambda: defaultdict(list))


class EngineStepsReader:
    """Reads engines' steps. Thread-safe.

    Args:
        reader: Reads series and memory.
    """

    def __init__(self, reader: AlertReader) -> None:
        self._reader = reader

    def read(
        self, run_id: str, attempt: int, steps: Sequence[Step], place: RunPlace
    ) -> dict[int, Mapping[str, EngineStep]]:
        """Return what each engine did in closed steps of one attempt, by step and replica.

        Raises:
            StoreError: The database failed.
        """
        found: dict[int, Mapping[str, EngineStep]] = {}
        closed = [step for step in steps if step.end_ns is not None]
        for chunk in _split(closed):
            found |= self._read_chunk(run_id, attempt, chunk, place)
        return found

    def _read_chunk(
        self, run_id: str, attempt: int, steps: Sequence[Step], place: RunPlace
    ) -> dict[int, Mapping[str, EngineStep]]:
        span_ns = (steps[0].start_ns - _LOOKBACK_NS, max(step.end_ns or 0 for step in steps))
        longest_ns = max((step.end_ns or 0) - step.start_ns for step in steps)
        bucket_ns = max(_NS_PER_S, longest_ns // _MAX_VALUES)
        by_replica: defaultdict[str, dict[str, Samples]] = defaultdict(dict)
        for row in self._reader.list_engine_series(
            run_id, attempt, ENGINE_SERIES, span_ns, bucket_ns
        ):
            by_replica[row.replica][row.name] = _make_samples(row.times_ns, row.values)
        if not by_replica:
            return {}
        places = locate_replicas(sorted(by_replica), place)
        memory = self._read_memory(places, span_ns, in_bins=longest_ns > _LONG_NS)
        return {
            step.step: {
                replica: engine
                for replica, series in by_replica.items()
                if (engine := _observe(replica, series, step, places[replica], memory)) is not None
            }
            for step in steps
        }

    def _read_memory(
        self, places: Mapping[str, ReplicaPlace], span_ns: tuple[int, int], *, in_bins: bool
    ) -> _Memory:
        memory = _Memory()
        gpus = sorted({gpu for place in places.values() for gpu in place.gpus})
        hosts = sorted({place.host for place in places.values() if place.host is not None})
        for row in self._reader.list_gpu_memory(gpus, span_ns, in_bins=in_bins):
            memory.gpus[row.name].append(row)
        for row in self._reader.list_host_memory(hosts, span_ns):
            memory.hosts[row.name].append(row)
        return memory


def locate_replicas(replicas: Sequence[str], place: RunPlace) -> dict[str, ReplicaPlace]:
    """Return where each replica runs.

    A process that gives its instance as the replica's name says so, and its GPUs. Else the name
    may be a node's, or a node's with a port; its GPUs are the replica's where it is alone there.
    """
    hosts = {replica: _find_host(replica, place) for replica in replicas}
    found: dict[str, ReplicaPlace] = {}
    seen: set[str] = set()
    for replica in replicas:
        host = hosts[replica]
        gpus = _find_declared(replica, place)
        if not gpus and host is not None and list(hosts.values()).count(host) == 1:
            gpus = frozenset(gpu.gpu_uuid for gpu in place.gpus if gpu.host == host)
        is_first = host is not None and host not in seen
        if host is not None:
            seen.add(host)
        found[replica] = ReplicaPlace(gpus, host if is_first else None)
    return found


def _find_host(replica: str, place: RunPlace) -> str | None:
    named = {process.host for process in place.processes if process.instance == replica}
    if len(named) == 1:
        return named.pop()
    known = place.hosts | {gpu.host for gpu in place.gpus}
    name = replica.partition("/")[0]
    return next((each for each in (name, name.rpartition(":")[0]) if each in known), None)


def _find_declared(replica: str, place: RunPlace) -> frozenset[str]:
    found: set[str] = set()
    for process in place.processes:
        if process.instance == replica:
            found |= {
                gpu.gpu_uuid
                for gpu in place.gpus
                if gpu.host == process.host
                and (gpu.gpu_uuid in process.gpu_ids or str(gpu.gpu_index) in process.gpu_ids)
            }
    return frozenset(found)


def _observe(
    replica: str,
    series: Mapping[str, Samples],
    step: Step,
    place: ReplicaPlace,
    memory: _Memory,
) -> EngineStep | None:
    own = _cut(series, step.start_ns - _LOOKBACK_NS, step.end_ns or step.start_ns)
    if not own:
        return None
    engine, windows = observe_engine(replica, own, step)
    return with_memory(engine, windows, lambda window: _measure(window, place, memory))


def _measure(window: RestWindow, place: ReplicaPlace, memory: _Memory) -> Rest | None:
    devices = [_least(memory.gpus.get(gpu, ()), window) for gpu in sorted(place.gpus)]
    host = _least(memory.hosts.get(place.host, ()), window) if place.host is not None else None
    # All of its GPUs, or nothing: a mean over others each time would move by itself.
    known = [each for each in devices if each is not None]
    if len(known) < len(devices) or not known:
        known = []
    if not known and host is None:
        return None
    return Rest(
        window.stage,
        window.sleep,
        1,
        device_bytes=sum(each.used_bytes for each in known) / len(known) if known else None,
        device_total_bytes=(
            sum(each.total_bytes or 0.0 for each in known) / len(known) if known else None
        ),
        host_bytes=host.used_bytes if host is not None else None,
        host_total_bytes=host.total_bytes if host is not None else None,
    )


def _least(rows: Sequence[MemoryRow], window: RestWindow) -> MemoryRow | None:
    inside = [
        row for row in rows if row.start_ns >= window.start_ns and row.end_ns <= window.end_ns
    ]
    return min(inside, key=lambda row: row.used_bytes, default=None)


def _make_samples(times_ns: Sequence[int], values: Sequence[float]) -> Samples:
    times = np.array(times_ns, dtype=np.int64)
    order = np.argsort(times, kind="stable")
    return Samples(times[order], np.array(values, dtype=np.float64)[order])


def _cut(series: Mapping[str, Samples], start_ns: int, end_ns: int) -> dict[str, Samples]:
    found: dict[str, Samples] = {}
    for name, samples in series.items():
        first, last = np.searchsorted(samples.times_ns, (start_ns, end_ns + 1))
        # What describes an engine may have been said long before the step.
        first = max(0, min(int(first), len(samples.times_ns) - 1)) if int(last) else 0
        if int(last) > first:
            found[name] = Samples(
                samples.times_ns[first : int(last)], samples.values[first : int(last)]
            )
    return found


def _split(steps: Sequence[Step]) -> list[list[Step]]:
    chunks: list[list[Step]] = []
    for step in steps:
        if chunks and (step.end_ns or 0) - chunks[-1][0].start_ns <= _CHUNK_NS:
            chunks[-1].append(step)
        else:
            chunks.append([step])
    return chunks
