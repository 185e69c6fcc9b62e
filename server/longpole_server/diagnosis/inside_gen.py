"""What happened inside gen: from trajectories, else from the agent loop's scalars.

The outer timer alone cannot say why gen is long. These numbers are the inner measurement that
must agree with it.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Literal

from longpole.conventions import metrics, stages
from longpole_server.analysis.longtail import measure_long_tail
from longpole_server.diagnosis.baseline import mean_known
from longpole_server.diagnosis.thresholds import Limits
from longpole_server.model.facts import RunFacts, StepFacts, TrajectoryFacts

InnerSource = Literal["trajectories", "agent_loop"]

_LOOP = "timing_s/agent_loop/"
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

    @property
    def time_ratio(self) -> float | None:
        """Slowest to mean time."""
        return _divide(self.slowest_s, self.mean_s)

    @property
    def token_ratio(self) -> float | None:
        """Slowest sample's tokens to the mean."""
        return _divide(self.slowest_tokens, self.mean_tokens)


def look_inside(facts: StepFacts, limits: Limits) -> tuple[InsideGen, InnerSource] | None:
    """Return what is known about the samples of a step and who said it."""
    gen = facts.step.stage(stages.GEN) or facts.step.stage(stages.TRAINER_WAIT)
    gen_s = gen.inclusive_s if gen is not None else None
    if facts.trajectories is not None and len(facts.trajectories.durations_s):
        return _from_trajectories(facts.trajectories, facts, gen_s, limits), "trajectories"
    if f"{_LOOP}generate_sequences/max" in facts.scalars:
        return _from_agent_loop(facts.scalars, gen_s), "agent_loop"
    return None


def combine(parts: Sequence[InsideGen]) -> InsideGen:
    """Return the medians over several steps."""

    def median(name: str) -> float | None:
        known = [value for part in parts if (value := getattr(part, name)) is not None]
        return statistics.median(known) if known else None

    return InsideGen(**{field.name: median(field.name) for field in fields(InsideGen)})


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
    slowest = max(range(len(samples.durations_s)), key=lambda at: samples.durations_s[at])
    end = _last_finishing(samples, limits)
    tail = measure_long_tail(samples, None, (_STOP_RATIO,))
    rates = [
        tokens / seconds
        for tokens, seconds in zip(samples.output_tokens, _decode_seconds(samples), strict=True)
        if tokens and seconds
    ]
    slowest_tokens = samples.output_tokens[slowest]
    return InsideGen(
        slowest_s=samples.durations_s[slowest],
        mean_s=statistics.fmean(samples.durations_s),
        slowest_of_gen=_divide(samples.durations_s[slowest], gen_s),
        slowest_tokens=None if slowest_tokens is None else float(slowest_tokens),
        mean_tokens=mean_known(samples.output_tokens),
        tool_of_end=_part_of_end(samples, end, samples.tool_s),
        score_of_end=_part_of_end(samples, end, samples.score_s),
        tool_saving_s=_saving_without(samples, samples.tool_s),
        score_saving_s=_saving_without(samples, samples.score_s),
        recomputed_ratio=_recomputed(
            mean_known(samples.preemptions),
            facts.scalars.get("prompt_length/mean"),
            mean_known(samples.output_tokens),
        ),
        tokens_per_s=statistics.median(rates) if rates else None,
        stop_saving_s=tail.stop_at[0][1] if tail is not None else None,
        idle_ratio=tail.idle_ratio if tail is not None else None,
    )


def _decode_seconds(samples: TrajectoryFacts) -> Sequence[float]:
    return [
        duration_s if generate_s is None else generate_s
        for generate_s, duration_s in zip(samples.generate_s, samples.durations_s, strict=True)
    ]


def _last_finishing(samples: TrajectoryFacts, limits: Limits) -> list[int]:
    """Return the samples at the exposed end: the last-finishing ones, which all wait for."""
    count = math.ceil(limits["rollout.end.sample_ratio"] * len(samples.end_ns))
    count = max(count, int(limits["rollout.end.min_samples"]))
    by_end = sorted(range(len(samples.end_ns)), key=lambda at: samples.end_ns[at])
    return by_end[-count:]


def _part_of_end(
    samples: TrajectoryFacts, end: Sequence[int], spent_s: Sequence[float | None]
) -> float | None:
    known = [(value, samples.durations_s[at]) for at in end if (value := spent_s[at]) is not None]
    total_s = math.fsum(duration_s for _, duration_s in known)
    if not total_s:
        return None
    return math.fsum(min(value, duration_s) for value, duration_s in known) / total_s


def _saving_without(samples: TrajectoryFacts, spent_s: Sequence[float | None]) -> float | None:
    """Return how much earlier the last sample would end if nobody spent this time."""
    if all(value is None for value in spent_s):
        return None
    last_ns = max(samples.end_ns)
    shortened_ns = max(
        end_ns - round((value or 0.0) * 1e9)
        for end_ns, value in zip(samples.end_ns, spent_s, strict=True)
    )
    return max(0.0, (last_ns - shortened_ns) / 1e9)


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
