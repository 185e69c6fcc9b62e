"""Scalars that only several steps together tell: growth of counters, seconds logged a step late."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from longpole.conventions.metrics import CUMULATIVE, STEP_SECONDS
from longpole_server.importers.logged import LoggedStep, LogSummary

# ROLL's RLVR pipeline logs with each step how long the one before it took, 0 with the first.
_PREVIOUS_SECONDS = "time/step_total"
# Its agentic pipelines log the step's own under the same name.
_OWN_SECONDS_BESIDE = "time/step_rollout"


def derive_scalars(steps: Iterable[LoggedStep], summary: LogSummary) -> Iterator[LoggedStep]:
    """Yield the steps with what can be derived from their neighbours.

    Args:
        steps: In the order in which they were completed.
        summary: Whether the steps are numbered by the trainer.
    """
    growth = Growth()
    held: LoggedStep | None = None
    for step in steps:
        current = growth.derive(step, may_skip=not summary.steps_are_counted)
        seconds = seconds_of_previous(current.scalars)
        if held is not None:
            yield _with_seconds(held, current, seconds)
            held = None
        if seconds is None:
            yield current
        else:
            held = current
    if held is not None:
        yield held


def seconds_of_previous(scalars: Mapping[str, float]) -> float | None:
    """Return the seconds of the step before that a step logs, 0 for a first one, else None."""
    if _OWN_SECONDS_BESIDE in scalars:
        return None
    return scalars.get(_PREVIOUS_SECONDS)


def _with_seconds(held: LoggedStep, following: LoggedStep, seconds: float | None) -> LoggedStep:
    follows = following.attempt == held.attempt and following.step == held.step + 1
    if not follows or not seconds:
        return held
    return replace(held, scalars={**held.scalars, STEP_SECONDS: seconds})


class Growth:
    """What counters since the start of the training grew by in one step.

    The first record of a training tells nothing, nor does one after which a counter is smaller. Of
    records some steps apart each step gets its part, as their times are means too; where records
    were counted nobody knows how far apart they are.
    """

    def __init__(self) -> None:
        self._attempt = 0
        self._step = 0
        self._last: dict[str, float] = {}

    def derive(self, step: LoggedStep, *, may_skip: bool) -> LoggedStep:
        """Return a step with the growth of its counters.

        Args:
            step: The next one.
            may_skip: Its number is the trainer's, so that the steps between two are known.
        """
        counters = {name: step.scalars[name] for name in CUMULATIVE if name in step.scalars}
        if not counters:
            return step
        derived: dict[str, float] = {}
        gap = step.step - self._step
        if may_skip and step.attempt == self._attempt and gap > 0:
            for name, value in counters.items():
                grown = value - self._last.get(name, value)
                metric = CUMULATIVE[name]
                if grown > 0 and metric not in step.scalars:
                    derived[metric] = grown / gap
        self._attempt, self._step, self._last = step.attempt, step.step, counters
        return replace(step, scalars={**step.scalars, **derived}) if derived else step
