"""What a run's own past says is usual."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from longpole_server.analysis.window import summarise_window
from longpole_server.model.facts import StepFacts

MIN_STEPS = 5


@dataclass(frozen=True, slots=True)
class Baseline:
    """Means over earlier steady steps of the same run, attempt and configuration.

    Attributes:
        stage_s: Exclusive seconds a step by stage.
        tokens: Tokens a step.
    """

    num_steps: int
    step_s: float
    stage_s: Mapping[str, float]
    tokens: float | None = None
    tokens_per_s_per_gpu: float | None = None
    mfu_actor: float | None = None


def make_baseline(steps: Sequence[StepFacts], num_steps: int = 20) -> Baseline | None:
    """Return the baseline of the first steady steps.

    Args:
        steps: Steps of one attempt in order, from its first.
        num_steps: How many judged steps make the baseline.

    Returns:
        None when fewer than five steps can be judged.
    """
    window = summarise_window([facts.step for facts in steps[: num_steps + 1]])
    if len(window.judged) < MIN_STEPS or window.step_s is None:
        return None
    return Baseline(
        len(window.judged),
        window.step_s,
        window.stage_s,
        mean_known([step.tokens_total for step in window.judged]),
        mean_known([step.throughput_tokens_per_s_per_gpu for step in window.judged]),
        mean_known([usable_mfu(step.mfu_actor) for step in window.judged]),
    )


def mean_known(values: Sequence[float | None]) -> float | None:
    """Return the mean of what is known, None when nothing is."""
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def usable_mfu(value: float | None) -> float | None:
    """Return an MFU that can be true: above 0 (unknown) and at most 1."""
    return value if value is not None and 0.0 < value <= 1.0 else None
