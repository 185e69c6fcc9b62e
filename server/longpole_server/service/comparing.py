"""Compares two windows of steps: what made one faster than the other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from longpole_server.analysis.compared_runs import (
    compare_config,
    describe_config,
    find_usual_verdict,
    name_window,
)
from longpole_server.analysis.window import summarise_window
from longpole_server.diagnosis import compare_windows
from longpole_server.model.comparison import (
    ComparedWindow,
    Comparison,
    SampleDistribution,
)
from longpole_server.model.records import RunStart
from longpole_server.model.step import Step
from longpole_server.read import AttemptRow, Reader
from longpole_server.read.distributions import StepWindow
from longpole_server.service.conversions import make_run_facts
from longpole_server.service.digests import RECENT_STEPS
from longpole_server.service.interface import StepRange
from longpole_server.service.ranges import check_range
from longpole_server.service.runs import RunsReader


@dataclass(frozen=True, slots=True)
class _Side:
    window: ComparedWindow
    judged: Sequence[Step]
    config: Mapping[str, str]
    start: RunStart


class Comparer:
    """Compares windows of stored runs. Thread-safe.

    Args:
        reader: Reads the store.
        runs: Answers for runs.
    """

    def __init__(self, reader: Reader, runs: RunsReader) -> None:
        self._reader = reader
        self._runs = runs

    def compare(
        self, run_id: str, other_run_id: str, steps: StepRange, other_steps: StepRange
    ) -> Comparison:
        """Say what changed from the other run's window (`before`) to this run's (`after`).

        Raises:
            NotFoundError: One of the runs does not exist.
            BadRequestError: A range ends before it begins.
            StoreError: The database failed.
        """
        check_range(steps.first, steps.last)
        check_range(other_steps.first, other_steps.last, "with_")
        after = self._read_side(run_id, steps)
        before = self._read_side(other_run_id, other_steps)
        changed = compare_windows(
            make_run_facts(after.start, ()),
            before.judged,
            after.judged,
            name_window(before.window, after.window),
        )
        return Comparison(
            before=before.window,
            after=after.window,
            decomposition=changed.decomposition,
            distributions=self._read_distributions(before, after),
            config=compare_config(before.config, after.config),
            findings=changed.findings,
            remarks=changed.remarks,
        )

    def _read_side(self, run_id: str, asked: StepRange) -> _Side:
        rows = self._runs.list_attempts(run_id)
        if asked.first is None and asked.last is None:
            steps = self._reader.list_last_steps(run_id, RECENT_STEPS)
        else:
            steps = self._reader.list_steps(run_id, asked.first, asked.last)
        window = summarise_window(steps, self._runs.get_digest(run_id).first_steps)
        numbers = [step.step for step in window.judged]
        attempts = tuple(sorted({step.attempt for step in window.judged}))
        row = _find_row(rows, attempts)
        verdict, num_verdict = find_usual_verdict(window.judged)
        described = ComparedWindow(
            run_id=run_id,
            run_name=row.start.name or run_id,
            first_step=min(numbers, default=asked.first),
            last_step=max(numbers, default=asked.last),
            num_judged=len(window.judged),
            excluded=window.excluded,
            attempts=attempts,
            verdict=verdict,
            num_verdict=num_verdict,
        )
        return _Side(described, window.judged, describe_config(row.start), row.start)

    def _read_distributions(self, before: _Side, after: _Side) -> tuple[SampleDistribution, ...]:
        first, second = (
            self._reader.get_sample_quantiles(side.window.run_id, _list_windows(side.judged))
            for side in (before, after)
        )
        return tuple(
            SampleDistribution(
                metric, "s" if metric == "duration_s" else "tokens", first[metric], second[metric]
            )
            for metric in first
        )


def _find_row(rows: Sequence[AttemptRow], attempts: Sequence[int]) -> AttemptRow:
    """Return the newest attempt of the window, of the run when the window has none."""
    of_window = [row for row in rows if row.start.attempt in attempts]
    return (of_window or rows)[-1]


def _list_windows(steps: Sequence[Step]) -> list[StepWindow]:
    return [
        StepWindow(step.attempt, step.step, step.start_ns, step.end_ns)
        for step in steps
        if step.end_ns is not None
    ]
