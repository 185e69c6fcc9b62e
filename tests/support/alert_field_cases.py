"""Labelled runs of engines after cases that frameworks' users reported, leaks and look-alikes."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from support.alert_engine_series import Rng
from support.alert_field_engines import FieldRun, Habits, play
from support.alert_labels import Labelled, make_run_of

_LEAK = frozenset({"kv.leak"})
_STEPS = 80


def _play(
    rng: Rng, habits: Habits, *, onset: int | None = None, lost: int | None = None, **fields: object
) -> Labelled:
    others = int(rng.integers(0, 3))
    usual = Habits(length=habits.length, num_requests=habits.num_requests, missed=habits.missed)
    engines = {"engine-0": habits, **{f"engine-{n + 1}": usual for n in range(others)}}
    run = FieldRun(
        engines,
        _STEPS,
        step_s=float(rng.uniform(80, 300)),
        kind=str(rng.choice(["vllm", "sglang"])),
        sleeps=bool(rng.random() < 0.3),
    )
    run = replace(run, scrape_s=run.step_s / float(rng.integers(20, 40)))
    if run.kind == "sglang":
        run = replace(run, sleeps=False)
    run = replace(run, **fields)  # pyright: ignore[reportArgumentType]
    points = play(run, rng)
    expected = _LEAK if onset is not None else frozenset[str]()
    return Labelled(make_run_of(points), points, expected, onset_step=onset, lost_step=lost)


def aborted_transfers(rng: Rng) -> Labelled:
    """Blocks of aborted remote loads are never freed, from the first step on."""
    ratio, blocks = float(rng.uniform(0.05, 0.2)), float(rng.uniform(5, 15))
    habits = Habits(
        abort_ratio=lambda index: ratio,
        lost_per_abort=lambda index: blocks,
    )
    return _play(rng, habits, onset=1, lost=_STEPS)


def aborts_begin_late(rng: Rng) -> Labelled:
    """Aborts begin in the middle of the run, and each leaves blocks behind."""
    begin = int(rng.integers(25, 40))
    blocks = float(rng.uniform(8, 20))
    habits = Habits(
        abort_ratio=lambda index: 0.12 if index >= begin else 0.0,
        lost_per_abort=lambda index: blocks,
    )
    return _play(rng, habits, onset=begin + 1, lost=_STEPS)


def blocks_lost_at_each_sync(rng: Rng) -> Labelled:
    """Each weight sync loses blocks; a fifth of the scrapes fails."""
    lost = 9_000 / float(rng.uniform(90, 220))
    habits = Habits(lost_per_step=lambda index: lost, missed=0.2)
    return _play(rng, habits, onset=1, lost=_STEPS)


def device_after_release(rng: Rng) -> Labelled:
    """What the device holds after the release grows by a gibibyte or two a step."""
    each = float(rng.uniform(0.6, 1.3))
    habits = Habits(device_gib=lambda index: 8.0 + each * index)
    return _play(rng, habits, onset=1, lost=_STEPS)


def host_in_half_a_day(rng: Rng) -> Labelled:
    """The node's memory is full after some twelve hours."""
    each = 1_800 / float(rng.uniform(100, 150))
    habits = Habits(host_gib=lambda index: 200 + each * index)
    return _play(rng, habits, onset=1, lost=_STEPS)


def cured_by_restart(rng: Rng) -> Labelled:
    """A restart clears it, and it begins again."""
    lost, restart = 9_000 / float(rng.uniform(80, 130)), int(rng.integers(28, 40))
    habits = Habits(lost_per_step=lambda index: lost, restarts=frozenset({restart}))
    return _play(rng, habits, onset=1, lost=_STEPS)


def steady(rng: Rng) -> Labelled:
    """Nothing wrong; some requests are aborted and leave nothing."""
    ratio = float(rng.uniform(0, 0.2))
    return _play(rng, Habits(abort_ratio=lambda index: ratio, missed=float(rng.uniform(0, 0.3))))


def longer_and_longer(rng: Rng) -> Labelled:
    """Responses grow fivefold; the cache is short in the end and requests are preempted."""
    factor = float(rng.uniform(3, 6))
    habits = Habits(
        length=lambda index: 500 * (1 + (factor - 1) * index / _STEPS), blocks=lambda index: 6_000
    )
    return _play(rng, habits)


def one_giant_sample(rng: Rng) -> Labelled:
    """One sample runs on through steps, now and then, and later ever more often."""
    odds = float(rng.uniform(0.2, 1.0))
    held = [bool(rng.random() < odds * index / _STEPS) for index in range(_STEPS)]
    return _play(rng, Habits(carried=lambda index: held[index]))


def radix_cache_fills(rng: Rng) -> Labelled:
    """A prefix cache fills the pool with what it gives up on demand."""
    return _play(rng, Habits(evictable_kept=float(rng.uniform(0.02, 0.3))), kind="sglang")


def thrash(rng: Rng) -> Labelled:
    """Far too little cache: preemption after preemption."""
    blocks = int(rng.integers(1_200, 2_500))
    return _play(rng, Habits(blocks=lambda index: blocks))


def deadlock(rng: Rng) -> Labelled:
    """Some steps end in a deadlock: gauges stand until everything is thrown away."""
    stuck = frozenset(int(each) for each in rng.choice(_STEPS, 20, replace=False))
    return _play(rng, Habits(stuck=stuck))


def pool_shrinks_at_wake_up(rng: Rng) -> Labelled:
    """Each wake-up makes a smaller pool; what stays in it is the same number of blocks."""
    resident = float(rng.uniform(200, 900))
    shrink = float(rng.uniform(0.98, 0.995))
    habits = Habits(
        blocks=lambda index: round(9_000 * shrink**index),
        lost_per_step=lambda index: resident if index == 0 else 0.0,
    )
    return _play(rng, habits)


def pinned_once_for_sleep(rng: Rng) -> Labelled:
    """Sleeping pins host memory once; a few steps later a second engine does so too."""
    first, second = int(rng.integers(2, 12)), int(rng.integers(14, 60))
    height = float(rng.uniform(60, 250))
    habits = Habits(
        host_gib=lambda index: 200 + height * (index >= first) + height * (index >= second)
    )
    return _play(rng, habits, kind="vllm", sleeps=True)


def allocator_settles(rng: Rng) -> Labelled:
    """Device memory settles over the first steps, in uneven stairs."""
    stairs = [float(rng.exponential(2.0)) * math.exp(-index / 5) for index in range(_STEPS)]
    total = [sum(stairs[: index + 1]) for index in range(_STEPS)]
    height = float(rng.uniform(8, 30))
    habits = Habits(device_gib=lambda index: 8 + height * total[index] / total[-1])
    return _play(rng, habits)


def restarts_often(rng: Rng) -> Labelled:
    """A platform restarts engines every dozen steps; a little stays after each step, then goes."""
    period, lost = int(rng.integers(6, 12)), float(rng.uniform(10, 60))
    habits = Habits(
        restarts=frozenset(range(period, _STEPS, period)), lost_per_step=lambda index: lost
    )
    return _play(rng, habits)


def starved_upstream(rng: Rng) -> Labelled:
    """Fewer and fewer requests arrive."""
    habits = Habits(num_requests=lambda index: max(4, round(96 * math.exp(-index / 25))))
    return _play(rng, habits)


def always_busy(rng: Rng) -> Labelled:
    """Fully asynchronous: there is no rest to judge by, though responses grow."""
    return _play(rng, Habits(length=lambda index: 500 + 10 * index), is_async=True, sleeps=False)


FIELD_CASES: Mapping[str, Callable[[Rng], Labelled]] = {
    case.__name__: case
    for case in (
        aborted_transfers,
        aborts_begin_late,
        blocks_lost_at_each_sync,
        device_after_release,
        host_in_half_a_day,
        cured_by_restart,
        steady,
        longer_and_longer,
        one_giant_sample,
        radix_cache_fills,
        thrash,
        deadlock,
        pool_shrinks_at_wake_up,
        pinned_once_for_sleep,
        allocator_settles,
        restarts_often,
        starved_upstream,
        always_busy,
    )
}
