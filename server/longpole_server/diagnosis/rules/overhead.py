"""overhead.unattributed and overhead.outside: time that trains and samples nothing."""

import statistics
from itertools import pairwise

from longpole.conventions import stages
from longpole_server.diagnosis.families import OUTSIDE, OVERHEAD, stages_of
from longpole_server.diagnosis.gpu_activity import is_idle, measure_activity
from longpole_server.diagnosis.proof import Advice, Proof, Recoverable, Rule, inner, threshold
from longpole_server.diagnosis.view import View
from longpole_server.diagnosis.wording import gigabytes, label, percent, seconds
from longpole_server.model.diagnosis import Evidence, Reference

# Validating half as often gives back half.
_VALIDATION_PART = 0.5
_IDLE = "gpu.idle_activity"
_SPILLED = "ray.spilled_bytes"
# How far the clock between steps may lie from the timers of what ran there.
_CLOCK_TOLERANCE = 0.25


def _judge_unattributed(view: View) -> Proof:
    names = stages_of(OVERHEAD, view)
    parts = ", ".join(f"{label(name)} {seconds(view.seconds(name))}" for name in names)
    because = f"the controller spends it between the stages ({parts})"
    activity = measure_activity(view.gpu_windows(*names))
    spent_s = view.seconds(*names)
    recoverable = Recoverable(0.0, spent_s / 2, spent_s)
    rows = _object_store_rows(view)
    if rows:
        because = f"{because}, and Ray moves {gigabytes(rows[0].value or 0.0)} a step through disks"
    if activity is None or not is_idle(activity, view.limits):
        # GPUs that work contradict that the loop waits for disks.
        return Proof(
            because,
            rows,
            inner_agrees=bool(rows) and activity is None,
            recoverable=recoverable,
        )
    level = activity.sm if activity.sm is not None else activity.tensor or 0.0
    return Proof(
        f"{because}; meanwhile GPUs are {percent(level)} active",
        (inner("gpu_active/unattributed", level, "1", "gpus", threshold(view, _IDLE)), *rows),
        inner_agrees=True,
        recoverable=recoverable,
    )


def _object_store_rows(view: View) -> tuple[Evidence, ...]:
    """Return how much Ray's object stores moved to disks and back, where it is much."""
    use = view.object_store
    moved = None if use is None else use.moved_bytes
    if moved is None or moved < view.limits[_SPILLED]:
        return ()
    reference = threshold(view, _SPILLED)
    return (inner("ray/object_store/spilled", moved, "bytes", "ray_object_store", reference),)


def outside_seconds(view: View) -> dict[str, float]:
    """Return seconds a step of validation and checkpoints, wherever they are timed."""
    spent = dict(view.window.outside_s)
    for stage in stages_of(OUTSIDE, view):
        spent[stage] = spent.get(stage, 0.0) + view.seconds(stage)
    return spent


def _judge_outside(view: View) -> Proof:
    spent = outside_seconds(view)
    parts = " and ".join(
        f"{label(stage)} {seconds(value)}"
        for stage, value in sorted(spent.items(), key=lambda item: -item[1])
    )
    total_s = sum(spent.values())
    checkpoint_s = spent.get(stages.SAVE_CHECKPOINT, 0.0)
    usual_s = checkpoint_s + _VALIDATION_PART * spent.get(stages.TESTING, 0.0)
    clock = _clock_row(view)
    return Proof(
        f"a step of {seconds(view.step_s)} carries {parts}",
        () if clock is None else (clock,),
        inner_agrees=clock is not None and clock.effect == "supports",
        recoverable=Recoverable.around(usual_s, usual_s / 2, total_s),
    )


def _clock_row(view: View) -> Evidence | None:
    """Compare the clock between steps with the timers of what is said to run there.

    Only steps with spans have a clock of their own: logs without times are laid end to end.
    """
    timed = [facts.step for facts in view.facts if facts.step.closed_by == "loop"]
    gaps = [
        (later.start_ns - earlier.end_ns) / 1e9
        for earlier, later in pairwise(timed)
        if earlier.end_ns is not None
        and later.attempt == earlier.attempt
        and later.step == earlier.step + 1
    ]
    said_s = sum(view.window.outside_s.values())
    if not gaps or said_s <= 0:
        return None
    seen_s = statistics.fmean(gaps)
    agrees = abs(seen_s - said_s) <= _CLOCK_TOLERANCE * max(seen_s, said_s)
    return inner(
        "clock/between_steps",
        seen_s,
        "s",
        "spans",
        Reference("peer", said_s),
        "supports" if agrees else "contradicts",
    )


UNATTRIBUTED = Rule(
    code="overhead.unattributed",
    family=OVERHEAD,
    title="the loop spends its time between the stages",
    proof="GPUs stand idle between the stages, or Ray's object stores move much to disks and back. "
    "The controller's CPU would tell more; no source reports it by step, so it is named as not "
    "reported.",
    recoverable="half of it, since some of the controller's work is needed; from nothing to all",
    reads=(
        "unattributed time",
        "timing_s/adv",
        "batch preparation",
        "GPU activity",
        "Ray's object store",
    ),
    thresholds=(_IDLE, _SPILLED),
    sources=("gpus", "controller_cpu", "ray_object_store"),
    next=(
        Advice(
            "Look at data movement: what travels through the controller and its object store. What "
            "Ray spills does not fit into its memory: give it more (`object_store_memory`), faster "
            "disks (`object_spilling_directory`), or smaller batches."
        ),
        Advice(
            "Look at the controller's CPU (`top`, `py-spy`): one core at its limit between the "
            "stages is serialisation, concatenation or logging."
        ),
        Advice("Put spans around what runs between the stages (`longpole.stage`)."),
    ),
    judge=_judge_unattributed,
)

OUTSIDE_RULE = Rule(
    code="overhead.outside",
    family=OUTSIDE,
    title="validation and checkpoints take as long as training",
    proof="Validation and checkpoints, wherever timed, take half of the steps' seconds or more; "
    "the clock between steps agrees with their timers.",
    recoverable="all of the checkpoints (asynchronous) and half of the validation (half as often); "
    "between half of that and all",
    reads=("timing_s/testing", "timing_s/save_checkpoint", "the clock between steps"),
    thresholds=("outside.ratio",),
    sources=("spans",),
    next=(
        Advice("Validate less often, or on fewer samples.", ("validation",)),
        Advice("Save less often, or asynchronously.", ("checkpoint",)),
    ),
    judge=_judge_outside,
)
