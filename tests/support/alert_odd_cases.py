"""Labelled runs that are odd and healthy, and the same with trouble in them. A seed draws each.

Written from what trainers and engines do, with no look at any threshold: bursts and gaps, figures
that are logged now and then, other scales and signs, many replicas, slow scrapes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from longpole_server.alerts.history import ReplicaSamples, SampleCounts, StepPoint
from longpole_server.model.step import StageTime, Step
from support.alert_engine_series import BEGIN_NS, RUN_ID, EnginePlan, EngineRun, Rng, S, make_points
from support.alert_labels import Labelled, make_run_of

_STEPS = 160
_NAMES = {
    "reward": "critic/score/mean",
    "length": "response_length/mean",
    "entropy": "actor/entropy",
    "kl": "actor/kl_loss",
    "grad": "actor/grad_norm",
    "clip": "actor/pg_clipfrac",
    "loss": "actor/pg_loss",
    "mismatch": "rollout_corr/kl",
    "advantages": "critic/advantages/max",
    "disadvantages": "critic/advantages/min",
}


@dataclass
class _Odd:
    """One run to be: columns over steps, seconds of each step, samples of each step."""

    columns: dict[str, Any]
    seconds: Any
    samples: Sequence[SampleCounts | None] | None = None
    every: int = 1
    first_step: int = 1
    attempt: int = 1
    outside: Mapping[int, float] = field(default_factory=dict[int, float])


def _usual(rng: Rng, count: int = _STEPS) -> _Odd:
    at = np.arange(count)
    length = 700 * (1 + 0.3 * at / count) * np.exp(rng.normal(0, 0.06, count))
    columns = {
        "reward": 0.3 + 0.4 * (1 - np.exp(-at / 70)) + rng.normal(0, 0.03, count),
        "length": length,
        "entropy": 0.8 * np.exp(-at / 500) * np.exp(rng.normal(0, 0.05, count)),
        "kl": 0.0008 * (1 - np.exp(-at / 50)) * np.exp(rng.normal(0, 0.2, count)) + 1e-6,
        "grad": (0.4 + np.exp(-at / 10)) * np.exp(rng.normal(0, 0.3, count)),
        "clip": 0.02 * np.exp(rng.normal(0, 0.4, count)),
        "loss": rng.normal(0, 0.04, count),
        "mismatch": 0.004 * np.exp(rng.normal(0, 0.15, count)),
        "advantages": 2.2 * np.exp(rng.normal(0, 0.15, count)),
        "disadvantages": -2.1 * np.exp(rng.normal(0, 0.15, count)),
    }
    return _Odd(columns, 90 * (length / 700) ** 0.8 * np.exp(rng.normal(0, 0.07, count)))


def _label(
    odd: _Odd, *, expected: str | None = None, onset: int | None = None, **run: Any
) -> Labelled:
    count = len(odd.seconds)
    ends_s = np.cumsum(odd.seconds) + np.cumsum([odd.outside.get(at, 0.0) for at in range(count)])
    points = [_point(odd, at, float(ends_s[at])) for at in range(count)]
    return Labelled(
        make_run_of(points, attempt=odd.attempt, **run),
        points,
        frozenset() if expected is None else frozenset({expected}),
        onset_step=onset,
    )


def _point(odd: _Odd, at: int, end_s: float) -> StepPoint:
    seconds, number = float(odd.seconds[at]), odd.first_step + at
    tokens = round(512 * float(odd.columns["length"][at])) if "length" in odd.columns else None
    step = Step(
        run_id=RUN_ID,
        step=number,
        attempt=odd.attempt,
        start_ns=BEGIN_NS + round((end_s - seconds) * S),
        end_ns=BEGIN_NS + round(end_s * S),
        duration_s=seconds,
        closed_by="loop",
        stages=(StageTime("update_weights", 3.0, 3.0, 3 / seconds, None, None, (), "span"),),
        unattributed_s=None,
        outside=(),
        tokens_total=tokens,
        throughput_tokens_per_s_per_gpu=tokens / seconds / 16 if tokens is not None else None,
    )
    is_logged = at % odd.every == 0
    scalars = {
        _NAMES.get(name, name): float(column[at])
        for name, column in odd.columns.items()
        if is_logged and column[at] is not None
    }
    return StepPoint(step, scalars, odd.samples[at] if odd.samples is not None else None)


def _count(names: Mapping[str, int], version: int | None = None) -> SampleCounts:
    """Return a step's samples by replica."""
    total = sum(names.values())
    replicas = tuple(ReplicaSamples(name, count, 0) for name, count in names.items() if count)
    return SampleCounts(total, total, 0, 0, 0, 0, None, None, 0, version, replicas)


def _spread(rng: Rng, names: Sequence[str], total: int) -> dict[str, int]:
    counts = rng.multinomial(total, [1 / len(names)] * len(names))
    return {name: int(count) for name, count in zip(names, counts, strict=True)}


def _bursty(rng: Rng, *, stuck: int | None = None) -> _Odd:
    """Asynchronous, in bursts: four steps on one version, few samples a step, pauses between."""
    odd = _usual(rng)
    odd.seconds = odd.seconds * np.exp(rng.normal(0, 0.7, _STEPS)) * rng.choice([0.5, 3], _STEPS)
    names = [f"engine-{index}" for index in range(12)]
    versions = [at // 4 if stuck is None or at < stuck else stuck // 4 for at in range(_STEPS)]
    odd.samples = [
        _count(_spread(rng, names, int(rng.integers(16, 48))), versions[at]) for at in range(_STEPS)
    ]
    return odd


def bursty(rng: Rng) -> Labelled:
    """Asynchronous, in bursts."""
    return _label(_bursty(rng), facts={"mode": "fully_async"})


def bursty_without_syncs(rng: Rng) -> Labelled:
    """The same, until the weights do not come any more."""
    stuck = 4 * int(rng.integers(15, 25))
    odd = _bursty(rng, stuck=stuck)
    return _label(odd, expected="sync.failed", onset=stuck + 4, facts={"mode": "fully_async"})


def logged_now_and_then(rng: Rng) -> Labelled:
    """Figures of every tenth step only."""
    odd = _usual(rng, 600)
    odd.every = 10
    return _label(odd)


def logged_now_and_then_and_collapses(rng: Rng) -> Labelled:
    """The same, and the reward is gone from one step on."""
    odd, onset = _usual(rng, 600), int(rng.integers(250, 450))
    odd.every = 10
    odd.columns["reward"][onset:] = 0.02
    return _label(odd, expected="reward.collapse", onset=onset)


def steps_of_any_length(rng: Rng) -> Labelled:
    """Short and long tasks by turns: steps take one or ten minutes, tokens with them."""
    odd = _usual(rng)
    factor = rng.choice([0.3, 1.0, 4.0], _STEPS)
    odd.columns["length"] = odd.columns["length"] * factor
    odd.seconds = odd.seconds * factor**0.9
    return _label(odd)


def no_number_where_none_is_due(rng: Rng) -> Labelled:
    """One figure that says nothing of the training is NaN for ever."""
    odd = _usual(rng)
    odd.columns["critic/vf_explained_var"] = np.full(_STEPS, np.nan)
    return _label(odd)


def no_number_in_the_loss(rng: Rng) -> Labelled:
    """The same, and the loss in one step."""
    odd, onset = _usual(rng), int(rng.integers(2, 150))
    odd.columns["critic/vf_explained_var"] = np.full(_STEPS, np.nan)
    odd.columns["loss"][onset - 1] = np.nan
    return _label(odd, expected="loss.nan", onset=onset)


def _scaled(rng: Rng, scale: float, shift: float) -> _Odd:
    odd = _usual(rng)
    for name in ("reward", "advantages", "disadvantages"):
        odd.columns[name] = odd.columns[name] * scale + (shift if name == "reward" else 0.0)
    return odd


def rewards_of_millions(rng: Rng) -> Labelled:
    """Rewards count in millions."""
    return _label(_scaled(rng, 1e6, 0.0))


def rewards_of_millions_collapse(rng: Rng) -> Labelled:
    """The same, until they are next to nothing."""
    odd, onset = _scaled(rng, 1e6, 0.0), int(rng.integers(60, 120))
    odd.columns["reward"][onset - 1 :] = 1e3
    return _label(odd, expected="reward.collapse", onset=onset)


def rewards_below_zero(rng: Rng) -> Labelled:
    """Every sample is punished, ever less."""
    return _label(_scaled(rng, 10.0, -12.0))


def rewards_below_zero_collapse(rng: Rng) -> Labelled:
    """The same, until it is three times as much."""
    odd, onset = _scaled(rng, 10.0, -12.0), int(rng.integers(60, 120))
    odd.columns["reward"][onset - 1 :] = -25 + rng.normal(0, 0.5, _STEPS - onset + 1)
    return _label(odd, expected="reward.collapse", onset=onset)


def entropy_rises(rng: Rng) -> Labelled:
    """An entropy bonus does what it is for."""
    odd = _usual(rng)
    odd.columns["entropy"] = 0.2 * np.exp(1.5 * np.arange(_STEPS) / _STEPS)
    return _label(odd)


def kl_from_zero(rng: Rng) -> Labelled:
    """The policy begins as the reference: exactly no KL, then a little."""
    odd = _usual(rng)
    kl = np.maximum(0.0, 2e-5 * (np.arange(_STEPS) - 8)) * np.exp(rng.normal(0, 0.3, _STEPS))
    odd.columns["kl"] = kl
    odd.columns["clip"] = np.where(rng.random(_STEPS) < 0.6, 0.0, odd.columns["clip"])
    return _label(odd)


def resumed(rng: Rng) -> Labelled:
    """Goes on at step 301, with queues and caches empty: the first steps are slow."""
    odd = _usual(rng)
    odd.first_step, odd.attempt = 301, 2
    odd.seconds[:4] *= np.array([4.0, 2.0, 1.5, 1.2])
    return _label(odd)


def validates_for_long(rng: Rng) -> Labelled:
    """Every twentieth step is followed by a validation of many steps' time."""
    odd = _usual(rng)
    odd.outside = dict.fromkeys(range(19, _STEPS, 20), 400.0)
    return _label(odd, patience_s=1e6)


def _many(rng: Rng, number: int, total: int, working: Callable[[int], Sequence[int]]) -> _Odd:
    odd = _usual(rng)
    odd.samples = [
        _count(_spread(rng, [f"engine-{index}" for index in working(at)], total))
        for at in range(_STEPS)
    ]
    return odd


def many_replicas(rng: Rng) -> Labelled:
    """64 replicas and few samples a step: each has none now and then."""
    total = int(rng.choice([96, 128, 256]))
    return _label(_many(rng, 64, total, lambda _: range(64)))


def one_of_many_dies(rng: Rng) -> Labelled:
    """The same, until one has none at all."""
    onset, total = int(rng.integers(50, 90)), int(rng.choice([128, 256, 512]))
    odd = _many(rng, 64, total, lambda at: range(64 if at < onset - 1 else 63))
    return _label(odd, expected="replica.gone", onset=onset)


def one_joins_late(rng: Rng) -> Labelled:
    """A fifth replica comes in the middle and stays."""
    late = int(rng.integers(20, 120))
    return _label(_many(rng, 5, 256, lambda at: range(4 if at < late else 5)))


def one_joins_late_and_dies(rng: Rng) -> Labelled:
    """It comes, works for twenty steps, and is gone."""
    late = int(rng.integers(20, 100))
    odd = _many(rng, 5, 256, lambda at: range(5 if late <= at < late + 20 else 4))
    return _label(odd, expected="replica.gone", onset=late + 21)


def _scored(rng: Rng, parts: Callable[[int], tuple[float, float]], **label: Any) -> Labelled:
    """Return a run whose samples come without a score, and are preempted, in such parts."""
    odd = _usual(rng)
    samples: list[SampleCounts] = []
    for at in range(_STEPS):
        unscored, preempted = (int(rng.binomial(256, part)) for part in parts(at + 1))
        count = replace(_count({"engine-0": 128, "engine-1": 128}), num_scored=256 - unscored)
        samples.append(
            replace(
                count,
                num_unscored=unscored,
                num_preempted=preempted,
                num_reporting_preemptions=256,
                score_max_s=4.0,
                score_median_s=1.0,
            )
        )
    odd.samples = samples
    return _label(odd, **label)


def rewards_missing(rng: Rng) -> Labelled:
    """The reward service answers for most of the samples only."""
    onset, part = int(rng.integers(50, 90)), float(rng.uniform(0.3, 0.9))
    return _scored(
        rng,
        lambda step: (part if step >= onset else 0.01, 0.0),
        expected="reward.timeout",
        onset=onset,
    )


def rewards_missing_now_and_then(rng: Rng) -> Labelled:
    """A few scores are missing, and in single steps many."""
    once = frozenset(int(step) for step in rng.choice(np.arange(5, 150, 7), 3, replace=False))
    return _scored(rng, lambda step: (0.5 if step in once else 0.08, 0.0))


def cache_too_small(rng: Rng) -> Labelled:
    """Longer sequences do not fit any more: many are preempted."""
    onset, part = int(rng.integers(50, 90)), float(rng.uniform(0.2, 0.6))
    return _scored(
        rng,
        lambda step: (0.0, part if step >= onset else 0.01),
        expected="kv.pressure",
        onset=onset,
    )


def preempted_now_and_then(rng: Rng) -> Labelled:
    """A few are preempted, and in single steps many."""
    once = frozenset(int(step) for step in rng.choice(np.arange(5, 150, 7), 4, replace=False))
    return _scored(rng, lambda step: (0.0, 0.4 if step in once else 0.04))


def _scraped(rng: Rng, plan: EnginePlan, number: int, scrape_s: float, **label: Any) -> Labelled:
    healthy = EnginePlan(lambda _: 0.01)
    run = EngineRun(
        {f"engine-{index}": plan if index == 0 else healthy for index in range(number)},
        100,
        step_s=float(rng.uniform(150, 300)),
        scrape_s=scrape_s,
        engine=str(rng.choice(["vllm", "sglang"])),
    )
    points = make_points(run, rng)
    return Labelled(make_run_of(points), points, **label)


def scraped_slowly(rng: Rng) -> Labelled:
    """Engines are looked at every 15 s."""
    return _scraped(rng, EnginePlan(lambda _: 0.02), 3, 15.0)


def scraped_slowly_and_leaks(rng: Rng) -> Labelled:
    """The same, and one of them leaks."""
    slope, base = 1 / float(rng.uniform(90, 200)), float(rng.uniform(0, 0.1))
    plan = EnginePlan(lambda index: min(1.0, base + slope * index), noise=0.004)
    expected = frozenset({"kv.leak"})
    return _scraped(rng, plan, 3, 15.0, expected=expected, onset_step=1)


def counters_that_reset(rng: Rng) -> Labelled:
    """An engine is started anew time and again, with a little of its cache resident."""
    steps = frozenset(int(step) for step in rng.choice(100, 12, replace=False))
    plan = EnginePlan(lambda _: 0.04, restarts=steps)
    return _scraped(rng, plan, 2, 5.0)


def many_engines(rng: Rng) -> Labelled:
    """12 engines at rest in every step: among so many, one always looks odd."""
    labelled = _scraped(rng, EnginePlan(lambda _: 0.02), 12, 10.0)
    return replace(labelled, points=labelled.points[:60])


ODD_CASES: Mapping[str, Callable[[Rng], Labelled]] = {
    case.__name__: case
    for case in (
        bursty,
        bursty_without_syncs,
        logged_now_and_then,
        logged_now_and_then_and_collapses,
        steps_of_any_length,
        no_number_where_none_is_due,
        no_number_in_the_loss,
        rewards_of_millions,
        rewards_of_millions_collapse,
        rewards_below_zero,
        rewards_below_zero_collapse,
        entropy_rises,
        kl_from_zero,
        resumed,
        validates_for_long,
        many_replicas,
        one_of_many_dies,
        one_joins_late,
        one_joins_late_and_dies,
        rewards_missing,
        rewards_missing_now_and_then,
        cache_too_small,
        preempted_now_and_then,
        scraped_slowly,
        scraped_slowly_and_leaks,
        counters_that_reset,
        many_engines,
    )
}
