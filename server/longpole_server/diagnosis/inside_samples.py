"""The inside of gen from the samples themselves: each with its own times."""

import math
import statistics
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from longpole_server.analysis.longtail import measure_long_tail
from longpole_server.analysis.replicas import ReplicaPace, find_slowest_replica
from longpole_server.analysis.replicas_queue import find_queue_imbalance
from longpole_server.diagnosis.inside_gen import InsideGen, add_recomputed, divide, read_usable
from longpole_server.diagnosis.thresholds import Limits
from longpole_server.model.facts import StepFacts, TrajectoryFacts

# The shares of finished samples at which a partial rollout is taken to stop: least, usual, most.
_STOP_RATIOS = (0.98, 0.95, 0.80)


def look_into_samples(
    samples: TrajectoryFacts, facts: StepFacts, gen_s: float | None, limits: Limits
) -> InsideGen:
    """Measure the samples of a step.

    Args:
        samples: At least one.
        facts: The step's other facts.
        gen_s: Length of gen.
        limits: Say which samples are at the exposed end.
    """
    durations_s = _column(samples.durations_s)
    paused_s = _column(samples.paused_s)
    if len(paused_s) == len(durations_s):
        durations_s = np.maximum(0.0, durations_s - np.nan_to_num(paused_s))
    tokens = _column(samples.output_tokens)
    decode_s = _column(samples.generate_s)
    # Parallel calls that a program has summed can last longer than their sample.
    tool_s = np.minimum(_column(samples.tool_s), durations_s)
    score_s = np.minimum(_column(samples.score_s), durations_s)
    queue_s = _column(samples.queue_s)
    elsewhere_s = np.nan_to_num(tool_s) + np.nan_to_num(score_s) + np.nan_to_num(queue_s)
    decode_s = np.where(np.isnan(decode_s), np.maximum(0.0, durations_s - elsewhere_s), decode_s)
    slowest = int(durations_s.argmax())
    end = _last_finishing(samples, limits)
    tail = measure_long_tail(samples, None, _choose_stops(len(durations_s)))
    stops = [saved_s for _, saved_s in tail.stop_at] if tail is not None else [None, None, None]
    is_rated = (tokens > 0) & (decode_s > 0)
    rates = tokens[is_rated] / decode_s[is_rated]
    mean_tokens = _mean(tokens)
    pace = find_slowest_replica(samples.replicas, decode_s, tokens)
    queues = find_queue_imbalance(samples)
    found = InsideGen(
        slowest_s=float(durations_s[slowest]),
        mean_s=_mean(durations_s),
        slowest_of_gen=divide(float(durations_s[slowest]), gen_s),
        slowest_tokens=_mean(tokens[[slowest]]),
        mean_tokens=mean_tokens,
        tool_of_end=_part_of(durations_s[end], tool_s[end]),
        score_of_end=_part_of(durations_s[end], score_s[end]),
        queue_of_end=_part_of(durations_s[end], queue_s[end]),
        tool_saving_s=_saving_without(samples, tool_s),
        half_tool_saving_s=_saving_without(samples, tool_s / 2),
        usual_tool_saving_s=_saving_without(samples, _beyond_usual(tool_s)),
        score_saving_s=_saving_without(samples, score_s),
        half_score_saving_s=_saving_without(samples, score_s / 2),
        usual_score_saving_s=_saving_without(samples, _beyond_usual(score_s)),
        queue_ratio=_part_of(durations_s, queue_s),
        tokens_per_s=float(np.median(rates)) if len(rates) else None,
        stop_saving_low_s=stops[0],
        stop_saving_s=stops[1],
        stop_saving_high_s=stops[2],
        truncation_saving_s=_saving_without_truncated(samples),
        idle_ratio=tail.idle_ratio if tail is not None else None,
        replica_ratio=None if pace is None else pace.ratio,
        replica_length_ratio=None if pace is None else pace.length_ratio,
        replica_saving_s=None if pace is None else _saving_at_pace(samples, durations_s, pace),
        num_replicas=float(len(set(samples.replicas) - {None})) or None,
        queue_s=None if queues is None else queues.mean_queue_s,
        other_queue_s=None if queues is None else queues.other_queue_s,
        queued_replica=None if queues is None else queues.replica,
        span_s=span_seconds(samples),
        slowest_replica=None if pace is None else pace.replica,
        slowest_tool=_most_common_tool(samples, end),
    )
    prompt = _mean(_column(samples.input_tokens))
    if prompt is None:
        prompt = read_usable(facts.scalars, "prompt_length/mean")
    preemptions = _column(samples.preemptions)
    # Less than none is not reported.
    preemptions[preemptions < 0] = np.nan
    return add_recomputed(found, _mean(preemptions), prompt, mean_tokens)


def _choose_stops(count: int) -> tuple[float, float, float]:
    """Return the shares of finished samples at which a partial rollout is taken to stop.

    Of fewer than 20 samples 95 % are all of them: there the usual one leaves the last sample.
    """
    least, usual, most = _STOP_RATIOS
    return least, min(usual, max(most, (count - 1) / count)), most


def _column(values: Sequence[float | None]) -> NDArray[np.float64]:
    """Return values as numbers, NaN where unknown."""
    return np.array(values, dtype=np.float64)


def _mean(values: NDArray[np.float64]) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None


def _most_common_tool(samples: TrajectoryFacts, at: NDArray[np.intp]) -> str | None:
    rows: list[int] = at.tolist()
    known = [tool for row in rows if samples.tools and (tool := samples.tools[row]) is not None]
    return statistics.mode(known) if known else None


def span_seconds(samples: TrajectoryFacts) -> float:
    """Return the seconds from the first start to the last end."""
    return (max(samples.end_ns) - min(samples.start_ns)) / 1e9


def _last_finishing(samples: TrajectoryFacts, limits: Limits) -> NDArray[np.intp]:
    """Return the samples at the exposed end: the last-finishing ones, which all wait for."""
    count = math.ceil(limits["rollout.end.sample_ratio"] * len(samples.end_ns))
    count = max(count, int(limits["rollout.end.min_samples"]))
    return np.argsort(np.array(samples.end_ns, dtype=np.int64), kind="stable")[-count:]


def _part_of(durations_s: NDArray[np.float64], spent_s: NDArray[np.float64]) -> float | None:
    known = ~np.isnan(spent_s)
    total_s = float(durations_s[known].sum())
    if total_s <= 0:
        return None
    return float(np.minimum(spent_s, durations_s)[known].sum()) / total_s


def _saving_without(samples: TrajectoryFacts, spent_s: NDArray[np.float64]) -> float | None:
    """Return how much earlier the last sample would end if nobody spent this time."""
    if np.isnan(spent_s).all():
        return None
    ends_ns = np.array(samples.end_ns, dtype=np.int64)
    shortened_ns = ends_ns - (np.nan_to_num(spent_s) * 1e9).astype(np.int64)
    return max(0.0, int(ends_ns.max() - shortened_ns.max()) / 1e9)


def _beyond_usual(spent_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what each sample spends beyond the median of those that spend anything."""
    some = spent_s[spent_s > 0]
    return np.maximum(0.0, spent_s - np.median(some)) if len(some) else spent_s


def _saving_without_truncated(samples: TrajectoryFacts) -> float | None:
    """Return how much earlier the last complete sample ends than the last of all."""
    complete = [
        end_ns
        for end_ns, status in zip(samples.end_ns, samples.statuses, strict=True)
        if status != "truncated"
    ]
    return (max(samples.end_ns) - max(complete)) / 1e9 if complete else None


def _saving_at_pace(
    samples: TrajectoryFacts, durations_s: NDArray[np.float64], pace: ReplicaPace
) -> float:
    """Return how much earlier gen would end if the slowest replica had the others' pace."""
    is_slow = np.array([replica == pace.replica for replica in samples.replicas])
    gained_s = np.where(is_slow, durations_s * (1 - 1 / max(1.0, pace.ratio)), 0.0)
    return _saving_without(samples, gained_s) or 0.0
