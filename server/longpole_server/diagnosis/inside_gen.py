"""Numbers on the inside of gen, whoever tells them.

The outer timer alone cannot say why gen is long. These numbers are the inner measurement that
must agree with it.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal

InnerSource = Literal["trajectories", "agent_loop", "engines"]

_NAMES = frozenset({"slowest_replica", "queued_replica", "slowest_tool"})
_OF_ALL_WORK = ("recomputed_ratio", "recomputed_ratio_low", "recomputed_ratio_high")
_OF_ONE_REPLICA = ("replica_ratio", "replica_length_ratio", "replica_saving_s")
_LARGEST = 1e100


@dataclass(frozen=True, slots=True)
class InsideGen:
    """Numbers on the samples of a step, or their medians over a window. None is not known.

    Attributes:
        slowest_s, mean_s: Time of the slowest sample and the mean, pauses left out.
        slowest_of_gen: Slowest sample's time as a part of gen.
        slowest_tokens, mean_tokens: Response tokens of the slowest sample and the mean.
        tool_of_end, score_of_end, queue_of_end: Part of the last-finishing samples' time in
            tools, in scoring, in the engines' queues.
        tool_saving_s, score_saving_s: How much earlier gen would end without it; `half_tool_...`
            at half of it; `usual_tool_...` if no sample spent more on it than the usual one.
        queue_ratio: Part of all samples' time in the engines' queues.
        recomputed_ratio: Tokens computed twice after preemption, as a part of those generated,
            when a preempted sample has half of its answer behind it; `_low` and `_high` a quarter
            and three quarters.
        preempted_most: How often the most preempted sample was preempted.
        tokens_per_s: Decode rate of a mean sample.
        stop_saving_s: How much earlier gen would end at 95 % of the samples; `_low` and `_high`
            at 98 % and 80 %.
        truncation_saving_s: How much earlier it would end with its last complete sample.
        idle_ratio: Empty slots over gen: 1 - mean running / most running.
        replica_ratio: Seconds a token of the slowest replica over the median of the others.
        replica_length_ratio: Mean tokens of its samples over those of all.
        replica_saving_s: How much earlier gen would end at the others' pace.
        num_replicas: Replicas that samples name.
        queue_s, other_queue_s: Seconds that a mean sample waits at the replica with the longest
            queue, and at the others.
        span_s: First start to last end of the samples.
        slowest_replica, queued_replica, slowest_tool: Their names.
    """

    slowest_s: float | None = None
    mean_s: float | None = None
    slowest_of_gen: float | None = None
    slowest_tokens: float | None = None
    mean_tokens: float | None = None
    tool_of_end: float | None = None
    score_of_end: float | None = None
    queue_of_end: float | None = None
    tool_saving_s: float | None = None
    half_tool_saving_s: float | None = None
    usual_tool_saving_s: float | None = None
    score_saving_s: float | None = None
    half_score_saving_s: float | None = None
    usual_score_saving_s: float | None = None
    queue_ratio: float | None = None
    recomputed_ratio: float | None = None
    recomputed_ratio_low: float | None = None
    recomputed_ratio_high: float | None = None
    preempted_most: float | None = None
    tokens_per_s: float | None = None
    stop_saving_s: float | None = None
    stop_saving_low_s: float | None = None
    stop_saving_high_s: float | None = None
    truncation_saving_s: float | None = None
    idle_ratio: float | None = None
    replica_ratio: float | None = None
    replica_length_ratio: float | None = None
    replica_saving_s: float | None = None
    num_replicas: float | None = None
    queue_s: float | None = None
    other_queue_s: float | None = None
    span_s: float | None = None
    slowest_replica: str | None = None
    queued_replica: str | None = None
    slowest_tool: str | None = None

    def leaves_preemption_open(self, limit: float) -> bool:
        """Tell whether preempted work may reach a limit, though what is told of it does not.

        Nobody tells how often samples were preempted; or it depends on how much of an answer a
        preempted sample had behind it.
        """
        if self.recomputed_ratio is None:
            # The most preempted one of all stands for them where it was not preempted at all.
            return self.preempted_most is None or self.preempted_most != 0
        high = self.recomputed_ratio_high
        return high is not None and high >= limit > self.recomputed_ratio

    @property
    def time_ratio(self) -> float | None:
        """Slowest to mean time."""
        return divide(self.slowest_s, self.mean_s)

    @property
    def token_ratio(self) -> float | None:
        """Slowest sample's tokens to the mean."""
        return divide(self.slowest_tokens, self.mean_tokens)


def combine(parts: Sequence[InsideGen]) -> InsideGen:
    """Return the medians over several steps, and the names that came most often.

    Preempted work is a part of all work: its mean, of which rare bursts are the larger part.
    """
    if len(parts) == 1:
        return parts[0]

    def median(name: str) -> float | None:
        known = [value for part in parts if (value := getattr(part, name)) is not None]
        return statistics.median(known) if known else None

    def mode(name: str) -> str | None:
        known = [value for part in parts if (value := getattr(part, name)) is not None]
        return statistics.mode(known) if known else None

    numbers = {
        field.name: median(field.name) for field in fields(InsideGen) if field.name not in _NAMES
    }
    numbers |= {name: _mean_but_largest(parts, name) for name in _OF_ALL_WORK}
    if not _is_one_replica(parts):
        numbers |= dict.fromkeys(_OF_ONE_REPLICA)
    return InsideGen(
        **numbers,
        slowest_replica=mode("slowest_replica"),
        queued_replica=mode("queued_replica"),
        slowest_tool=mode("slowest_tool"),
    )


def _mean_but_largest(parts: Sequence[InsideGen], name: str) -> float | None:
    """Return the mean of what is known, the largest of three or more counted as the second."""
    known = sorted(value for part in parts if (value := getattr(part, name)) is not None)
    if len(known) > 2:
        known[-1] = known[-2]
    return statistics.fmean(known) if known else None


def _is_one_replica(parts: Sequence[InsideGen]) -> bool:
    """Tell whether the slowest replica is the same one in half of the steps or more.

    Of many replicas another one is the slowest by chance in each step.
    """
    names = [part.slowest_replica for part in parts if part.slowest_replica is not None]
    return not names or 2 * names.count(statistics.mode(names)) >= len(names)


def add_recomputed(
    inside: InsideGen,
    preemptions: float | None,
    prompt_tokens: float | None,
    response_tokens: float | None,
) -> InsideGen:
    """Add tokens computed twice: a preempted sample has its prompt and part of its answer behind.

    Args:
        inside: What is known so far.
        preemptions: Preemptions of a mean sample; negative is not available.
        prompt_tokens: Of a mean sample.
        response_tokens: Of a mean sample.
    """
    if preemptions is None or preemptions < 0 or not response_tokens:
        return inside
    prompt = prompt_tokens or 0.0
    low, usual, high = (
        preemptions * (prompt + part * response_tokens) / response_tokens
        for part in (0.25, 0.5, 0.75)
    )
    return replace(
        inside, recomputed_ratio=usual, recomputed_ratio_low=low, recomputed_ratio_high=high
    )


def is_usable(value: float | None) -> bool:
    """Return whether a value is known, no NaN, and not so large that sums of it overflow."""
    return value is not None and -_LARGEST < value < _LARGEST


def read_usable(scalars: Mapping[str, float], name: str) -> float | None:
    """Return a logged scalar, None where it is missing or no number to count with."""
    value = scalars.get(name)
    return value if is_usable(value) else None


def divide(value: float | None, by: float | None) -> float | None:
    """Return a quotient, None where a side is unknown or the divisor as good as 0."""
    quotient = value / by if value is not None and by else None
    return quotient if is_usable(quotient) else None
