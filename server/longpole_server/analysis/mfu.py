"""Model FLOPs utilisation of a window of steps: what is known, where from, and why not.

`actor` is what the trainer reports for its training passes; `actor_stage` the same work over the
whole update stage; `infer` the forward passes that compute log probabilities; `step` the training
work over the whole loop and all GPUs. Work is counted with all epochs, without recomputation.
"""

import statistics
from collections.abc import Iterable, Sequence

from longpole.conventions import stages
from longpole_server.analysis.architectures import describe_architecture
from longpole_server.analysis.architectures_parts import UnknownArchitectureError
from longpole_server.analysis.modes import has_separate_pools
from longpole_server.analysis.peaks import find_peak
from longpole_server.analysis.step_metrics import count_epochs
from longpole_server.analysis.step_table import StepTable
from longpole_server.model.diagnosis import Mfu
from longpole_server.model.facts import RunFacts, StepFacts
from longpole_server.model.step import Step

_TRAINER_ROLE = "trainer"
# Each of these passes the model forward over all sequences once: a third of a training pass.
_FORWARD_STAGES = (stages.OLD_LOG_PROB, stages.REF)
_FORWARD_PART = 1 / 3


def measure_mfu(run: RunFacts, steps: Sequence[StepFacts], mode: str | None) -> dict[str, Mfu]:
    """Return the MFU figures of closed steps by name: `actor`, `actor_stage`, `infer`, `step`.

    Args:
        run: What the run says about itself.
        steps: Closed steps.
        mode: Of the run, as declared or inferred.
    """
    closed = [facts.step for facts in steps]
    whole = _measure_step(run, closed)
    trainer_gpus = _count_trainer_gpus(steps) if has_separate_pools(mode) else None
    if has_separate_pools(mode) and trainer_gpus is None:
        unknown = Mfu(None, None, "which of the run's GPUs train is not known")
        stage = forward = whole if whole.value is None else unknown
    else:
        epochs = count_epochs(run)
        parts = [_measure_parts(step, trainer_gpus, epochs) for step in closed]
        stage = _measure_part(whole, "update_actor", [part for part, _ in parts])
        forward = _measure_part(whole, "old_log_prob or ref", [part for _, part in parts])
    return {
        "actor": _measure_actor(closed, stage),
        "actor_stage": stage,
        "infer": _measure_infer(closed, forward),
        "step": whole,
    }


def usable_mfu(value: float | None) -> float | None:
    """Return an MFU that can be true: above 0 (unknown) and at most 1."""
    return value if value is not None and 0.0 < value <= 1.0 else None


def explain_unknown_mfu(run: RunFacts, steps: Sequence[Step]) -> str:
    """Say what is missing to compute an MFU: model, GPU, count, tokens or time."""
    return " and ".join(_list_missing(run, steps)) or "sequence lengths are not reported"


def _list_missing(run: RunFacts, steps: Sequence[Step]) -> Iterable[str]:
    if not run.model_config:
        named = f", and `{run.model_name}` is no well-known model" if run.model_name else ""
        yield f"the model's configuration is not reported{named}"
    else:
        try:
            describe_architecture(run.model_config)
        except UnknownArchitectureError as error:
            yield str(error)
    if not run.gpu_model:
        yield "the GPU's name is not reported"
    elif find_peak(run.gpu_model) is None:
        yield f"the peak rate of `{run.gpu_model}` is not known"
    table = StepTable.of(steps)
    if not any(table.known("duration_s")):
        # Steps tell of GPUs and tokens when they end.
        yield "no step has ended"
        return
    if not any(table.known("gpu_count")):
        yield "the number of GPUs is not reported"
    if not any(table.known("tokens_total")):
        yield "tokens are not reported"


def _measure_step(run: RunFacts, steps: Sequence[Step]) -> Mfu:
    known = [step.mfu_step for step in steps]
    value = _mean(usable_mfu(mfu) for mfu in known)
    if value is not None:
        return Mfu(value, "computed")
    impossible = next((mfu for mfu in known if mfu is not None), None)
    if impossible is not None:
        return Mfu(None, None, _describe_impossible(impossible))
    return Mfu(None, None, explain_unknown_mfu(run, steps))


def _measure_part(whole: Mfu, stage: str, values: Sequence[float | None]) -> Mfu:
    """Return the MFU of a stage, whose work and time are parts of the step's."""
    if whole.value is None:
        return whole
    value = _mean(usable_mfu(value) for value in values)
    if value is not None:
        return Mfu(value, "computed")
    impossible = next((value for value in values if value is not None), None)
    if impossible is not None:
        return Mfu(None, None, _describe_impossible(impossible))
    return Mfu(None, None, f"the time of {stage} is not reported")


def _measure_actor(steps: Sequence[Step], stage: Mfu) -> Mfu:
    value = _mean(usable_mfu(step.mfu_actor) for step in steps)
    if value is not None:
        return Mfu(value, "reported")
    impossible = next((step.mfu_actor for step in steps if step.mfu_actor is not None), None)
    if impossible is not None:
        why = f"the trainer reports {impossible:.4g}, which is impossible"
        if stage.value is None:
            return Mfu(None, None, f"{why}, and {stage.reason}")
        return Mfu(stage.value, "computed", f"{why}: this is computed over the whole stage")
    if any(note.code == "mfu.unknown" for step in steps for note in step.notes):
        return Mfu(None, None, "the trainer reports 0: it does not know the model or the GPU")
    return Mfu(None, None, "not reported by the trainer")


def _measure_infer(steps: Sequence[Step], forward: Mfu) -> Mfu:
    value = _mean(usable_mfu(step.mfu_infer) for step in steps)
    return forward if value is None else Mfu(value, "reported")


def _measure_parts(
    step: Step, trainer_gpus: int | None, epochs: float
) -> tuple[float | None, float | None]:
    """Return the MFU of the update stage and of the forward passes of one step."""
    work_s = _work(step, trainer_gpus)
    if work_s is None:
        return None, None
    seconds = {stage.stage: stage.inclusive_s for stage in step.stages if stage.inclusive_s > 0}
    update_s = seconds.get(stages.UPDATE_ACTOR)
    forward_s = [seconds[name] for name in _FORWARD_STAGES if name in seconds]
    forward_work_s = work_s / epochs * _FORWARD_PART * len(forward_s)
    return (
        work_s / update_s if update_s else None,
        forward_work_s / sum(forward_s) if forward_s else None,
    )


def _work(step: Step, trainer_gpus: int | None) -> float | None:
    """Return the seconds that the trainer's GPUs would take for the step's work at their peak."""
    mfu = usable_mfu(step.mfu_step)
    if mfu is None or not step.duration_s:
        return None
    part = step.gpu_count / trainer_gpus if trainer_gpus and step.gpu_count else 1.0
    return mfu * step.duration_s * part


def _count_trainer_gpus(steps: Sequence[StepFacts]) -> int | None:
    counts = [
        window.gpu_count
        for facts in steps
        for window in facts.gpu_windows
        if window.role == _TRAINER_ROLE
    ]
    return max(counts, default=None)


def _describe_impossible(mfu: float) -> str:
    return (
        f"computed as {mfu:.4g}, which is impossible: tokens, GPU count, GPU name or model "
        "configuration are not those of the run"
    )


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None
