"""What the store answers about one run, from its records in memory.

Everything else is the product's: decoding, step assembly, facts, baselines, diagnosis.
"""

import dataclasses
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from longpole_server.diagnosis import diagnose
from longpole_server.model.diagnosis import Diagnosis
from longpole_server.model.facts import ObjectStoreFacts
from longpole_server.model.gpu import GpuHeatmap, RunGpu
from longpole_server.model.records import (
    UNKNOWN_STEP,
    EngineSample,
    GpuSample,
    MetricPoint,
    ProcessSeen,
    Records,
    RunStart,
    StageSpan,
    TrajectoryRecord,
    TrajectorySpan,
)
from longpole_server.model.step import Step
from longpole_server.model.trajectory import Trajectory
from longpole_server.read import AttemptRow, EngineBin, GpuWork, Reader, SampleColumns
from longpole_server.read.heatmap import plan_bins
from longpole_server.service.conversions import make_run_facts
from longpole_server.service.facts import FactsReader
from longpole_server.service.progress import AttemptProgress
from longpole_server.service.step_assembly import StepAssembler
from longpole_server.service.touched import AttemptKey
from support.sample_facts import make_trajectory_facts

_LOOK_BACK_NS = 120 * 10**9
_RECENT_STEPS = 20


class MemoryReader:
    """The queries of step assembly and of facts, over the records of one run."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self.steps: dict[int, Step] = {}
        starts: dict[int, RunStart] = {}
        for start in records.run_starts:
            starts[start.attempt] = start
        self.starts = starts
        self._spans: dict[tuple[int, int], dict[tuple[str, str], StageSpan]] = defaultdict(dict)
        for span in records.stage_spans:
            self._spans[span.attempt, span.step][span.trace_id, span.span_id] = span
        self._points: dict[tuple[int, int], dict[str, MetricPoint]] = defaultdict(dict)
        for point in records.metric_points:
            self._points[point.attempt, point.step][point.name] = point
        self._samples = {
            (each.attempt, each.trajectory_id, each.span_id): each for each in records.trajectories
        }
        self._engines = sorted(records.engine_samples, key=lambda each: each.ts_ns)
        self._gpus: dict[str, list[GpuSample]] = defaultdict(list)
        for sample in sorted(records.gpu_samples, key=lambda each: each.ts_ns):
            self._gpus[sample.gpu_uuid].append(sample)

    def list_attempts(self, run_id: str | None = None) -> Sequence[AttemptRow]:
        blank = {field.name: None for field in dataclasses.fields(AttemptRow)}
        return [
            AttemptRow(**cast("Any", {**blank, "start": start, "last_seen_ns": start.started_ns}))
            for start in self.starts.values()
        ]

    def list_run_gpus(self, run_id: str) -> Sequence[RunGpu]:
        held: dict[tuple[int, str], RunGpu] = {}
        for seen in self._records.processes:
            for uuid in seen.gpu_ids:
                samples = self._gpus.get(uuid)
                if samples:
                    held[seen.attempt, uuid] = _hold(seen, samples[0])
        return sorted(held.values(), key=lambda gpu: (gpu.host, gpu.gpu_index))

    def list_stage_spans(self, run_id: str, attempt: int, step: int) -> Sequence[StageSpan]:
        return list(self._spans[attempt, step].values())

    def get_scalars(
        self, run_id: str, attempt: int, step: int
    ) -> tuple[Mapping[str, float], int | None]:
        points = self._points[attempt, step]
        newest_ns = max((point.ts_ns for point in points.values()), default=None)
        return {name: point.value for name, point in points.items()}, newest_ns

    def list_scalars(
        self, run_id: str, keys: Sequence[tuple[int, int]]
    ) -> Mapping[tuple[int, int], Mapping[str, float]]:
        return {key: self.get_scalars(run_id, *key)[0] for key in keys}

    def list_steps(
        self, run_id: str, first: int | None = None, last: int | None = None
    ) -> Sequence[Step]:
        return [
            self.steps[number]
            for number in sorted(self.steps)
            if (first is None or number >= first) and (last is None or number <= last)
        ]

    def list_last_steps(self, run_id: str, count: int) -> Sequence[Step]:
        closed = [step for step in self.list_steps(run_id) if step.closed_by is not None]
        return closed[-count:]

    def read_samples(
        self,
        run_id: str,
        attempt: int,
        step: int,
        window_ns: tuple[int, int] | None,
        limit: int,
    ) -> SampleColumns:
        found = [
            _to_trajectory(each, step)
            for each in self._samples.values()
            if each.attempt == attempt
            and each.phase == "train"
            and (each.step == step or _falls_into(each, window_ns))
        ]
        found.sort(key=lambda each: (each.start_ns, each.trajectory_id))
        names = [each.trajectory_id for each in found]
        return SampleColumns(names, make_trajectory_facts(found))

    def list_main_tools(self, run_id: str, attempt: int, step: int) -> Mapping[str, str]:
        longest: dict[str, TrajectorySpan] = {}
        for part in self._records.trajectory_spans:
            if part.kind == "tool":
                longest.setdefault(part.trajectory_id, part)
        return {name: part.name for name, part in longest.items()}

    def has_engines(self, run_id: str, attempt: int) -> bool:
        return bool(self._engines)

    def list_engine_bins(
        self,
        run_id: str,
        attempt: int,
        names: Sequence[str],
        start_ns: int,
        end_ns: int,
        bin_ns: int,
    ) -> Sequence[EngineBin]:
        series: dict[tuple[str, str], list[EngineSample]] = defaultdict(list)
        for sample in self._engines:
            if start_ns - _LOOK_BACK_NS <= sample.ts_ns < end_ns:
                series[sample.replica, sample.name].append(sample)
        binned: dict[tuple[str, str, int], list[tuple[float, float]]] = defaultdict(list)
        for (replica, labelled), samples in series.items():
            name = labelled.partition("{")[0]
            if name not in names:
                continue
            before: float | None = None
            for sample in samples:
                increase = 0.0
                if before is not None:
                    fell = sample.value < before
                    increase = sample.value if fell else sample.value - before
                before = sample.value
                if sample.ts_ns >= start_ns:
                    place = (sample.ts_ns - start_ns) // bin_ns
                    binned[replica, name, place].append((sample.value, increase))
        return [
            EngineBin(
                replica,
                name,
                place,
                sum(value for value, _ in pairs) / len(pairs),
                max(value for value, _ in pairs),
                sum(increase for _, increase in pairs),
            )
            for (replica, name, place), pairs in sorted(binned.items())
        ]

    def list_object_stores(
        self, hosts: Sequence[str], start_ns: int, end_ns: int
    ) -> Sequence[ObjectStoreFacts]:
        return []

    def get_gpu_heatmaps(
        self,
        lanes: Sequence[RunGpu],
        names: Sequence[str],
        start_ns: int,
        end_ns: int,
        max_bins: int,
    ) -> Mapping[str, GpuHeatmap]:
        bins = plan_bins(start_ns, end_ns, max_bins, has_rollup=False)
        sums = {name: np.zeros((len(lanes), bins.num_bins)) for name in names}
        counts = {name: np.zeros((len(lanes), bins.num_bins)) for name in names}
        for row, lane in enumerate(lanes):
            for sample in self._gpus[lane.gpu_uuid]:
                place = (sample.ts_ns - bins.start_ns) // bins.bin_ns
                if not 0 <= place < bins.num_bins:
                    continue
                for name in names:
                    value = getattr(sample, name)
                    if value is not None:
                        sums[name][row, place] += value
                        counts[name][row, place] += 1
        with np.errstate(invalid="ignore"):
            return {
                name: GpuHeatmap(
                    name,
                    tuple(lanes),
                    bins.start_ns,
                    bins.bin_ns,
                    (sums[name] / counts[name]).astype(np.float32),
                )
                for name in names
            }

    def read_gpu_columns(
        self, gpu_uuids: Sequence[str], start_ns: int, end_ns: int, max_samples: int
    ) -> None:
        return None

    def list_gpu_work(
        self,
        uuids: Sequence[str],
        start_ns: int,
        end_ns: int,
        busy_activity: float,
        slowdown_mask: int,
    ) -> Sequence[GpuWork]:
        found: list[GpuWork] = []
        for uuid in uuids:
            own = [each for each in self._gpus[uuid] if start_ns <= each.ts_ns < end_ns]
            if own:
                found.append(_work(uuid, own, end_ns - start_ns, busy_activity, slowdown_mask))
        return found


def _hold(seen: ProcessSeen, sample: GpuSample) -> RunGpu:
    return RunGpu(
        run_id=seen.run_id,
        attempt=seen.attempt,
        host=sample.host,
        gpu_uuid=sample.gpu_uuid,
        gpu_index=sample.gpu_index,
        role=seen.role,
        since_ns=min(seen.seen_ns, sample.ts_ns),
        until_ns=None,
        how="gpu_ids",
        model=sample.model,
    )


def _falls_into(sample: TrajectoryRecord, window_ns: tuple[int, int] | None) -> bool:
    if sample.step != UNKNOWN_STEP or window_ns is None:
        return False
    return window_ns[0] < sample.end_ns <= window_ns[1]


def _to_trajectory(record: TrajectoryRecord, step: int) -> Trajectory:
    wanted = {field.name for field in dataclasses.fields(Trajectory)} - {"duration_s", "step"}
    values: dict[str, Any] = {name: getattr(record, name) for name in wanted}
    return Trajectory(**values, step=step, duration_s=(record.end_ns - record.start_ns) / 1e9)


def _work(
    uuid: str, own: Sequence[GpuSample], range_ns: int, busy_activity: float, mask: int
) -> GpuWork:
    def activity(sample: GpuSample) -> float:
        known = (sample.sm_active_ratio, sample.utilization_ratio, 0.0)
        return next(value for value in known if value is not None)

    interval_s = range_ns / 1e9
    if len(own) > 1:
        interval_s = (own[-1].ts_ns - own[0].ts_ns) / (len(own) - 1) / 1e9
    busy = [sample for sample in own if activity(sample) >= busy_activity]
    clocks = [sample.sm_clock_hz for sample in busy if sample.sm_clock_hz is not None]
    told = [
        sample.clocks_event_reasons & mask
        for sample in busy
        if sample.clocks_event_reasons is not None
    ]
    reasons = 0
    for each in told:
        reasons |= each
    return GpuWork(
        uuid,
        len(busy) * interval_s,
        (len(own) - len(busy)) * interval_s,
        sum(clocks) / len(clocks) if clocks else None,
        sum(map(bool, told)) / len(told) if told else None,
        reasons,
        own[-1].ts_ns,
    )


class MemoryRun:
    """The steps of one run, assembled, and diagnoses of its ranges."""

    def __init__(self, records: Records, run_id: str) -> None:
        self._reader = MemoryReader(records)
        self._run_id = run_id
        reader = cast("Reader", self._reader)
        self._facts = FactsReader(reader)
        assembler = StepAssembler(reader, self._facts, lambda: False)
        self.first_steps: dict[int, int] = {}
        for attempt in sorted(self._reader.starts):
            numbers = {
                record.step
                for record in (*records.stage_spans, *records.metric_points)
                if record.attempt == attempt and record.step != UNKNOWN_STEP
            }
            assembled = assembler.assemble(
                AttemptKey(run_id, attempt), AttemptProgress(), sorted(numbers)
            )
            self.failed = assembled.failed
            for step, _ in assembled.derived:
                self._reader.steps[step.step] = step
            if assembled.derived:
                self.first_steps[attempt] = min(step.step for step, _ in assembled.derived)

    @property
    def steps(self) -> Sequence[Step]:
        return self._reader.list_steps(self._run_id)

    def diagnose(self, first: int | None = None, last: int | None = None) -> Diagnosis:
        """Diagnose a range as the service does."""
        reader, run_id = self._reader, self._run_id
        if first is None and last is None:
            steps = reader.list_last_steps(run_id, _RECENT_STEPS)
        else:
            steps = reader.list_steps(run_id, first, last)
        attempt = steps[-1].attempt if steps else max(reader.starts)
        run = make_run_facts(reader.starts[attempt], reader.list_run_gpus(run_id))
        baseline = None
        if attempt in self.first_steps:
            baseline = self._facts.read_baseline(run, attempt, self.first_steps[attempt], steps)
        return diagnose(
            run,
            self._facts.read_steps(steps),
            baseline,
            asked=(first, last),
            attempt_starts=self.first_steps,
        )
