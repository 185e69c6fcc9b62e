"""Shares over a window of steps: sums of exclusive seconds over the sum of step seconds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from longpole_server.model.diagnosis import Excluded
from longpole_server.model.step import Step


@dataclass(frozen=True, slots=True)
class Window:
    """The judged steps of a range, summed.

    Attributes:
        judged: Closed steps that count, in order.
        stage_s: Exclusive seconds a step, by stage, `unattributed` included.
        shares: The same as parts of 1.
        outside_s: Seconds a step spent between steps, by stage.
        step_s: Mean seconds of a step: the sum of `stage_s`.
    """

    judged: tuple[Step, ...]
    excluded: tuple[Excluded, ...]
    stage_s: Mapping[str, float]
    shares: Mapping[str, float]
    outside_s: Mapping[str, float]
    step_s: float | None


def summarise_window(
    steps: Sequence[Step], attempt_starts: Mapping[int, int] | None = None
) -> Window:
    """Sum a range of steps. `attempt_starts`: first step of each attempt, None = as seen here."""
    raise NotImplementedError
