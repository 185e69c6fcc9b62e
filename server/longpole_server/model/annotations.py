"""What is worth a mark on a chart of steps."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class VerdictChange:
    """The verdict of a run became another, and stayed.

    Attributes:
        step: The first step of the new verdict.
        previous: The verdict before; None for the first one of a run.
    """

    step: int
    verdict: str
    previous: str | None
