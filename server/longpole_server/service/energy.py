"""Energy of runs and steps: the drivers' counters, and power where there are none."""

import threading
import time
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from longpole_server.analysis.intervals import Interval, length, union
from longpole_server.model.energy import RunEnergy, StepEnergy
from longpole_server.model.gpu import RunGpu
from longpole_server.model.step import StageEnergy, Step
from longpole_server.read import Reader
from longpole_server.service.conversions import gpus_during
from longpole_server.service.facts import FactsReader
from longpole_server.service.runs import RunsReader
from longpole_server.service.stage_energy import (
    estimate_energy,
    list_moments,
    sum_energy,
    take_between,
)

MAX_ENERGY_STEPS = 200
# Of steps that were not read before, each as often as it has GPUs: some seconds of a core.
MAX_READ_GPUS = 40_000
# Energy of steps that were read so long after their end does not change any more: late samples
# have come. Of newer ones it is read anew after as long as they had ended when it was read, and
# this at least.
_SETTLED_NS = 60 * 10**9
_MIN_PAUSE_NS = 5 * 10**9
_MAX_KEPT = 1_000
# Moments so close together are asked for at once: of the time between far ones nothing is read.
_NEAR_NS = 30 * 10**9


class EnergyReader:
    """Reads what GPUs took, and keeps that of steps. Thread-safe.

    Every method raises `StoreError` when the database fails.

    Args:
        reader: Reads the store.
        runs: Answers for runs.
        facts: Builds and keeps facts of steps.
        now_ns: Wall clock, UTC nanoseconds.
        max_read_gpus: GPUs of steps that one answer may read anew.
        max_kept: Steps that are kept; the longest unread goes first.
    """

    def __init__(
        self,
        reader: Reader,
        runs: RunsReader,
        facts: FactsReader,
        now_ns: Callable[[], int] = time.time_ns,
        max_read_gpus: int = MAX_READ_GPUS,
        max_kept: int = _MAX_KEPT,
    ) -> None:
        self._max_kept = max_kept
        self._max_read_gpus = max_read_gpus
        self._reader = reader
        self._runs = runs
        self._facts = facts
        self._now_ns = now_ns
        self._lock = threading.Lock()
        # With the time it was read.
        self._kept: OrderedDict[tuple[object, ...], tuple[int, StepEnergy]] = OrderedDict()

    def read_stages(self, step: Step, run_gpus: Sequence[RunGpu]) -> tuple[StageEnergy, ...]:
        """Return the energy of a step by stage and role; of an open one, of what has ended."""
        gpus = gpus_during(run_gpus, step)
        uuids = [gpu.gpu_uuid for gpu in gpus]
        joules = self._facts.gpus.read_energy(uuids, list_moments(step))
        return self._fill(step, run_gpus, sum_energy(step, gpus, joules))

    def read_run(self, run_id: str, steps: Sequence[Step]) -> RunEnergy:
        """Return the energy of a run and of some of its closed steps.

        Of a large run these are the newest ones; asked for again it knows them and more.
        """
        run_gpus = self._runs.list_run_gpus(run_id)
        held = self._find_held(run_id, run_gpus)
        return RunEnergy(
            run_id=run_id,
            energy_joules=self._sum_held(held),
            gpu_seconds=sum(length(each) for each in held.values()) / 1e9,
            steps=tuple(self._read_steps(steps, run_gpus)),
        )

    def _read_steps(self, steps: Sequence[Step], run_gpus: Sequence[RunGpu]) -> list[StepEnergy]:
        found: deque[StepEnergy] = deque()
        num_read = 0
        for step in reversed([step for step in steps if step.end_ns]):
            gpus = gpus_during(run_gpus, step)
            uuids = tuple(gpu.gpu_uuid for gpu in gpus)
            key = (step.run_id, step.attempt, step.step, step.start_ns, step.end_ns, uuids)
            known = self._recall(key)
            if known is None:
                if num_read and num_read + len(uuids) > self._max_read_gpus:
                    break
                num_read += len(uuids)
                # Taken before reading: what comes in meanwhile counts as later.
                read_ns = self._now_ns()
                known = self._read_step(step, run_gpus, gpus)
                self._keep(key, read_ns, known)
            found.appendleft(known)
        return list(found)

    def _recall(self, key: tuple[object, ...]) -> StepEnergy | None:
        """Return what is kept of a step, unless late samples may have come since."""
        with self._lock:
            kept = self._kept.get(key)
        if kept is None:
            return None
        read_ns, known = kept
        age_ns = read_ns - known.end_ns
        is_due = self._now_ns() - read_ns >= max(_MIN_PAUSE_NS, age_ns)
        return None if is_due and age_ns <= _SETTLED_NS else known

    def _read_step(
        self, step: Step, run_gpus: Sequence[RunGpu], gpus: Sequence[RunGpu]
    ) -> StepEnergy:
        uuids = [gpu.gpu_uuid for gpu in gpus]
        end_ns = step.end_ns or step.start_ns
        moments = sorted({step.start_ns, end_ns, *list_moments(step)})
        joules = self._reader.read_energy(uuids, moments)
        whole = [take_between(uuid, [(step.start_ns, end_ns)], joules) for uuid in uuids]
        total = _sum(whole)
        stages = self._fill(step, run_gpus, sum_energy(step, gpus, joules))
        is_estimated = total is None and any(each.is_estimated for each in stages)
        if is_estimated:
            total = _sum(each.energy_joules for each in stages)
        return StepEnergy(
            step=step.step,
            attempt=step.attempt,
            start_ns=step.start_ns,
            end_ns=end_ns,
            duration_s=(end_ns - step.start_ns) / 1e9,
            gpu_count=len(uuids),
            tokens_total=step.tokens_total,
            energy_joules=total,
            joules_per_token=total / step.tokens_total
            if total is not None and step.tokens_total
            else None,
            is_estimated=is_estimated,
            stages=stages,
        )

    def _keep(self, key: tuple[object, ...], read_ns: int, found: StepEnergy) -> None:
        with self._lock:
            self._kept[key] = read_ns, found
            # What is read anew is wanted still.
            self._kept.move_to_end(key)
            while len(self._kept) > self._max_kept:
                self._kept.popitem(last=False)

    def _fill(
        self, step: Step, run_gpus: Sequence[RunGpu], stages: tuple[StageEnergy, ...]
    ) -> tuple[StageEnergy, ...]:
        """Return an estimate where no counter tells anything of a closed step."""
        if step.closed_by is None or any(each.energy_joules is not None for each in stages):
            return stages
        return estimate_energy(self._facts.read_step(step, run_gpus).gpu_windows) or stages

    def _find_held(self, run_id: str, run_gpus: Iterable[RunGpu]) -> Mapping[str, list[Interval]]:
        """Return when each GPU was held, up to where anything is known of the run."""
        last_ns = self._runs.get_summary(run_id).last_seen_ns
        spans: defaultdict[str, list[Interval]] = defaultdict(list)
        for gpu in run_gpus:
            end_ns = last_ns if gpu.until_ns is None else min(gpu.until_ns, last_ns)
            spans[gpu.gpu_uuid].append((gpu.since_ns, end_ns))
        return {uuid: held for uuid, each in spans.items() if (held := union(each))}

    def _sum_held(self, held: Mapping[str, Sequence[Interval]]) -> float | None:
        gpus_at: defaultdict[int, set[str]] = defaultdict(set)
        for uuid, intervals in held.items():
            for edge in (edge for interval in intervals for edge in interval):
                gpus_at[edge].add(uuid)
        joules: dict[tuple[str, int], float] = {}
        for moments in _split(sorted(gpus_at)):
            uuids = sorted({uuid for moment in moments for uuid in gpus_at[moment]})
            joules |= self._reader.read_energy(uuids, moments)
        return _sum(take_between(uuid, intervals, joules) for uuid, intervals in held.items())


def _split(moments: Sequence[int]) -> list[list[int]]:
    groups: list[list[int]] = []
    for moment in moments:
        if groups and moment - groups[-1][0] <= _NEAR_NS:
            groups[-1].append(moment)
        else:
            groups.append([moment])
    return groups


def _sum(parts: Iterable[float | None]) -> float | None:
    """Return a sum; a part of it is none."""
    total, is_empty = 0.0, True
    for part in parts:
        if part is None:
            return None
        total, is_empty = total + part, False
    return None if is_empty else total
