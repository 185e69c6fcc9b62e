"""Reads what the store holds into the facts that analysis and diagnosis judge."""

import threading
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from longpole.conventions import stages
from longpole_server.analysis.step_table import StepTable
from longpole_server.diagnosis import NEWEST_LOOKS, Baseline
from longpole_server.model.facts import (
    EngineWindow,
    GpuFacts,
    GpuWindow,
    ObjectStoreFacts,
    RunFacts,
    StepFacts,
    TrajectoryFacts,
)
from longpole_server.model.gpu import RunGpu
from longpole_server.model.records import StageSpan
from longpole_server.model.step import Step
from longpole_server.read import Reader, SampleColumns
from longpole_server.service.baselines import BaselineReader
from longpole_server.service.conversions import (
    find_pools_mode,
    gpus_during,
    make_run_facts,
    make_sync_phases,
    sample_window_ns,
)
from longpole_server.service.engine_windows import (
    ENGINE_SERIES,
    rollout_windows,
    summarise_engines,
)
from longpole_server.service.gpu_windows import WINDOW_FIELDS, average_windows, describe_gpus
from longpole_server.service.step_gpus import MAX_STEP_BINS, StepGpus

# Bounds of what is kept of recent steps (a range and what step closing adds meanwhile), of what
# is read of one.
_MAX_KEPT_STEPS = 64
# Older steps of long ranges, of which scalars and ledger are kept.
_MAX_KEPT_OLDER = 600
_MAX_KEPT_SAMPLES = 200_000
_MAX_STEP_SAMPLES = 100_000
_MAX_ENGINE_BINS = 600
_SHORTEST_BIN_NS = 1_000_000_000
# How far around the generation engines are looked at for what they hold at rest.
_REST_NS = 30 * 10**9

_StepKey = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class AttemptFacts:
    """What is known of an attempt apart from its steps.

    Attributes:
        run: What it says about itself, completed by its GPUs.
        run_gpus: The GPUs of all attempts of the run.
        is_imported: Whether it comes from a log: such a one has scalars only.
    """

    run: RunFacts
    run_gpus: Sequence[RunGpu]
    is_imported: bool


class FactsReader:
    """Builds facts of runs and steps, and keeps those of recent steps. Thread-safe.

    Every method raises `StoreError` when the database fails.

    Attributes:
        gpus: What GPUs did in a step, from the samples that its facts were made of.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._lock = threading.Lock()
        self._steps: OrderedDict[_StepKey, StepFacts] = OrderedDict()
        self._older: OrderedDict[_StepKey, StepFacts] = OrderedDict()
        self._baselines = BaselineReader(reader)
        self.gpus = StepGpus(reader)

    def read_attempt(self, run_id: str, attempt: int) -> AttemptFacts:
        """Return what is known of an attempt; nothing is, when it was never announced."""
        run_gpus = self._reader.list_run_gpus(run_id)
        for row in self._reader.list_attempts(run_id):
            if row.start.attempt == attempt:
                return AttemptFacts(
                    make_run_facts(row.start, run_gpus), run_gpus, row.start.imported
                )
        return AttemptFacts(RunFacts(run_id=run_id, name=run_id), run_gpus, is_imported=False)

    def read_step(
        self,
        step: Step,
        run_gpus: Sequence[RunGpu] | None = None,
        spans: Sequence[StageSpan] | None = None,
    ) -> StepFacts:
        """Return the facts of a closed step, from memory when they are there.

        Args:
            step: The step.
            run_gpus: The GPUs of its run, when they are known.
            spans: Its stages' spans, when they are known.
        """
        with self._lock:
            kept = self._steps.get(_key(step))
        if kept is not None:
            return kept
        scalars, _ = self._reader.get_scalars(step.run_id, step.attempt, step.step)
        if spans is None:
            spans = self._reader.list_stage_spans(step.run_id, step.attempt, step.step)
        if run_gpus is None:
            run_gpus = self._reader.list_run_gpus(step.run_id)
        facts = self.build_step(
            step,
            scalars,
            self.read_columns(step),
            run_gpus,
            spans,
            has_engines=self._reader.has_engines(step.run_id, step.attempt),
        )
        self._keep_read(facts)
        return facts

    def read_steps(self, steps: Sequence[Step]) -> list[StepFacts]:
        """Return the facts of closed steps of one run, in their order.

        The newest `NEWEST_LOOKS` come with their samples and GPUs, older ones with scalars.
        """
        table = StepTable.of(steps)
        pairs = list(zip(table.attempts.tolist(), table.numbers.tolist(), strict=True))
        run_id = table.columns.run_id
        newest = set(pairs[-NEWEST_LOOKS:])
        found: dict[tuple[int, int], StepFacts] = {}
        with self._lock:
            for pair in pairs:
                key = (run_id, *pair)
                known = self._steps.get(key)
                if known is None and pair not in newest:
                    known = self._older.get(key)
                if known is not None:
                    found[pair] = known
        missing = [pair for pair in pairs if pair not in found]
        if missing:
            found |= self._read_missing(run_id, missing, newest)
        # What was there when the range was read may be gone: it is judged by its ledger.
        return [found.get(pair) or StepFacts(table[row]) for row, pair in enumerate(pairs)]

    def _read_missing(
        self,
        run_id: str,
        missing: Sequence[tuple[int, int]],
        newest: Collection[tuple[int, int]],
    ) -> dict[tuple[int, int], StepFacts]:
        scalars = self._reader.list_scalars(run_id, missing)
        run_gpus = self._reader.list_run_gpus(run_id)
        whole = [pair for pair in missing if pair in newest]
        spans = self._reader.list_stage_spans_of(run_id, whole)
        # Most questions are spared where there is nothing to ask for.
        attempts = {attempt for attempt, _ in whole}
        sampled = {each for each in attempts if self._reader.has_samples(run_id, each)}
        engined = {each for each in attempts if self._reader.has_engines(run_id, each)}
        found: dict[tuple[int, int], StepFacts] = {}
        for step in self._reader.list_steps_at(run_id, missing):
            pair = (step.attempt, step.step)
            if pair in newest:
                found[pair] = self.build_step(
                    step,
                    scalars.get(pair, {}),
                    self.read_columns(step) if step.attempt in sampled else SampleColumns(),
                    run_gpus,
                    spans.get(pair, ()),
                    has_engines=step.attempt in engined,
                )
                self._keep_read(found[pair])
                continue
            found[pair] = StepFacts(step, scalars.get(pair, {}))
            with self._lock:
                self._older[_key(step)] = found[pair]
                while len(self._older) > _MAX_KEPT_OLDER:
                    self._older.popitem(last=False)
        return found

    def _keep_read(self, facts: StepFacts) -> None:
        with self._lock:
            # What step closing kept meanwhile is newer.
            if _key(facts.step) not in self._steps:
                self._insert(facts)

    def read_samples(
        self,
        step: Step,
        run_gpus: Sequence[RunGpu] | None = None,
        spans: Sequence[StageSpan] | None = None,
    ) -> TrajectoryFacts | None:
        """Return the training samples of a step as columns, None without any; as `read_step`."""
        if step.closed_by is not None:
            return self.read_step(step, run_gpus, spans).trajectories
        return self.read_columns(step).facts

    def build_step(
        self,
        step: Step,
        scalars: Mapping[str, float],
        samples: SampleColumns,
        run_gpus: Sequence[RunGpu],
        spans: Sequence[StageSpan] = (),
        *,
        has_engines: bool = True,
    ) -> StepFacts:
        """Put the facts of a closed step together; GPUs' and engines' samples are read here."""
        lanes = gpus_during(run_gpus, step)
        self.gpus.hold(step, lanes)
        return StepFacts(
            step=step,
            scalars=scalars,
            trajectories=samples.with_tools(self._read_tools(step, samples)),
            gpu_windows=self._read_gpu_windows(step, lanes),
            engine_windows=(
                self._read_engine_windows(step, lanes, spans) if spans and has_engines else ()
            ),
            sync_phases=make_sync_phases(spans),
            gpus=self._read_gpus(step, lanes),
            object_stores=self._read_object_stores(step, lanes, spans),
        )

    def keep(self, facts: StepFacts) -> None:
        """Remember the newest facts of a step that was judged."""
        self._baselines.note(facts.step)
        with self._lock:
            self._steps.pop(_key(facts.step), None)
            self._older.pop(_key(facts.step), None)
            self._insert(facts)

    def read_columns(self, step: Step) -> SampleColumns:
        """Return the training samples of a step as the store has them now."""
        return self._reader.read_samples(
            step.run_id, step.attempt, step.step, sample_window_ns(step), _MAX_STEP_SAMPLES
        )

    def read_baseline(
        self, run: RunFacts, attempt: int, first_step: int, judged: Sequence[Step] = ()
    ) -> Baseline | None:
        """Return what was usual when an attempt began, and just before the judged steps.

        Args:
            run: What the attempt says about itself.
            attempt: The attempt.
            first_step: Its first step.
            judged: The steps to compare, in order.
        """
        return self._baselines.read(run, attempt, first_step, judged)

    def _insert(self, facts: StepFacts) -> None:
        self._steps[_key(facts.step)] = facts
        num_samples = sum(map(_num_samples, self._steps.values()))
        while len(self._steps) > 1 and (
            len(self._steps) > _MAX_KEPT_STEPS or num_samples > _MAX_KEPT_SAMPLES
        ):
            num_samples -= _num_samples(self._steps.popitem(last=False)[1])

    def _read_tools(self, step: Step, samples: SampleColumns) -> Mapping[str, str]:
        if not samples.uses_tools:
            return {}
        return self._reader.list_main_tools(step.run_id, step.attempt, step.step)

    def _read_gpu_windows(self, step: Step, lanes: Sequence[RunGpu]) -> tuple[GpuWindow, ...]:
        if step.end_ns is None or not lanes:
            return ()
        return average_windows(
            step,
            self.gpus.get_heatmaps(lanes, WINDOW_FIELDS, step.start_ns, step.end_ns, MAX_STEP_BINS),
        )

    def _read_gpus(self, step: Step, lanes: Sequence[RunGpu]) -> tuple[GpuFacts, ...]:
        if step.end_ns is None or not lanes:
            return ()
        uuids = [lane.gpu_uuid for lane in lanes]
        return describe_gpus(lanes, self.gpus.list_work(uuids, step.start_ns, step.end_ns))

    def _read_object_stores(
        self, step: Step, lanes: Sequence[RunGpu], spans: Sequence[StageSpan]
    ) -> tuple[ObjectStoreFacts, ...]:
        if step.end_ns is None:
            return ()
        hosts = sorted({lane.host for lane in lanes} | {span.host for span in spans if span.host})
        return tuple(self._reader.list_object_stores(hosts, step.start_ns, step.end_ns))

    def _read_engine_windows(
        self, step: Step, lanes: Sequence[RunGpu], spans: Sequence[StageSpan]
    ) -> tuple[EngineWindow, ...]:
        separate = find_pools_mode(lanes) is not None or step.stage(stages.GEN) is None
        windows = rollout_windows(step, separate_pools=separate, spans=spans)
        if not windows:
            return ()
        # Engines rest before and after they generate.
        start_ns = max(step.start_ns, windows[0][0] - _REST_NS)
        end_ns = max(windows[-1][1], min(step.end_ns or 0, windows[-1][1] + _REST_NS))
        bin_ns = max(_SHORTEST_BIN_NS, -(-(end_ns - start_ns) // _MAX_ENGINE_BINS))
        bins = self._reader.list_engine_bins(
            step.run_id, step.attempt, ENGINE_SERIES, start_ns, end_ns, bin_ns
        )
        return summarise_engines(bins, windows, start_ns, bin_ns, end_ns)


def _key(step: Step) -> _StepKey:
    return step.run_id, step.attempt, step.step


def _num_samples(facts: StepFacts) -> int:
    return len(facts.trajectories.durations_s) if facts.trajectories is not None else 0
