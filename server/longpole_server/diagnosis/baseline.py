"""What a run's own past says is usual."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from longpole_server.model.facts import StepFacts


@dataclass(frozen=True, slots=True)
class Baseline:
    """Means over earlier steady steps of the same run, attempt and configuration.

    Attributes:
        stage_s: Exclusive seconds a step by stage.
    """

    num_steps: int
    step_s: float
    stage_s: Mapping[str, float]
    tokens: float | None = None
    tokens_per_s_per_gpu: float | None = None
    mfu_actor: float | None = None


def make_baseline(steps: Sequence[StepFacts], num_steps: int = 20) -> Baseline | None:
    """Return the baseline of the first steady steps, None when there are too few."""
    raise NotImplementedError
