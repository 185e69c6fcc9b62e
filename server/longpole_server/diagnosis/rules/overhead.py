"""overhead.unattributed and overhead.outside: time that trains and samples nothing."""

from longpole.conventions import stages
from longpole_server.diagnosis.families import OUTSIDE, OVERHEAD, stages_of
from longpole_server.diagnosis.proof import Proof, Rule
from longpole_server.diagnosis.view import View
from longpole_server.diagnosis.wording import label, seconds
from longpole_server.model.diagnosis import NextLook

# Validating half as often gives back half.
_VALIDATION_PART = 0.5


def _judge_unattributed(view: View) -> Proof:
    names = stages_of(OVERHEAD, view)
    parts = ", ".join(f"{label(name)} {seconds(view.seconds(name))}" for name in names)
    return Proof(f"the controller spends it between the stages ({parts})")


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
    checkpoint_s = spent.get(stages.SAVE_CHECKPOINT, 0.0)
    return Proof(
        f"a step of {seconds(view.step_s)} carries {parts}",
        recoverable_s=checkpoint_s + _VALIDATION_PART * spent.get(stages.TESTING, 0.0),
    )


UNATTRIBUTED = Rule(
    code="overhead.unattributed",
    family=OVERHEAD,
    title="the loop spends its time between the stages",
    proof="Ray object store spill and controller CPU where known.",
    recoverable="not estimated",
    reads=("unattributed time", "timing_s/adv", "batch preparation"),
    next=(
        NextLook(
            "Look at data movement: what travels through the controller and its object store."
        ),
        NextLook("Look at the controller's CPU: serialisation, concatenation, logging."),
        NextLook("Put spans around what runs between the stages (`longpole.stage`)."),
    ),
    judge=_judge_unattributed,
)

OUTSIDE_RULE = Rule(
    code="overhead.outside",
    family=OUTSIDE,
    title="validation and checkpoints take as long as training",
    proof="Validation and checkpoints, wherever timed, take half of the steps' seconds or more.",
    recoverable="all of the checkpoints (asynchronous) and half of the validation (half as often)",
    reads=("timing_s/testing", "timing_s/save_checkpoint"),
    thresholds=("outside.ratio",),
    next=(
        NextLook("Validate less often, or on fewer samples.", ("trainer.test_freq",)),
        NextLook("Save less often, or asynchronously.", ("trainer.save_freq",)),
    ),
    judge=_judge_outside,
)
