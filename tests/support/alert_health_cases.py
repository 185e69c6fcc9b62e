"""Labelled runs by what trainers log: healthy ones with their noise, and what goes wrong in them.

Noise is heavier than a bell's (Student's t of 5; of 8 for what scatters by factors) and remembers
the step before; figures drift as they do in training.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from longpole_server.alerts.history import SampleCounts, StepPoint
from longpole_server.alerts.two_peaks import split_values
from longpole_server.model.step import OutsideStage, StageTime, Step
from support.alert_engine_series import BEGIN_NS, RUN_ID, Rng, S
from support.alert_labels import Labelled, make_run_of

_STEPS = 140
_Series = dict[str, "np.ndarray[tuple[int], np.dtype[np.float64]]"]
_THROUGHPUT, _SYNC, _WAIT, _MFU = "throughput", "sync_s", "trainer_wait", "mfu"
_OF_STEP = frozenset({_THROUGHPUT, _SYNC, _WAIT, _MFU})
REWARD, LENGTH, ENTROPY = "critic/score/mean", "response_length/mean", "actor/entropy"
KL, GRAD, ADVANTAGES = "actor/kl_loss", "actor/grad_norm", "critic/advantages/std"
CLIP, MISMATCH, LOSS = "actor/pg_clipfrac", "rollout_corr/kl", "actor/pg_loss"
LAG_MEAN, LAG_MAX = "async/staleness_mean", "async/staleness_max"
DROPS = "stale_drop_ratio"


def wander(rng: Rng, scale: float, freedom: int = 5) -> Any:
    """Noise with heavy tails (Student's t) and a little memory."""
    memory, count = float(rng.uniform(0, 0.5)), _STEPS
    unit = math.sqrt((1 - memory**2) * (freedom - 2) / freedom)
    shocks = rng.standard_t(freedom, count) * scale * unit
    values = np.empty(count)
    last = 0.0
    for index in range(count):
        last = memory * last + float(shocks[index])
        values[index] = last
    return values


def _limit(values: Any, lowest: float, highest: float) -> Any:
    return np.minimum(np.maximum(values, lowest), highest)


def draw_healthy(rng: Rng) -> _Series:
    """Everything a healthy run logs."""
    time = np.arange(_STEPS, dtype=np.float64)
    begin, gain = float(rng.uniform(0.15, 0.4)), float(rng.uniform(0.0, 0.4))
    middle, width = float(rng.uniform(30, 110)), float(rng.uniform(20, 50))
    learnt = 1 / (1 + np.exp(-(time - middle) / width))
    longer = 1 + float(rng.uniform(-0.1, 0.4)) * time / _STEPS
    length = float(rng.uniform(300, 3_000)) * longer * np.exp(wander(rng, 0.04))
    lag = float(rng.uniform(0.3, 1.2))
    return {
        REWARD: begin + gain * learnt + wander(rng, float(rng.uniform(0.008, 0.025))),
        LENGTH: length,
        ENTROPY: float(rng.uniform(0.3, 1.2))
        * (0.45 + 0.55 * np.exp(-time / float(rng.uniform(30, 200))))
        * np.exp(wander(rng, 0.05)),
        KL: np.maximum(1e-5, 5 * learnt / length * np.exp(wander(rng, 0.2))),
        GRAD: float(rng.uniform(0.1, 2)) * np.exp(wander(rng, float(rng.uniform(0.1, 0.35)), 8)),
        ADVANTAGES: float(rng.uniform(0.5, 1.0)) * np.exp(wander(rng, 0.08)),
        CLIP: _limit(float(rng.uniform(0.02, 0.2)) * np.exp(wander(rng, 0.2)), 0, 1),
        MISMATCH: float(rng.uniform(0.001, 0.01)) * np.exp(wander(rng, 0.25, 8)),
        LOSS: wander(rng, 0.02),
        _THROUGHPUT: float(rng.uniform(500, 4_000))
        * np.exp(wander(rng, float(rng.uniform(0.02, 0.06)))),
        _SYNC: float(rng.uniform(2, 20)) * np.exp(wander(rng, 0.1)),
        _WAIT: _limit(0.05 + wander(rng, 0.02), 0, 1),
        _MFU: _limit(float(rng.uniform(0.28, 0.5)) + wander(rng, 0.015), 0.01, 0.9),
        LAG_MEAN: np.maximum(0, lag + wander(rng, 0.12)),
        LAG_MAX: np.ceil(np.maximum(1, lag + 1 + wander(rng, 0.4))),
    }


# So many times its median, a gradient norm has spiked, whoever calls the run healthy: of noise with
# tails this heavy one step in some 30,000 does. A rule may tell so, and need not.
_SPIKED = 7.0


def build(
    series: _Series,
    rng: Rng,
    *,
    expected: str | None = None,
    tolerated: tuple[str, ...] = (),
    onset: int | None = None,
    rewards: Callable[[int], list[float]] | None = None,
    **run: Any,
) -> Labelled:
    """Return the run that logs a series; a validation every ten steps, a checkpoint every 25."""
    if float(np.max(series[GRAD])) >= _SPIKED * float(np.median(series[GRAD])):
        tolerated = (*tolerated, "grad.spike")
    step_s = float(rng.uniform(60, 400))
    # A step's tokens follow the responses; its seconds follow from tokens and throughput.
    tokens = series[LENGTH] / series[LENGTH][0] * series[_THROUGHPUT][0] * step_s
    ends_s = np.cumsum(tokens / series[_THROUGHPUT])
    of_samples = [rewards(index) for index in range(_STEPS)] if rewards is not None else []
    begins_s = [0.0, *(float(end) for end in ends_s[:-1])]
    points = [
        _make_point(
            index,
            series,
            (begins_s[index], float(ends_s[index])),
            _make_counts(of_samples[index]) if of_samples else None,
        )
        for index in range(_STEPS)
    ]
    return Labelled(
        make_run_of(points, **run),
        points,
        frozenset() if expected is None else frozenset({expected}),
        frozenset(tolerated),
        onset,
        rewards=of_samples,
    )


def _make_point(
    index: int, series: _Series, span_s: tuple[float, float], samples: SampleCounts | None
) -> StepPoint:
    step_s = span_s[1] - span_s[0]
    values = {name: float(column[index]) for name, column in series.items()}
    outside: tuple[OutsideStage, ...] = ()
    if index % 10 == 9:
        outside = (OutsideStage("testing", step_s / 2),)
    elif index % 25 == 24:
        outside = (OutsideStage("save_checkpoint", step_s / 4),)
    stages = tuple(
        StageTime(name, seconds, seconds, seconds / step_s, None, None, (), "span")
        for name, seconds in (
            ("update_weights", values[_SYNC]),
            ("trainer_wait", values[_WAIT] * step_s),
        )
    )
    step = Step(
        run_id=RUN_ID,
        step=index + 1,
        attempt=1,
        start_ns=BEGIN_NS + round(span_s[0] * S),
        end_ns=BEGIN_NS + round(span_s[1] * S),
        duration_s=step_s,
        closed_by="loop",
        stages=stages,
        unattributed_s=None,
        outside=outside,
        throughput_tokens_per_s_per_gpu=values[_THROUGHPUT],
        tokens_total=round(values[_THROUGHPUT] * step_s * 8),
        mfu_actor=values[_MFU],
    )
    scalars = {name: value for name, value in values.items() if name not in _OF_STEP}
    return StepPoint(step, scalars, samples)


def _onset(rng: Rng) -> int:
    return int(rng.integers(45, 85))


def _ramp(onset: int, steps: float) -> Any:
    """From 0 before the onset (counted from 1) to 1 so many steps later."""
    return _limit((np.arange(_STEPS) - onset + 2) / max(1.0, steps), 0, 1)


def healthy(rng: Rng) -> Labelled:
    """A run that learns."""
    return build(draw_healthy(rng), rng)


def reward_jump(rng: Rng) -> Labelled:
    """The policy finds a hole in the reward."""
    series, onset = draw_healthy(rng), _onset(rng)
    series[REWARD] = series[REWARD] + float(rng.uniform(0.3, 0.6)) * _ramp(onset, rng.uniform(1, 3))
    return build(series, rng, expected="reward.jump", onset=onset)


def reward_two_peaks(rng: Rng) -> Labelled:
    """A part of the samples finds it; the mean hardly moves."""
    series, onset = draw_healthy(rng), _onset(rng)
    part = float(rng.uniform(0.12, 0.3))
    return build(
        series,
        rng,
        expected="reward.jump",
        onset=onset,
        rewards=lambda index: _draw_rewards(rng, part if index + 1 >= onset else 0.0),
    )


def _draw_rewards(rng: Rng, part: float) -> list[float]:
    hacked = rng.random(256) < part
    rewards = np.where(hacked, rng.normal(1.0, 0.04, 256), rng.normal(0.4, 0.06, 256))
    return [float(each) for each in rewards]


def _make_counts(rewards: list[float]) -> SampleCounts:
    split = split_values(rewards)
    return SampleCounts(
        num_samples=256,
        num_scored=256,
        num_zero_rewards=0,
        num_dropped_stale=0,
        num_preempted=0,
        num_reporting_preemptions=0,
        score_max_s=None,
        score_median_s=None,
        num_zero_at_max=0,
        version_max=None,
        reward_split=split[0] if split else None,
        reward_minority=split[1] if split else None,
    )


def binary_rewards(rng: Rng) -> Labelled:
    """Right or wrong: two peaks from the start."""
    return build(
        draw_healthy(rng),
        rng,
        rewards=lambda index: [
            float(each) for each in rng.random(256) < 0.2 + 0.4 * index / _STEPS
        ],
    )


def reward_collapse(rng: Rng) -> Labelled:
    """The policy breaks."""
    series, onset = draw_healthy(rng), _onset(rng)
    series[REWARD] = series[REWARD] * (
        1 - float(rng.uniform(0.6, 1)) * _ramp(onset, rng.uniform(1, 4))
    )
    return build(series, rng, expected="reward.collapse", onset=onset)


def kl_explosion(rng: Rng) -> Labelled:
    """KL to the reference doubles every few steps."""
    series, onset = draw_healthy(rng), _onset(rng)
    growth = np.exp(np.maximum(0, np.arange(_STEPS) - onset + 2) / float(rng.uniform(4, 10)))
    series[KL] = np.minimum(
        np.maximum(series[KL], 1.0 / series[LENGTH]) * growth, 500 / series[LENGTH]
    )
    return build(series, rng, expected="kl.high", onset=onset)


def entropy_collapse(rng: Rng) -> Labelled:
    """The policy stops exploring."""
    series, onset = draw_healthy(rng), _onset(rng)
    series[ENTROPY] = series[ENTROPY] * (1 - 0.95 * _ramp(onset, rng.uniform(5, 25)))
    return build(series, rng, expected="entropy.collapse", onset=onset)


def length_collapse(rng: Rng) -> Labelled:
    """Responses become nearly empty."""
    series, onset = draw_healthy(rng), _onset(rng)
    series[LENGTH] = series[LENGTH] * (1 - 0.95 * _ramp(onset, rng.uniform(1, 15)))
    return build(series, rng, expected="length.collapse", onset=onset)


def length_explosion(rng: Rng) -> Labelled:
    """Responses never end any more."""
    series, onset = draw_healthy(rng), _onset(rng)
    factor = float(rng.uniform(2, 5))
    series[LENGTH] = series[LENGTH] * (1 + (factor - 1) * _ramp(onset, rng.uniform(2, 12)))
    return build(series, rng, expected="length.explosion", onset=onset)


def clip_high(rng: Rng) -> Labelled:
    """Updates are too aggressive."""
    series, onset = draw_healthy(rng), _onset(rng)
    high = _limit(0.65 + wander(rng, 0.03), 0, 1)
    series[CLIP] = np.where(np.arange(_STEPS) + 1 >= onset, high, series[CLIP])
    return build(series, rng, expected="clip.high", onset=onset)


def mfu_low(rng: Rng) -> Labelled:
    """Micro-batches are too small from some step on."""
    series, onset = draw_healthy(rng), _onset(rng)
    low = _limit(float(rng.uniform(0.08, 0.16)) + wander(rng, 0.01), 0.01, 1)
    series[_MFU] = np.where(np.arange(_STEPS) + 1 >= onset, low, series[_MFU])
    return build(series, rng, expected="mfu.low", onset=onset)


def grad_spike(rng: Rng) -> Labelled:
    """One bad batch."""
    series, onset = draw_healthy(rng), _onset(rng)
    # Not in a step with a validation, which is not judged.
    onset += onset % 10 == 0 or onset % 25 == 0
    factor = np.where(np.arange(_STEPS) + 1 == onset, float(rng.uniform(17, 60)), 1.0)
    series[GRAD] = series[GRAD] * factor
    return build(series, rng, expected="grad.spike", onset=onset)


def loss_nan(rng: Rng) -> Labelled:
    """The loss is no number any more."""
    series, onset = draw_healthy(rng), _onset(rng)
    series[LOSS] = np.where(np.arange(_STEPS) + 1 >= onset, np.nan, series[LOSS])
    return build(series, rng, expected="loss.nan", onset=onset)


def advantages_flat(rng: Rng) -> Labelled:
    """All answers of a group get the same reward."""
    series, onset = draw_healthy(rng), _onset(rng)
    series[ADVANTAGES] = series[ADVANTAGES] * (1 - 0.985 * _ramp(onset, rng.uniform(1, 5)))
    return build(series, rng, expected="advantage.variance", onset=onset)


def advantages_explode(rng: Rng) -> Labelled:
    """A few samples get advantages beyond all others."""
    series, onset = draw_healthy(rng), _onset(rng)
    series[ADVANTAGES] = series[ADVANTAGES] * (1 + float(rng.uniform(9, 20)) * _ramp(onset, 2))
    return build(series, rng, expected="advantage.variance", onset=onset)


def mismatch_jump(rng: Rng) -> Labelled:
    """Engines keep old weights or caches."""
    series, onset = draw_healthy(rng), _onset(rng)
    high = float(rng.uniform(0.1, 0.9)) * np.exp(wander(rng, 0.2))
    series[MISMATCH] = np.where(np.arange(_STEPS) + 1 >= onset, high, series[MISMATCH])
    return build(series, rng, expected="mismatch.high", onset=onset)


def throughput_decay(rng: Rng) -> Labelled:
    """Slower and slower, for no reason of the work's."""
    series, onset = draw_healthy(rng), int(rng.integers(20, 50))
    fall = np.exp(-float(rng.uniform(0.006, 0.015)) * np.maximum(0, np.arange(_STEPS) - onset))
    series[_THROUGHPUT] = series[_THROUGHPUT] * fall
    return build(
        series,
        rng,
        expected="throughput.decay",
        tolerated=("throughput.regression",),
        onset=onset,
    )


def decays_under_longer_responses(rng: Rng) -> Labelled:
    """Slower by longer responses, and by more than these explain."""
    series, onset, time = draw_healthy(rng), int(rng.integers(20, 50)), np.arange(_STEPS)
    length = 700 * (1 + float(rng.uniform(0.2, 0.5)) * time / _STEPS) * np.exp(wander(rng, 0.04))
    fall = np.exp(-float(rng.uniform(0.012, 0.02)) * np.maximum(0, time - onset))
    series[_THROUGHPUT] = series[_THROUGHPUT] * (length / 700) ** -0.6 * fall
    series[KL], series[LENGTH] = series[KL] * series[LENGTH] / length, length
    return build(
        series,
        rng,
        expected="throughput.decay",
        tolerated=("throughput.regression",),
        onset=onset,
    )


def slower_by_length(rng: Rng) -> Labelled:
    """Slower, because responses get longer."""
    series = draw_healthy(rng)
    growth = 1 + float(rng.uniform(0.6, 2.5)) * np.arange(_STEPS) / _STEPS
    power = float(rng.uniform(0.5, 0.9))
    noise = np.exp(wander(rng, 0.04))
    length = float(rng.uniform(300, 1_500)) * growth * noise
    # KL of a sequence is what it was: what is logged is its mean over tokens.
    series[KL], series[LENGTH] = series[KL] * series[LENGTH] / length, length
    series[_THROUGHPUT] = series[_THROUGHPUT] * (growth * noise) ** -power
    return build(series, rng)


def throughput_drop(rng: Rng) -> Labelled:
    """A slow node from one step to the next."""
    series, onset = draw_healthy(rng), _onset(rng)
    fall = float(rng.uniform(0.4, 0.6))
    series[_THROUGHPUT] = series[_THROUGHPUT] * np.where(np.arange(_STEPS) + 1 >= onset, fall, 1.0)
    return build(
        series,
        rng,
        expected="throughput.regression",
        tolerated=("throughput.decay",),
        onset=onset,
    )


def sync_slow(rng: Rng) -> Labelled:
    """The link that carries the weights got slower."""
    series, onset = draw_healthy(rng), _onset(rng)
    slow = series[_SYNC] * float(rng.uniform(2.5, 5)) + 10
    series[_SYNC] = np.where(np.arange(_STEPS) + 1 >= onset, slow, series[_SYNC])
    return build(series, rng, expected="sync.slow", onset=onset)


def staleness_held(rng: Rng) -> Labelled:
    """The bound holds the lag."""
    series, onset = draw_healthy(rng), _onset(rng)
    bound = float(rng.integers(2, 8))
    held = np.arange(_STEPS) + 1 >= onset
    series[LAG_MAX] = np.where(held, bound, np.minimum(series[LAG_MAX], bound))
    series[LAG_MEAN] = np.where(
        held, np.minimum(bound, 0.92 * bound + wander(rng, 0.05)), series[LAG_MEAN]
    )
    return build(series, rng, expected="staleness.drift", onset=onset, staleness_bound=bound)


def staleness_drifts(rng: Rng) -> Labelled:
    """Samples get older, far from any bound."""
    series, onset = draw_healthy(rng), _onset(rng)
    more = float(rng.uniform(2.5, 5)) * _ramp(onset, rng.uniform(10, 40))
    series[LAG_MEAN] = series[LAG_MEAN] + more
    series[LAG_MAX] = np.ceil(series[LAG_MAX] + more)
    return build(series, rng, expected="staleness.drift", onset=onset, staleness_bound=16.0)


def staleness_exceeded_after_resume(rng: Rng) -> Labelled:
    """What limits the lag was not restored: beyond the bound from the first step on."""
    series = draw_healthy(rng)
    bound = float(rng.integers(2, 6))
    series[LAG_MAX] = bound + np.ceil(np.minimum(6, np.arange(_STEPS) / 2 + 1))
    series[LAG_MEAN] = series[LAG_MAX] - 1.5
    labelled = build(
        series,
        rng,
        expected="staleness.bound_exceeded",
        tolerated=("staleness.drift",),
        onset=1,
        staleness_bound=bound,
    )
    return replace(labelled, run=replace(labelled.run, attempt=2))


def stale_drops(rng: Rng) -> Labelled:
    """A third of what is generated is thrown away."""
    series, onset = draw_healthy(rng), _onset(rng)
    series[DROPS] = _limit(
        0.03 + float(rng.uniform(0.25, 0.4)) * _ramp(onset, 3) + wander(rng, 0.015), 0, 1
    )
    return build(series, rng, expected="staleness.drops", onset=onset)


def few_stale_drops(rng: Rng) -> Labelled:
    """A tenth is thrown away, as a bound does."""
    series = draw_healthy(rng)
    series[DROPS] = _limit(0.1 + wander(rng, 0.015), 0, 1)
    series[LAG_MAX] = np.minimum(series[LAG_MAX], 4.0)
    return build(series, rng, staleness_bound=4.0)


def staleness_warm_up(rng: Rng) -> Labelled:
    """Buffers fill: the lag climbs to where it stays."""
    series = draw_healthy(rng)
    steady = float(rng.uniform(1.5, 3.5))
    climb = 1 - np.exp(-np.arange(_STEPS) / float(rng.uniform(2, 5)))
    series[LAG_MEAN] = np.maximum(0, steady * climb + wander(rng, 0.12))
    series[LAG_MAX] = np.minimum(6, np.ceil(series[LAG_MEAN] + 1))
    return build(series, rng, staleness_bound=6.0)


def one_step_off(rng: Rng) -> Labelled:
    """Always one version behind, by design."""
    series = draw_healthy(rng)
    series[LAG_MAX] = np.where(np.arange(_STEPS) > 0, 1.0, 0.0)
    series[LAG_MEAN] = series[LAG_MAX]
    return build(series, rng, staleness_bound=1.0, facts={"mode": "one_step_off"})


def oldest_touches_bound(rng: Rng) -> Labelled:
    """Only the oldest sample of each step is at the bound."""
    series = draw_healthy(rng)
    bound = float(rng.integers(4, 9))
    series[LAG_MAX] = np.full(_STEPS, bound)
    return build(series, rng, staleness_bound=bound)


HEALTH_CASES: Mapping[str, Callable[[Rng], Labelled]] = {
    case.__name__: case
    for case in (
        healthy,
        reward_jump,
        reward_two_peaks,
        binary_rewards,
        reward_collapse,
        kl_explosion,
        entropy_collapse,
        length_collapse,
        length_explosion,
        clip_high,
        mfu_low,
        grad_spike,
        loss_nan,
        advantages_flat,
        advantages_explode,
        mismatch_jump,
        throughput_decay,
        decays_under_longer_responses,
        slower_by_length,
        throughput_drop,
        sync_slow,
        staleness_held,
        staleness_drifts,
        staleness_exceeded_after_resume,
        stale_drops,
        few_stale_drops,
        staleness_warm_up,
        one_step_off,
        oldest_touches_bound,
    )
}
