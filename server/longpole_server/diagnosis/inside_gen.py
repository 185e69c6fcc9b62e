"""What happened inside gen: from trajectories, else from the agent loop's scalars.

The outer timer alone cannot say why gen is long. These numbers are the inner measurement that
must agree with it.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from longpole.conventions import metrics, stages
from longpole_server.analysis.longtail import measure_long_tail
from longpole_server.analysis.replicas import find_slowest_replica
from longpole_server.diagnosis.thresholds import Limits
from longpole_server.model.facts import RunFacts, StepFacts, TrajectoryFacts

InnerSource = Literal["trajectories", "agent_loop"]

_NAMES = frozenset({"slowest_replica"})
_LOOP = "timing_s/agent_loop/"
# One step ahead, generation and its agent-loop figures belong to the step before; this is its time.
_BACKGROUND_GEN = "timing_s/generate_async"
_LARGEST = 1e100
# The share of finished samples at which a partial rollout is taken to stop.
_STOP_RATIO = 0.95


@dataclass(frozen=True, slots=True)
class InsideGen:
    """Numbers on the samples of a step, or their medians over a window. None is not known.

    Attributes:
        slowest_s, mean_s: Time of the slowest sample and the mean.
        slowest_of_gen: Slowest sample's time as a part of gen.
        slowest_tokens, mean_tokens: Response tokens of the slowest sample and the mean.
        tool_of_end, score_of_end: Part of the last-finishing samples' time in tools, in scoring.
        tool_saving_s, score_saving_s: How much earlier gen would end without it.
        recomputed_ratio: Tokens computed twice after preemption, as a part of those generated.
        tokens_per_s: Decode rate of a mean sample.
        stop_saving_s: How much earlier gen would end at 95 % of the samples.
        idle_ratio: Empty slots over gen: 1 - mean running / most running.
        replica_ratio: Seconds a token of the slowest replica over the median of the others.
        replica_length_ratio: Mean tokens of its samples over those of all.
        slowest_replica: Its name.
    """

    slowest_s: float | None = None
    mean_s: float | None = None
    slowest_of_gen: float | None = None
    slowest_tokens: float | None = None
    mean_tokens: float | None = None
    tool_of_end: float | None = None
    score_of_end: float | None = None
    tool_saving_s: float | None = None
    score_saving_s: float | None = None
    recomputed_ratio: float | None = None
    tokens_per_s: float | None = None
    stop_saving_s: float | None = None
    idle_ratio: float | None = None
    replica_ratio: float | None = None
    replica_length_ratio: float | None = None
    slowest_replica: str | None = None

    @property
    def time_ratio(self) -> float | None:
        """Slowest to mean time."""
        return _divide(self.slowest_s, self.mean_s)

    @property
    def token_ratio(self) -> float | None:
        """Slowest sample's tokens to the mean."""
        return _divide(self.slowest_tokens, self.mean_tokens)


@dataclass(frozen=True, slots=True)
class Look:
    """One step with what is known about the inside of its gen, and who said it."""

    facts: StepFacts
    inside: InsideGen | None
    source: InnerSource | None
    truncated_ratio: float | None


def look_at(run: RunFacts, facts: StepFacts, limits: Limits) -> Look:
    """Measure the inside of a step's gen. Scalars that are no numbers are left out from here on."""
    if not all(map(_is_usable, facts.scalars.values())):
        usable = {name: value for name, value in facts.scalars.items() if _is_usable(value)}
        facts = replace(facts, scalars=usable)
    truncated = read_truncated_ratio(run, facts)
    gen_s = _gen_seconds(facts)
    if facts.trajectories is not None and len(facts.trajectories.durations_s):
        inside = _from_trajectories(facts.trajectories, facts, gen_s, limits)
        return Look(facts, inside, "trajectories", truncated)
    if f"{_LOOP}generate_sequences/max" in facts.scalars:
        return Look(facts, _from_agent_loop(facts.scalars, gen_s), "agent_loop", truncated)
    return Look(facts, None, None, truncated)


def _gen_seconds(facts: StepFacts) -> float | None:
    """Return how long samples were generated, which the trainer may wait for only in part."""
    background_s = facts.scalars.get(_BACKGROUND_GEN)
    if background_s is not None:
        return background_s
    gen = facts.step.stage(stages.GEN) or facts.step.stage(stages.TRAINER_WAIT)
    return gen.inclusive_s if gen is not None else None


def _is_usable(value: float) -> bool:
    """Return whether a value is neither NaN nor so large that sums of it overflow."""
    return -_LARGEST < value < _LARGEST


def combine(parts: Sequence[InsideGen]) -> InsideGen:
    """Return the medians over several steps, and the replica that was slowest most often."""

    def median(name: str) -> float | None:
        known = [value for part in parts if (value := getattr(part, name)) is not None]
        return statistics.median(known) if known else None

    replicas = [part.slowest_replica for part in parts if part.slowest_replica is not None]
    numbers = {
        field.name: median(field.name) for field in fields(InsideGen) if field.name not in _NAMES
    }
    return InsideGen(**numbers, slowest_replica=statistics.mode(replicas) if replicas else None)


def read_truncated_ratio(run: RunFacts, facts: StepFacts) -> float | None:
    """Return the part of training samples that end at the known cap, None when it is unknown.

    verl's default trainer computes its clip ratio against the longest sample of the batch: there
    it counts only when the longest is known to be the cap.
    """
    trajectories = facts.trajectories
    cap = run.response_length_cap
    if trajectories is not None:
        statuses = [status for status in trajectories.statuses if status is not None]
        if statuses:
            return statuses.count("truncated") / len(statuses)
        lengths = [tokens for tokens in trajectories.output_tokens if tokens is not None]
        if cap and lengths:
            return sum(tokens >= cap for tokens in lengths) / len(lengths)
    ratio = metrics.read_metric("truncated_ratio", facts.scalars)
    if ratio is None or "response_length/clip_ratio" not in facts.scalars:
        return ratio
    longest = facts.scalars.get("response_length/max")
    if cap:
        return ratio if longest is None or longest >= cap else 0.0
    clips_at_cap = any(key.startswith(_LOOP) for key in facts.scalars)
    return ratio if clips_at_cap else None


def _divide(value: float | None, by: float | None) -> float | None:
    return value / by if value is not None and by else None


def _from_trajectories(
    samples: TrajectoryFacts, facts: StepFacts, gen_s: float | None, limits: Limits
) -> InsideGen:
    durations_s = _column(samples.durations_s)
    tokens = _column(samples.output_tokens)
    decode_s = _column(samples.generate_s)
    decode_s = np.where(np.isnan(decode_s), durations_s, decode_s)
    slowest = int(durations_s.argmax())
    end = _last_finishing(samples, limits)
    tail = measure_long_tail(samples, None, (_STOP_RATIO,))
    rates = tokens[(tokens > 0) & (decode_s > 0)] / decode_s[(tokens > 0) & (decode_s > 0)]
    tool_s, score_s = _column(samples.tool_s), _column(samples.score_s)
    mean_tokens = _mean(tokens)
    pace = find_slowest_replica(samples.replicas, decode_s, tokens)
    return InsideGen(
        slowest_s=float(durations_s[slowest]),
        mean_s=_mean(durations_s),
        slowest_of_gen=_divide(float(durations_s[slowest]), gen_s),
        slowest_tokens=_mean(tokens[[slowest]]),
        mean_tokens=mean_tokens,
        tool_of_end=_part_of(durations_s[end], tool_s[end]),
        score_of_end=_part_of(durations_s[end], score_s[end]),
        tool_saving_s=_saving_without(samples, tool_s),
        score_saving_s=_saving_without(samples, score_s),
        recomputed_ratio=_recomputed(
            _mean(_column(samples.preemptions)),
            facts.scalars.get("prompt_length/mean"),
            mean_tokens,
        ),
        tokens_per_s=float(np.median(rates)) if len(rates) else None,
        stop_saving_s=tail.stop_at[0][1] if tail is not None else None,
        idle_ratio=tail.idle_ratio if tail is not None else None,
        replica_ratio=None if pace is None else pace.ratio,
        replica_length_ratio=None if pace is None else pace.length_ratio,
        slowest_replica=None if pace is None else pace.replica,
    )


def _column(values: Sequence[float | None]) -> NDArray[np.float64]:
    """Return values as numbers, NaN where unknown."""
    return np.array(values, dtype=np.float64)


def _mean(values: NDArray[np.float64]) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None


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


def _recomputed(
    preemptions: float | None, prompt_tokens: float | None, response_tokens: float | None
) -> float | None:
    """Tokens computed twice: a preempted sample has its prompt and half its answer behind it."""
    if preemptions is None or preemptions < 0 or not response_tokens:
        return None
    return preemptions * ((prompt_tokens or 0.0) + response_tokens / 2) / response_tokens


def _from_agent_loop(scalars: Mapping[str, float], gen_s: float | None) -> InsideGen:
    """Read verl's aggregates: seconds a sample, summed over its turns, and the slowest sample."""

    def read(name: str) -> float | None:
        return scalars.get(_LOOP + name)

    generate_max = read("generate_sequences/max") or 0.0
    slowest_tool = read("slowest/tool_calls")
    slowest_score = read("slowest/compute_score")
    decode_s = read("slowest/generate_sequences")
    if decode_s is None:
        decode_s = generate_max
    slowest_s = decode_s + (slowest_tool or 0.0) + (slowest_score or 0.0)
    mean_s = math.fsum(
        read(f"{part}/mean") or 0.0
        for part in ("generate_sequences", "tool_calls", "compute_score")
    )
    mean_tokens = scalars.get("response_length/mean")
    return InsideGen(
        slowest_s=slowest_s,
        mean_s=mean_s or None,
        slowest_of_gen=_divide(slowest_s, gen_s),
        slowest_tokens=read("slowest/response_length"),
        mean_tokens=mean_tokens,
        tool_of_end=_divide(slowest_tool, slowest_s),
        score_of_end=_divide(slowest_score, slowest_s),
        tool_saving_s=None if slowest_tool is None else max(0.0, slowest_s - generate_max),
        score_saving_s=None if slowest_score is None else max(0.0, slowest_s - generate_max),
        recomputed_ratio=_recomputed(
            read("num_preempted/mean"), scalars.get("prompt_length/mean"), mean_tokens
        ),
        tokens_per_s=_divide(mean_tokens, read("generate_sequences/mean")),
    )
