"""The long tail of a step's samples and what it costs."""

from collections.abc import Sequence
from dataclasses import dataclass

from longpole_server.model.facts import TrajectoryFacts

STOP_RATIOS = (0.80, 0.90, 0.95)


@dataclass(frozen=True, slots=True)
class LongTail:
    """What waiting for the last samples costs.

    Attributes:
        num_samples: Samples that were counted.
        span_s: From the first start to the last end.
        stop_at: (share of samples, seconds the rollout would have ended earlier).
        idle_ratio: 1 - mean running samples / most running samples, over the span.
    """

    num_samples: int
    span_s: float
    stop_at: tuple[tuple[float, float], ...]
    idle_ratio: float


def measure_long_tail(
    trajectories: TrajectoryFacts,
    gen_window_ns: tuple[int, int] | None = None,
    stop_ratios: Sequence[float] = STOP_RATIOS,
) -> LongTail | None:
    """Measure the tail, clipped to the gen window when given; None without samples."""
    raise NotImplementedError
