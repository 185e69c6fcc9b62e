"""Assembles and judges the steps of one attempt from what the store holds of them."""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

import orjson

from longpole_server.analysis.ledger import assemble_step
from longpole_server.diagnosis import diagnose_step, diagnosis_document
from longpole_server.model.facts import StepInputs
from longpole_server.model.records import StageSpan
from longpole_server.model.step import Step
from longpole_server.read import Reader, SampleColumns
from longpole_server.service.conversions import list_response_lengths, list_sequence_lengths
from longpole_server.service.facts import AttemptFacts, FactsReader
from longpole_server.service.progress import AttemptProgress
from longpole_server.service.touched import AttemptKey
from longpole_server.service.training_steps import is_validation

_logger = logging.getLogger(__name__)
_T = TypeVar("_T")


@dataclass(slots=True)
class Assembled:
    """What became of the steps.

    Attributes:
        derived: The steps, each with its diagnosis as JSON, "" without one.
        unjudged: Numbers of those that closed just now and wait for their verdict.
        failed: Numbers of the steps that could not be derived.
    """

    derived: list[tuple[Step, str]] = field(default_factory=list[tuple[Step, str]])
    unjudged: list[int] = field(default_factory=list[int])
    failed: list[int] = field(default_factory=list[int])


class StepAssembler:
    """Turns raw windows and scalars into derived steps with a verdict.

    Args:
        reader: Reads windows and scalars.
        facts: Builds and keeps the facts of judged steps.
        is_stopping: When true, the steps not tried yet count as failed.
    """

    def __init__(self, reader: Reader, facts: FactsReader, is_stopping: Callable[[], bool]) -> None:
        self._reader = reader
        self._facts = facts
        self._is_stopping = is_stopping
        self.num_failed = 0

    def assemble(
        self,
        attempt: AttemptKey,
        progress: AttemptProgress,
        steps: Iterable[int],
        *,
        ledger_first: bool = False,
    ) -> Assembled:
        """Assemble steps of one attempt, and the step before each that is new.

        What has validation scores alone is no step: trainers log the validation before training
        under a step's number.

        Args:
            attempt: Whose steps.
            progress: Brought up to date as steps are assembled.
            steps: Their numbers.
            ledger_first: Leave the verdict of a step that closes just now for later: what it
                needs takes longer to read, and the last of it is still under way.

        Raises:
            StoreError: The database failed before any step was tried.
        """
        known = self._facts.read_attempt(attempt.run_id, attempt.attempt)
        ledger_first = ledger_first and not known.is_imported
        assembled = Assembled()
        waiting: list[tuple[StepInputs, Step]] = []

        # Latest first: where a step begins closes the one before it.
        for number in sorted(_with_predecessors(progress, set(steps)), reverse=True):
            is_news = not progress.is_closed(number)
            work = partial(self._assemble_step, known, attempt.attempt, progress, number)
            found = self._try(attempt.run_id, number, work, assembled)
            if found is None:
                continue
            inputs, step = found
            if step.closed_by is not None and not (ledger_first and is_news):
                waiting.append((inputs, step))
                continue
            assembled.derived.append((step, ""))
            if step.closed_by is not None:
                assembled.unjudged.append(number)
        # Earliest first: steps are judged by what was usual before them.
        for inputs, step in reversed(waiting):
            work = partial(self._judge, known, inputs, step, progress)
            judged = self._try(attempt.run_id, step.step, work, assembled)
            if judged is not None:
                assembled.derived.append(judged)
        assembled.derived.sort(key=lambda derived: derived[0].step)
        return assembled

    def _try(
        self, run_id: str, number: int, work: Callable[[], _T], assembled: Assembled
    ) -> _T | None:
        """Return what came of a step; one that fails, or is too late to be tried, is named."""
        if not self._is_stopping():
            try:
                return work()
            except Exception:
                self.num_failed += 1
                _logger.exception("step %d of run %s failed", number, run_id)
        assembled.failed.append(number)
        return None

    def _assemble_step(
        self, known: AttemptFacts, attempt: int, progress: AttemptProgress, number: int
    ) -> tuple[StepInputs, Step] | None:
        run_id = known.run.run_id
        spans: Sequence[StageSpan] = ()
        if not known.is_imported:
            spans = self._reader.list_stage_spans(run_id, attempt, number)
        scalars, scalars_ns = self._reader.get_scalars(run_id, attempt, number)
        if not spans and all(map(is_validation, scalars)):
            return None
        inputs = StepInputs(
            run=known.run,
            attempt=attempt,
            step=number,
            spans=spans,
            scalars=scalars,
            scalars_ns=scalars_ns,
            successor_start_ns=self._successor_start_ns(run_id, progress, number),
        )
        step = assemble_step(inputs)
        progress.record(step)
        return inputs, step

    def _judge(
        self, known: AttemptFacts, inputs: StepInputs, step: Step, progress: AttemptProgress
    ) -> tuple[Step, str]:
        samples = SampleColumns() if known.is_imported else self._facts.read_columns(step)
        lengths = list_sequence_lengths(samples.facts)
        responses = list_response_lengths(samples.facts)
        if lengths or responses:
            told = replace(inputs, sequence_lengths=lengths, response_lengths=responses)
            step = assemble_step(told)
        progress.record(step)
        facts = self._facts.build_step(step, inputs.scalars, samples, known.run_gpus, inputs.spans)
        first_step = progress.first if progress.first is not None else step.step
        document = ""
        try:
            diagnosis = diagnose_step(
                inputs.run,
                facts,
                self._facts.read_baseline(inputs.run, step.attempt, first_step, [step]),
            )
        except Exception:
            # The ledger stands without a verdict.
            self.num_failed += 1
            _logger.exception("step %d of run %s was not judged", step.step, step.run_id)
        else:
            step = replace(step, verdict=diagnosis.verdict, confidence=diagnosis.confidence)
            document = orjson.dumps(diagnosis_document(diagnosis)).decode()
        self._facts.keep(replace(facts, step=step))
        return step, document

    def _successor_start_ns(
        self, run_id: str, progress: AttemptProgress, number: int
    ) -> int | None:
        following = progress.after(number)
        if following is None:
            return None
        start_ns = progress.start_ns(following)
        if start_ns is not None:
            return start_ns
        stored = self._reader.list_steps(run_id, following, following)
        return stored[0].start_ns if stored else None


def _with_predecessors(progress: AttemptProgress, steps: set[int]) -> set[int]:
    wanted = set(steps)
    for step in steps:
        if step not in progress:
            before = progress.before(step)
            if before is not None:
                wanted.add(before)
    return wanted
