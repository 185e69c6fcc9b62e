"""A log made ready for diagnosis: facts per step, latest attempt of each step."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from longpole.conventions import stages
from longpole_server.analysis.ledger import assemble_step
from longpole_server.importers.engine_lines import MAX_LINES_OF_STEP
from longpole_server.importers.engine_windows import make_engine_windows
from longpole_server.importers.logged import LoggedStep, has_step_total
from longpole_server.importers.run_traits import RunTraits, is_timed
from longpole_server.importers.runs import RunLogs, is_orchestrator_alone, stand_in
from longpole_server.importers.sources import LogSource
from longpole_server.model.facts import EngineWindow, RunFacts, StepFacts, StepInputs
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
    sources: LogSource | Sequence[LogSource],
    run_id: str,
    max_steps: int = MAX_STEPS,
    *,
    model_config: Mapping[str, object] | None = None,
    gpu_model: str | None = None,
) -> ImportedFacts:
    """Read the logs of one run into facts, the last `max_steps` steps of it.

    Args:
        sources: One log, or several of one run.
        run_id: Name of the run that it becomes.
        max_steps: How many steps are kept at the most.
        model_config: Hugging Face configuration of the model: logs do not say it.
        gpu_model: Name of the GPUs, likewise.

    Raises:
        UnreadableLogError: One is binary, or none holds a complete step.
    """
    logs = RunLogs((sources,) if isinstance(sources, LogSource) else sources)
    kept: OrderedDict[int, LoggedStep] = OrderedDict()
    num_left_out = 0
    for logged in logs.read():
        if logged.torn:
            continue
        _keep(logged, kept)
        if len(kept) > max_steps:
            kept.popitem(last=False)
            num_left_out += 1
    if is_orchestrator_alone(step.scalars for step in kept.values()):
        logs.has_orchestrator_alone = True
        kept = OrderedDict((number, stand_in(step)) for number, step in kept.items())
    run, notes = _describe_run(run_id, logs, kept)
    run = replace(run, model_config=model_config, gpu_model=gpu_model)
    steps = tuple(
        facts
        for logged in sorted(kept.values(), key=lambda item: item.step)
        if (facts := _make_facts(run, logged, logs.modified_ns)) is not None
    )
    if not steps:
        raise logs.refuse()
    if any(note.code == _CONTRADICTION for facts in steps for note in facts.step.notes):
        # Said of the steps already.
        notes = tuple(note for note in notes if note.code != _CONTRADICTION)
    if num_left_out:
        notes = (*notes, _left_out(num_left_out, max_steps))
    notes = (*notes, *_untimed(kept, steps))
    if any(facts.step.closed_by == "successor" for facts in steps):
        notes = (*notes, _SUMMED)
    return ImportedFacts(run, steps, (*logs.notes(), *notes))


def _make_facts(run: RunFacts, logged: LoggedStep, axis_end_ns: int) -> StepFacts | None:
    """Return the facts of a step, None for one that is not done."""
    end_ns = axis_end_ns if logged.time_ns is None else logged.time_ns
    step = assemble_step(inputs_of(run, logged, end_ns))
    if step.duration_s is None:
        return None
    engines: tuple[EngineWindow, ...] = ()
    if logged.engines:
        gen = step.stage(stages.GEN) or step.stage(stages.TRAINER_WAIT)
        seconds = step.duration_s if gen is None else gen.exclusive_s
        engines = make_engine_windows(logged.engines, seconds)
    return StepFacts(step=step, scalars=logged.scalars, engine_windows=engines)


def inputs_of(run: RunFacts, logged: LoggedStep, end_ns: int) -> StepInputs:
    """Return what analysis needs of a logged step that ends at `end_ns`."""
    # Where no seconds of the step are logged it ends when its line is printed.
    is_done = has_step_total(logged.scalars)
    return StepInputs(
        run=run,
        attempt=logged.attempt,
        step=logged.step,
        scalars=logged.scalars,
        scalars_ns=end_ns,
        successor_start_ns=end_ns if is_done and not is_timed(logged.scalars) else None,
        end_ns_hint=end_ns,
    )


def _keep(logged: LoggedStep, kept: OrderedDict[int, LoggedStep]) -> None:
    """Add a step: it replaces an earlier attempt's, and completes its own attempt's."""
    before = kept.pop(logged.step, None)
    if before is not None and before.attempt == logged.attempt:
        logged = replace(
            logged,
            scalars={**before.scalars, **logged.scalars},
            engines=(*before.engines, *logged.engines)[-MAX_LINES_OF_STEP:],
        )
    elif before is not None and not has_step_total(logged.scalars):
        # Validation before a resumed training goes on: the step was not done again.
        logged = before
    kept[logged.step] = logged


def _describe_run(
    run_id: str, logs: RunLogs, kept: Mapping[int, LoggedStep]
) -> tuple[RunFacts, tuple[Note, ...]]:
    traits = RunTraits(logs.system)
    traits.format_mode = logs.mode
    for step in kept.values():
        traits.add(step.scalars)
    run = RunFacts(
        run_id=run_id,
        name=logs.name,
        system=traits.system,
        mode=traits.mode,
        gpu_count=traits.gpu_count,
    )
    notes: tuple[Note, ...] = (_AMBIGUOUS,) if traits.mode_is_ambiguous else ()
    if traits.num_contradicting:
        notes = (
            *notes,
            Note(
                code=_CONTRADICTION,
                severity="warning",
                summary=f"tokens / (step time x throughput) gives no single GPU count: "
                f"{traits.num_contradicting} of {traits.num_derived} steps disagree.",
                metric="perf/throughput",
            ),
        )
    return run, notes


def _untimed(kept: Iterable[int], steps: Sequence[StepFacts]) -> Iterator[Note]:
    """Yield a note on the steps between others of which the log says no seconds."""
    judged = {fact.step.step for fact in steps}
    missing = [step for step in kept if min(judged) < step < max(judged) and step not in judged]
    if missing:
        yield Note(
            code="step.untimed",
            severity="info",
            summary=f"{len(missing):,} steps between the others are not judged, the first of them "
            f"{min(missing)}: their lines say no seconds. wandb cuts long lines in its output.log; "
            "the run's own file holds them whole.",
        )


def _left_out(count: int, max_steps: int) -> Note:
    return Note(
        code="log.window",
        severity="info",
        summary=f"Only the last {max_steps:,} steps are judged; {count:,} earlier ones are not.",
    )
