"""Labelled runs by what trainers log, after cases in the field: other shapes, other noise.

Noise here is a bell's or counts of samples, and remembers more; figures begin where runs begin:
rewards of zero, gradients of a warm-up, queues that are empty.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from longpole_server.alerts.history import StepPoint
from longpole_server.model.step import StageTime, Step
from support.alert_engine_series import BEGIN_NS, RUN_ID, Rng, S
from support.alert_labels import Labelled, make_run_of

_STEPS = 120
_AT = np.arange(_STEPS)
REWARD, LENGTH, ENTROPY = "rollout/raw_reward", "rollout/response_len/mean", "train/entropy_loss"
KL, GRAD, CLIP = "train/kl_loss", "train/grad_norm", "train/pg_clipfrac"
MISMATCH, LOSS = "train/train_rollout_logprob_abs_diff", "train/loss"
LAG_MEAN, LAG_MAX = (
    "training/off_policy/trajectory_staleness/mean",
    "training/off_policy/trajectory_staleness_worst/max",
)
DROPPED, GENERATED = (
    "fully_async/count/dropped_stale_samples",
    "fully_async/count/total_generated_samples",
)
_SECONDS = "seconds"
_Log = dict[str, Any]


def _limit(values: Any, lowest: float, highest: float) -> Any:
    return np.minimum(np.maximum(values, lowest), highest)


def _walk(rng: Rng, scale: float, memory: float = 0.6) -> Any:
    """Noise of a bell that remembers."""
    values, last = np.empty(_STEPS), 0.0
    for index in range(_STEPS):
        last = memory * last + float(rng.normal(0, scale)) * (1 - memory**2) ** 0.5
        values[index] = last
    return values


def _solved(rng: Rng, odds: Any, samples: int = 512) -> Any:
    """The part of the samples that is right, counted."""
    counts = np.asarray(rng.binomial(samples, _limit(odds, 0, 1)), dtype=np.float64)
    return counts / samples


def _usual(rng: Rng) -> _Log:
    learnt = 0.1 + 0.6 * (1 - np.exp(-_AT / float(rng.uniform(40, 200))))
    length = 900 * (1 + float(rng.uniform(0, 1.0)) * _AT / _STEPS) * np.exp(_walk(rng, 0.05))
    return {
        REWARD: _solved(rng, learnt + _walk(rng, 0.01)),
        LENGTH: length,
        ENTROPY: 0.9 * np.exp(-_AT / float(rng.uniform(150, 600))) * np.exp(_walk(rng, 0.04)),
        KL: 0.001 * (1 - np.exp(-_AT / 60)) * np.exp(_walk(rng, 0.2)),
        GRAD: (0.3 + 3 * np.exp(-_AT / 6)) * np.exp(_walk(rng, 0.25, 0.2)),
        CLIP: _limit(0.01 * np.exp(_walk(rng, 0.5, 0.2)), 0, 1),
        MISMATCH: 0.012 * np.exp(_walk(rng, 0.1)),
        LOSS: _walk(rng, 0.05, 0.0),
        _SECONDS: 100 * (length / 900) ** 0.8 * np.exp(_walk(rng, 0.06)),
    }


def _label(
    log: _Log,
    *,
    expected: str | None = None,
    tolerated: tuple[str, ...] = (),
    onset: int | None = None,
    **run: Any,
) -> Labelled:
    ends_s = np.cumsum(log[_SECONDS])
    points: list[StepPoint] = []
    for index in range(_STEPS):
        seconds = float(log[_SECONDS][index])
        tokens = round(512 * float(log[LENGTH][index]))
        start_ns = BEGIN_NS + round((float(ends_s[index]) - seconds) * S)
        sync = StageTime("update_weights", 4.0, 4.0, 4 / seconds, None, None, (), "scalar")
        step = Step(
            run_id=RUN_ID,
            step=index + 1,
            attempt=1,
            start_ns=start_ns,
            end_ns=start_ns + round(seconds * S),
            duration_s=seconds,
            closed_by="metrics",
            stages=(sync,),
            unattributed_s=None,
            outside=(),
            tokens_total=tokens,
            throughput_tokens_per_s_per_gpu=tokens / seconds / 16,
        )
        scalars = {name: float(column[index]) for name, column in log.items() if name != _SECONDS}
        points.append(StepPoint(step, scalars))
    return Labelled(
        make_run_of(points, **run),
        points,
        frozenset() if expected is None else frozenset({expected}),
        frozenset(tolerated),
        onset,
    )


def _onset(rng: Rng) -> int:
    return int(rng.integers(40, 80))


def _from(onset: int) -> Any:
    return onset <= _AT + 1


def learns(rng: Rng) -> Labelled:
    """Learns quickly, then slowly."""
    return _label(_usual(rng))


def rare_rewards(rng: Rng) -> Labelled:
    """Nothing is solved for long; then the first samples are."""
    log = _usual(rng)
    odds = 0.5 / (1 + np.exp(-(_AT - float(rng.uniform(60, 110))) / float(rng.uniform(12, 25))))
    log[REWARD] = _solved(rng, odds)
    return _label(log)


def doubles_in_length(rng: Rng) -> Labelled:
    """Reasoning gets three times as long, steadily, and steps four times as long."""
    log = _usual(rng)
    log[LENGTH] = 800 * np.exp(1.1 * _AT / _STEPS) * np.exp(_walk(rng, 0.05))
    log[_SECONDS] = 80 * (log[LENGTH] / 800) ** 1.5 * np.exp(_walk(rng, 0.05))
    return _label(log)


def harder_tasks(rng: Rng) -> Labelled:
    """The curriculum moves on: rewards fall by a fifth and come back."""
    log, onset = _usual(rng), _onset(rng)
    dip = 1 - 0.2 * _from(onset) * np.exp(-np.maximum(0, _AT - onset) / 20)
    log[REWARD] = _solved(rng, 0.55 * dip)
    return _label(log)


def one_update_a_batch(rng: Rng) -> Labelled:
    """Nothing is ever clipped, no reference, no noise in what is constant."""
    log = _usual(rng)
    log[CLIP] = np.zeros(_STEPS)
    log[KL] = np.zeros(_STEPS)
    return _label(log)


def sawtooth_lag(rng: Rng) -> Labelled:
    """Weights are synchronised every fourth step: the lag goes 0, 1, 2, 3."""
    log = _usual(rng)
    log[LAG_MAX] = np.asarray(_AT % 4, dtype=float)
    log[LAG_MEAN] = np.maximum(0, _AT % 4 - 0.4 + _walk(rng, 0.1))
    return _label(log, staleness_bound=4.0)


def cap_is_not_the_limit(rng: Rng) -> Labelled:
    """A bound of eight that something else keeps at one."""
    log = _usual(rng)
    log[LAG_MAX] = 1.0 + (rng.random(_STEPS) < 0.1)
    log[LAG_MEAN] = 0.7 + _walk(rng, 0.1)
    return _label(log, staleness_bound=8.0)


def touches_the_bound(rng: Rng) -> Labelled:
    """Partial rollouts: the oldest sample is anywhere up to the bound."""
    log = _usual(rng)
    log[LAG_MAX] = rng.integers(1, 6, _STEPS).astype(float)
    log[LAG_MEAN] = 0.8 + _walk(rng, 0.2)
    return _label(log, staleness_bound=5.0)


def resumed_and_filling(rng: Rng) -> Labelled:
    """After a resume queues fill: the lag climbs to where it was before."""
    log = _usual(rng)
    log[LAG_MEAN] = 2.2 * (1 - np.exp(-_AT / 3)) + _walk(rng, 0.15)
    log[LAG_MAX] = np.ceil(_limit(log[LAG_MEAN] + 1, 0, 5))
    labelled = _label(log, staleness_bound=5.0)
    return replace(labelled, run=replace(labelled.run, attempt=3))


def held_by_a_slow_trainer(rng: Rng) -> Labelled:
    """From some step on nearly all samples are as old as the bound allows."""
    log, onset, bound = _usual(rng), _onset(rng), float(rng.integers(2, 6))
    log[LAG_MAX] = np.where(_from(onset), bound, 1.0)
    log[LAG_MEAN] = np.where(_from(onset), bound - 0.15, 0.6) + np.abs(_walk(rng, 0.05)) * -1
    return _label(log, expected="staleness.drift", onset=onset, staleness_bound=bound)


def creeps_up(rng: Rng) -> Labelled:
    """The lag creeps up by two or three versions over the rest of the run."""
    log, onset = _usual(rng), 40
    more = float(rng.uniform(2.5, 4)) * _limit((_AT - onset) / 60, 0, 1)
    log[LAG_MEAN] = np.maximum(0, 1.0 + more + _walk(rng, 0.2))
    log[LAG_MAX] = np.ceil(log[LAG_MEAN] + 1)
    return _label(log, expected="staleness.drift", onset=onset, staleness_bound=12.0)


def counter_not_restored(rng: Rng) -> Labelled:
    """A resume forgot how many samples were accepted: the lag jumps past the bound."""
    log, onset = _usual(rng), _onset(rng)
    log[LAG_MAX] = np.where(_from(onset), 9.0, 3.0)
    log[LAG_MEAN] = np.where(_from(onset), 6.0, 1.5) + _walk(rng, 0.1)
    return _label(
        log,
        expected="staleness.bound_exceeded",
        tolerated=("staleness.drift",),
        onset=onset,
        staleness_bound=4.0,
    )


def discards(rng: Rng, ratio: float) -> _Log:
    """Counters since the start, as one trainer logs them."""
    log, onset = _usual(rng), 50
    each = rng.binomial(512, np.where(_from(onset), ratio, 0.02)).astype(float)
    log[DROPPED], log[GENERATED] = np.cumsum(each), np.cumsum(np.full(_STEPS, 512.0))
    log[LAG_MAX] = np.full(_STEPS, 2.0)
    log[LAG_MEAN] = 0.8 + _walk(rng, 0.1)
    return log


def discards_a_third(rng: Rng) -> Labelled:
    """A third of the groups is too old when it is done."""
    return _label(discards(rng, 0.33), expected="staleness.drops", onset=50)


def discards_a_tenth(rng: Rng) -> Labelled:
    """A tenth: what a bound costs."""
    return _label(discards(rng, 0.1))


def caches_not_cleared(rng: Rng) -> Labelled:
    """After a sync the engines go on with old caches: both sides disagree, gradients jump."""
    log, onset = _usual(rng), _onset(rng)
    log[MISMATCH] = np.where(_from(onset), 0.87 * np.exp(_walk(rng, 0.2)), log[MISMATCH])
    log[GRAD] = np.where(_from(onset), 17 * log[GRAD], log[GRAD])
    return _label(log, expected="mismatch.high", tolerated=("grad.spike",), onset=onset)


def scorer_fails(rng: Rng) -> Labelled:
    """The scorer answers zero from some step on."""
    log, onset = _usual(rng), _onset(rng)
    log[REWARD] = np.where(_from(onset), 0.0, log[REWARD])
    return _label(log, expected="reward.collapse", onset=onset)


def slow_collapse(rng: Rng) -> Labelled:
    """The policy breaks over fifteen steps."""
    log, onset = _usual(rng), _onset(rng)
    log[REWARD] = log[REWARD] * _limit(1 - (_AT - onset) / 15, 0.05, 1)
    return _label(log, expected="reward.collapse", onset=onset)


def hacked(rng: Rng) -> Labelled:
    """Within two steps nearly everything is scored as right."""
    log, onset = _usual(rng), _onset(rng)
    log[REWARD] = np.where(_from(onset), _solved(rng, np.full(_STEPS, 0.97)), 0.6 * log[REWARD])
    return _label(log, expected="reward.jump", onset=onset)


def retraction_thrash(rng: Rng) -> Labelled:
    """Steps of a hundred seconds take many times as long, responses are no longer."""
    log, onset = _usual(rng), _onset(rng)
    log[_SECONDS] = np.where(_from(onset), 5 * log[_SECONDS], log[_SECONDS])
    return _label(
        log,
        expected="throughput.regression",
        tolerated=("throughput.decay",),
        onset=onset,
    )


def fragments(rng: Rng) -> Labelled:
    """A percent slower with each step, whatever the work."""
    log, onset = _usual(rng), 25
    log[LENGTH] = 900 * np.exp(_walk(rng, 0.04))
    log[_SECONDS] = 100 * np.exp(_walk(rng, 0.05)) * 1.01 ** np.maximum(0, _AT - onset)
    return _label(
        log,
        expected="throughput.decay",
        tolerated=("throughput.regression",),
        onset=onset,
    )


def runs_to_the_cap(rng: Rng) -> Labelled:
    """Responses run to the cap within five steps."""
    log, onset = _usual(rng), _onset(rng)
    log[LENGTH] = log[LENGTH] + (8_000 - log[LENGTH]) * _limit((_AT - onset + 2) / 5, 0, 1)
    return _label(log, expected="length.explosion", onset=onset)


FIELD_HEALTH_CASES: Mapping[str, Callable[[Rng], Labelled]] = {
    case.__name__: case
    for case in (
        learns,
        rare_rewards,
        doubles_in_length,
        harder_tasks,
        one_update_a_batch,
        sawtooth_lag,
        cap_is_not_the_limit,
        touches_the_bound,
        resumed_and_filling,
        held_by_a_slow_trainer,
        creeps_up,
        counter_not_restored,
        discards_a_third,
        discards_a_tenth,
        caches_not_cleared,
        scorer_fails,
        slow_collapse,
        hacked,
        retraction_thrash,
        fragments,
        runs_to_the_cap,
    )
}
