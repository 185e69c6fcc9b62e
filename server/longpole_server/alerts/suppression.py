"""When trend rules keep still: warm-up, after a resume, around validations and checkpoints."""

from collections.abc import Sequence

from longpole.conventions.stages import SAVE_CHECKPOINT, TESTING
from longpole_server.alerts.history import History, StepPoint
from longpole_server.alerts.inputs import is_timed
from longpole_server.alerts.rule import Rule
from longpole_server.model.alert import HELD_BACK

WARM_UP_STEPS = 5
# Where more than this part of the steps hold a validation or checkpoint, such steps are usual.
_USUAL_RATIO = 0.5
_INTERRUPTIONS = frozenset({TESTING, SAVE_CHECKPOINT})


def find_suppression(rule: Rule, history: History) -> str | None:
    """Return why a rule is not judged at this step, None when it is.

    Faults and exceeded bounds always are, and so is what is judged between steps. A validation
    disturbs what is timed; what users watch may be logged by it alone.
    """
    if rule.kind == "fault" or rule.trigger == "time":
        return None
    run, newest = history.run, history.newest
    if run is None or newest is None:
        return None
    if run.first_step is not None and newest.step.step < run.first_step + WARM_UP_STEPS:
        after = "the run warms up" if run.attempt <= 1 else "the run was resumed just now"
        return f"{HELD_BACK}{after} (the first {WARM_UP_STEPS} steps)"
    if rule.user is not None and not is_timed(rule.user.metric):
        return None
    return _find_interruption(newest, history.steps)


def _find_interruption(newest: StepPoint, steps: Sequence[StepPoint]) -> str | None:
    held = _INTERRUPTIONS & _list_stages(newest)
    if not held:
        return None
    recent = steps[-20:]
    num_interrupted = sum(bool(_INTERRUPTIONS & _list_stages(point)) for point in recent)
    if num_interrupted > _USUAL_RATIO * len(recent):
        return None
    return f"{HELD_BACK}the step holds {' and '.join(sorted(held))}"


def _list_stages(point: StepPoint) -> set[str]:
    return {stage.stage for stage in (*point.step.stages, *point.step.outside)}
