"""A log made ready for diagnosis: facts per step, latest attempt of each step."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace

from longpole_server.analysis.ledger import assemble_step
from longpole_server.importers.logged import LoggedStep, LogSummary
from longpole_server.importers.reading import LogSource, read_steps, refuse_without_steps
from longpole_server.importers.verl_run import agree_on_gpu_count, derive_gpu_count, infer_verl_mode
from longpole_server.model.facts import RunFacts, StepFacts, StepInputs
from longpole_server.model.step import Note

# Bound of what is kept in memory, whatever the size of the file.
MAX_STEPS = 10_000


@dataclass(frozen=True, slots=True)
class ImportedFacts:
    """What a log says, ready to be judged."""

    run: RunFacts
    steps: tuple[StepFacts, ...]
    notes: tuple[Note, ...]


def import_facts(source: LogSource, run_id: str, max_steps: int = MAX_STEPS) -> ImportedFacts:
    """Read a log into facts, the last `max_steps` steps of it.

    Raises:
        UnreadableLogError: It is binary, or holds no complete step.
    """
    summary = LogSummary()
    kept: OrderedDict[int, LoggedStep] = OrderedDict()
    num_left_out = 0
    for logged in read_steps(source, summary):
        if logged.torn:
            continue
        # A later attempt replaces what an earlier one said about the same step.
        kept.pop(logged.step, None)
        kept[logged.step] = logged
        if len(kept) > max_steps:
            kept.popitem(last=False)
            num_left_out += 1
    run, notes = _describe_run(run_id, source.name, kept)
    steps = tuple(
        StepFacts(step=step, scalars=logged.scalars)
        for logged in sorted(kept.values(), key=lambda item: item.step)
        if (step := assemble_step(inputs_of(run, logged, source.modified_ns))).duration_s
        is not None
    )
    if not steps:
        raise refuse_without_steps(source, summary)
    if num_left_out:
        notes = (*notes, _left_out(num_left_out, max_steps))
    return ImportedFacts(run, steps, (*summary.finish(), *notes))


def inputs_of(run: RunFacts, logged: LoggedStep, end_ns: int) -> StepInputs:
    """Return what analysis needs of a logged step that ends at `end_ns`."""
    return StepInputs(
        run=run,
        attempt=logged.attempt,
        step=logged.step,
        scalars=logged.scalars,
        scalars_ns=end_ns,
        end_ns_hint=end_ns,
    )


def _describe_run(
    run_id: str, name: str, kept: Mapping[int, LoggedStep]
) -> tuple[RunFacts, tuple[Note, ...]]:
    derived = [
        count for step in kept.values() if (count := derive_gpu_count(step.scalars)) is not None
    ]
    gpu_count, contradicting = agree_on_gpu_count(derived)
    keys = {key for step in kept.values() for key in step.scalars}
    run = RunFacts(run_id=run_id, name=name, system="verl", mode=infer_verl_mode(keys))
    notes: tuple[Note, ...] = ()
    if contradicting:
        notes = (
            Note(
                code="gpus.contradiction",
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
