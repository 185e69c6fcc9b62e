"""A log made ready for diagnosis: facts per step, latest attempt of each step."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace

from longpole_server.analysis.ledger import assemble_step
from longpole_server.importers.logged import (
    WHOLE_STEP,
    LoggedStep,
    LogSummary,
    has_step_total,
)
from longpole_server.importers.reading import read_steps, refuse_without_steps
from longpole_server.importers.sources import LogSource
from longpole_server.importers.verl_run import ModeWatch, agree_on_gpu_count, derive_gpu_count
from longpole_server.model.facts import RunFacts, StepFacts, StepInputs
from longpole_server.model.step import Note

# Bound of what is kept in memory, whatever the size of the file.
MAX_STEPS = 10_000
_CONTRADICTION = "gpus.contradiction"
_AMBIGUOUS = Note(
    code="mode.ambiguous",
    severity="warning",
    summary="Samples are older than the policy, so the trainer runs asynchronously, but the log "
    "does not say whether on GPUs of its own: gen is judged as if it shared them.",
)
_SUMMED = Note(
    code="step.summed",
    severity="info",
    summary="The log does not say how long a step took: the sum of its stages stands for it.",
)


@dataclass(frozen=True, slots=True)
class ImportedFacts:
    """What a log says, ready to be judged."""

    run: RunFacts
    steps: tuple[StepFacts, ...]
    notes: tuple[Note, ...]


def import_facts(
    source: LogSource,
    run_id: str,
    max_steps: int = MAX_STEPS,
    *,
    model_config: Mapping[str, object] | None = None,
    gpu_model: str | None = None,
) -> ImportedFacts:
    """Read a log into facts, the last `max_steps` steps of it.

    Args:
        source: The log.
        run_id: Name of the run that it becomes.
        max_steps: How many steps are kept at the most.
        model_config: Hugging Face configuration of the model: logs do not say it.
        gpu_model: Name of the GPUs, likewise.

    Raises:
        UnreadableLogError: It is binary, or holds no complete step.
    """
    summary = LogSummary()
    kept: OrderedDict[int, LoggedStep] = OrderedDict()
    num_left_out = 0
    for logged in read_steps(source, summary):
        if logged.torn:
            continue
        _keep(logged, kept)
        if len(kept) > max_steps:
            kept.popitem(last=False)
            num_left_out += 1
    run, notes = _describe_run(run_id, source.name, kept)
    run = replace(run, model_config=model_config, gpu_model=gpu_model)
    steps = tuple(
        StepFacts(step=step, scalars=logged.scalars)
        for logged in sorted(kept.values(), key=lambda item: item.step)
        if (step := assemble_step(inputs_of(run, logged, source.modified_ns))).duration_s
        is not None
    )
    if not steps:
        raise refuse_without_steps(source, summary)
    if any(note.code == _CONTRADICTION for facts in steps for note in facts.step.notes):
        # Said of the steps already.
        notes = tuple(note for note in notes if note.code != _CONTRADICTION)
    if num_left_out:
        notes = (*notes, _left_out(num_left_out, max_steps))
    if any(facts.step.closed_by == "successor" for facts in steps):
        notes = (*notes, _SUMMED)
    return ImportedFacts(run, steps, (*summary.finish(), *notes))


def inputs_of(run: RunFacts, logged: LoggedStep, end_ns: int) -> StepInputs:
    """Return what analysis needs of a logged step that ends at `end_ns`."""
    # verl's first versions log no seconds of the step: it ends when its line is printed.
    is_timed = any(key in logged.scalars for key in WHOLE_STEP)
    is_done = has_step_total(logged.scalars)
    return StepInputs(
        run=run,
        attempt=logged.attempt,
        step=logged.step,
        scalars=logged.scalars,
        scalars_ns=end_ns,
        successor_start_ns=end_ns if is_done and not is_timed else None,
        end_ns_hint=end_ns,
    )


def _keep(logged: LoggedStep, kept: OrderedDict[int, LoggedStep]) -> None:
    """Add a step: it replaces an earlier attempt's, and completes its own attempt's."""
    before = kept.pop(logged.step, None)
    if before is not None and before.attempt == logged.attempt:
        logged = replace(logged, scalars={**before.scalars, **logged.scalars})
    elif before is not None and not has_step_total(logged.scalars):
        # Validation before a resumed training goes on: the step was not done again.
        logged = before
    kept[logged.step] = logged


def _describe_run(
    run_id: str, name: str, kept: Mapping[int, LoggedStep]
) -> tuple[RunFacts, tuple[Note, ...]]:
    derived = [
        count for step in kept.values() if (count := derive_gpu_count(step.scalars)) is not None
    ]
    gpu_count, contradicting = agree_on_gpu_count(derived)
    watch = ModeWatch()
    for step in kept.values():
        watch.add(step.scalars)
    run = RunFacts(run_id=run_id, name=name, system="verl", mode=watch.mode)
    notes: tuple[Note, ...] = (_AMBIGUOUS,) if watch.is_ambiguous else ()
    if contradicting:
        notes = (
            *notes,
            Note(
                code=_CONTRADICTION,
                severity="warning",
                summary=f"tokens / (step time x throughput) gives no single GPU count: "
                f"{contradicting} of {len(derived)} steps disagree.",
                metric="perf/throughput",
            ),
        )
    return replace(run, gpu_count=gpu_count), notes


def _left_out(count: int, max_steps: int) -> Note:
    return Note(
        code="log.window",
        severity="info",
        summary=f"Only the last {max_steps:,} steps are judged; {count:,} earlier ones are not.",
    )
