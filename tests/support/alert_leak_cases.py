"""Labelled runs of engines: leaks, and what looks like one and is none. A seed draws each."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from support.alert_engine_series import EnginePlan, EngineRun, Floor, Rng, make_points
from support.alert_labels import Labelled, make_run_of

_LEAK = "kv.leak"
_STEPS = 110


def _flat(level: float) -> Floor:
    return lambda index: level


def _draw_run(rng: Rng, plan: EnginePlan, **changes: object) -> EngineRun:
    """A run in which every replica but the first is healthy."""
    number = int(rng.integers(1, 5))
    noise = float(10 ** rng.uniform(-3.5, -2.2))
    healthy = EnginePlan(_flat(float(rng.uniform(0, 0.03))), noise=noise)
    run = EngineRun(
        {
            f"engine-{index}": replace(plan if index == 0 else healthy, noise=noise)
            for index in range(number)
        },
        _STEPS,
        step_s=float(rng.uniform(60, 400)),
        engine=str(rng.choice(["vllm", "sglang"])),
        says_sleep=bool(rng.random() < 0.3),
    )
    scraped = replace(run, scrape_s=run.step_s / float(rng.integers(24, 60)))
    return replace(scraped, **changes)  # pyright: ignore[reportArgumentType]


def _label(
    run: EngineRun,
    rng: Rng,
    rule: str | None = None,
    onset: int | None = None,
    full: int | None = None,
) -> Labelled:
    points = make_points(run, rng)
    return Labelled(
        make_run_of(points),
        points,
        frozenset() if rule is None else frozenset({rule}),
        onset_step=onset,
        lost_step=full,
    )


def _linear(start: int, steps_to_full: float, base: float) -> Floor:
    slope = (1.0 - base) / steps_to_full
    return lambda index: min(1.0, base + slope * max(0, index - start))


def _leaks(rng: Rng, steps_to_full: float, start: int, **changes: object) -> Labelled:
    base = float(rng.uniform(0, 0.04))
    run = _draw_run(rng, EnginePlan(_linear(start, steps_to_full, base)), **changes)
    return _label(run, rng, _LEAK, start + 1, start + round(steps_to_full))


def leak_in_200(rng: Rng) -> Labelled:
    """Fills the pool in 200 steps from the beginning."""
    return _leaks(rng, 200.0, 0)


def leak_later(rng: Rng) -> Labelled:
    """Begins in the middle of the run."""
    return _leaks(rng, float(rng.uniform(60, 250)), int(rng.integers(25, 50)))


def leak_fast(rng: Rng) -> Labelled:
    """Fills the pool in a few dozen steps."""
    return _leaks(rng, float(rng.uniform(40, 60)), int(rng.integers(0, 10)))


def leak_released_around_syncs(rng: Rng) -> Labelled:
    """Leaks though the cache is given away while the trainer updates."""
    return _leaks(rng, float(rng.uniform(80, 200)), int(rng.integers(0, 30)), releases_kv=True)


def leak_by_aborts(rng: Rng) -> Labelled:
    """Blocks are lost only in steps with aborts: a staircase."""
    jumps = np.cumsum(rng.random(_STEPS) < 0.4) * float(rng.uniform(0.012, 0.03))
    run = _draw_run(rng, EnginePlan(lambda index: min(1.0, float(jumps[index]))))
    return _label(run, rng, _LEAK, 1, _STEPS)


def leak_under_growing_responses(rng: Rng) -> Labelled:
    """Responses get longer, and it leaks too."""
    plan = EnginePlan(
        _linear(0, float(rng.uniform(120, 200)), 0.01), response=lambda index: 500 + 12 * index
    )
    return _label(_draw_run(rng, plan), rng, _LEAK, 1, 120)


def leak_with_restart(rng: Rng) -> Labelled:
    """A restart resets the floor; it leaks again."""
    restart = int(rng.integers(20, 40))
    slope = 1.0 / float(rng.uniform(100, 160))
    plan = EnginePlan(
        lambda index: slope * (index if index < restart else index - restart),
        restarts=frozenset({restart}),
    )
    return _label(_draw_run(rng, plan), rng, _LEAK, 1, _STEPS)


def device_leak(rng: Rng) -> Labelled:
    """Device memory is not given back, the KV pool is."""
    base, steps = float(rng.uniform(0.3, 0.6)), float(rng.uniform(60, 120))
    plan = EnginePlan(_flat(0.0), device=_linear(0, steps, base))
    return _label(_draw_run(rng, plan), rng, _LEAK, 1, round(steps))


def host_leak(rng: Rng) -> Labelled:
    """The node's memory is not given back."""
    base, steps = float(rng.uniform(0.2, 0.5)), float(rng.uniform(80, 160))
    plan = EnginePlan(_flat(0.0), host=_linear(0, steps, base))
    return _label(_draw_run(rng, plan), rng, _LEAK, 1, round(steps))


def healthy(rng: Rng) -> Labelled:
    """Comes back to nothing."""
    return _label(_draw_run(rng, EnginePlan(_flat(float(rng.uniform(0, 0.05))))), rng)


def growing_responses(rng: Rng) -> Labelled:
    """More cache in use, preemptions, slower: and still nothing is left at rest."""
    growth = float(rng.uniform(2, 5))
    plan = EnginePlan(
        _flat(0.01), load=0.8, response=lambda index: 600 * (1 + (growth - 1) * index / _STEPS)
    )
    return _label(_draw_run(rng, plan), rng)


def one_long_request(rng: Rng) -> Labelled:
    """One request runs on and on in many steps."""
    share = float(rng.uniform(0.3, 1.0))
    held = rng.random(_STEPS) < share
    growth = rng.uniform(0.0, 0.004)
    plan = EnginePlan(
        lambda index: 0.01 + (growth * index if held[index] else 0.0),
        straggler=lambda index: bool(held[index]),
    )
    return _label(_draw_run(rng, plan), rng)


def evictable_pages(rng: Rng) -> Labelled:
    """A radix cache fills the pool; nothing of it is in use."""
    limit, tau = float(rng.uniform(0.5, 0.95)), float(rng.uniform(5, 80))
    plan = EnginePlan(_flat(0.01), evictable=lambda index: limit * (1 - math.exp(-index / tau)))
    return _label(_draw_run(rng, plan, engine="sglang"), rng)


def evictable_resident(rng: Rng) -> Labelled:
    """A cache stays resident and wanders."""
    level, memory = float(rng.uniform(0.15, 0.5)), float(rng.uniform(0.0, 0.9))
    walk: list[float] = []
    value = 0.0
    spread = float(rng.uniform(0.005, 0.03))
    for _ in range(_STEPS):
        value = memory * value + rng.normal(0, spread * math.sqrt(1 - memory**2))
        walk.append(value)
    plan = EnginePlan(lambda index: max(0.0, level + walk[index]), gives_way=True)
    return _label(_draw_run(rng, plan), rng)


def evictable_sawtooth(rng: Rng) -> Labelled:
    """A cache grows between resets that come every few steps."""
    period = int(rng.integers(3, 20))
    slope = float(rng.uniform(0.005, 0.05))
    plan = EnginePlan(lambda index: 0.02 + slope * (index % period), gives_way=True)
    return _label(_draw_run(rng, plan), rng)


def pool_resized(rng: Rng) -> Labelled:
    """The pool shrinks or grows at wake-ups; what is resident stays."""
    resident = float(rng.uniform(1_000, 4_000))
    sizes = 20_000 * np.cumprod(
        np.where(rng.random(_STEPS) < 0.15, rng.uniform(0.9, 1.08, _STEPS), 1.0)
    )
    sizes = np.maximum(sizes, 6_000).astype(int)
    plan = EnginePlan(
        lambda index: resident / float(sizes[index]), pool=lambda index: int(sizes[index])
    )
    return _label(_draw_run(rng, plan), rng)


def restarts_without_leak(rng: Rng) -> Labelled:
    """Engines are restarted, what stays is small and the same."""
    steps = frozenset(int(step) for step in rng.choice(_STEPS, 4, replace=False))
    return _label(_draw_run(rng, EnginePlan(_flat(0.03), restarts=steps)), rng)


def released_around_syncs(rng: Rng) -> Labelled:
    """The cache is given away and taken back in every step."""
    level = float(rng.uniform(0.1, 0.5))
    return _label(_draw_run(rng, EnginePlan(_flat(level)), releases_kv=True), rng)


def climbs_to_plateau(rng: Rng) -> Labelled:
    """Memory climbs over the first 10 to 20 steps, in a line or ever slower."""
    steps = float(rng.uniform(10, 20))
    height = float(rng.uniform(0.05, 0.35))

    def climb(index: int) -> float:
        return height * min(1.0, index / steps)

    def slow(index: int) -> float:
        return height * (1 - math.exp(-3 * index / steps))

    shape = climb if rng.random() < 0.5 else slow
    where = str(rng.choice(["kv", "device", "host"]))

    def floor_of(pool: str, begin: float) -> Floor:
        return lambda index: begin + (shape(index) if pool == where else 0.0)

    plan = EnginePlan(
        floor_of("kv", 0.02), device=floor_of("device", 0.5), host=floor_of("host", 0.3)
    )
    return _label(_draw_run(rng, plan), rng)


def retained_once(rng: Rng) -> Labelled:
    """Something is kept once and never again."""
    at, height = int(rng.integers(5, 80)), float(rng.uniform(0.06, 0.3))
    plan = EnginePlan(_flat(0.02), host=lambda index: 0.3 + (height if index >= at else 0.0))
    return _label(_draw_run(rng, plan), rng)


def frozen_gauges(rng: Rng) -> Labelled:
    """Samples are aborted all at once; the gauges freeze at what they showed."""
    steps = frozenset(int(step) for step in np.flatnonzero(rng.random(_STEPS) < 0.4))
    return _label(_draw_run(rng, EnginePlan(_flat(0.01), freezes=steps)), rng)


def never_at_rest(rng: Rng) -> Labelled:
    """Fully asynchronous, with a load that grows."""
    grows = float(rng.uniform(0.0, 0.003))
    plan = EnginePlan(lambda index: grows * index)
    return _label(_draw_run(rng, plan, is_never_at_rest=True, says_sleep=False), rng)


LEAK_CASES: Mapping[str, Callable[[Rng], Labelled]] = {
    case.__name__: case
    for case in (
        leak_in_200,
        leak_later,
        leak_fast,
        leak_released_around_syncs,
        leak_by_aborts,
        leak_under_growing_responses,
        leak_with_restart,
        device_leak,
        host_leak,
        healthy,
        growing_responses,
        one_long_request,
        evictable_pages,
        evictable_resident,
        evictable_sawtooth,
        pool_resized,
        restarts_without_leak,
        released_around_syncs,
        climbs_to_plateau,
        retained_once,
        frozen_gauges,
        never_at_rest,
    )
}
