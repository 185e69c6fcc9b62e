"""A third set of labelled runs, drawn from reported cases with other shapes than the first two.

Series of engines are made at the scraper: gauges rounded to blocks, noise of several kinds, scrapes
that fail, steps of uneven length, rests of one or two scrapes, one of many replicas in trouble.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from longpole_server.alerts.engines import EngineStep, Rest
from longpole_server.alerts.history import SampleCounts, StepPoint
from longpole_server.alerts.rest import RestWindow, Samples, observe_engine, with_memory
from longpole_server.model.step import StageTime, Step
from support.alert_engine_series import BEGIN_NS, RUN_ID, Rng, S
from support.alert_labels import Labelled, make_run_of

_Level = Callable[[int], float]
_STEPS = 90
_GIB = float(1 << 30)
_LEAK = "kv.leak"


def _nothing(_: int) -> float:
    return 0.0


@dataclass(frozen=True)
class _Replica:
    """What one engine holds at rest, by index of the step: parts of its pool, GiB elsewhere."""

    kept: _Level = _nothing
    device_gib: _Level = lambda _: 60.0
    host_gib: _Level = lambda _: 300.0
    blocks: _Level = lambda _: 12_000.0
    busy: _Level = lambda _: 0.6
    restarts: frozenset[int] = frozenset()


@dataclass(frozen=True)
class _Fleet:
    """How a run's engines are seen.

    Attributes:
        every_s: Between scrapes.
        rest_s: Between the last sample of a step and the next step's first.
        noise: Kind of it: `none`, `bell`, `heavy`, `slow` (remembers), `tail` (a late request).
        size: Of the noise, as a part of the pool.
    """

    replicas: Sequence[_Replica]
    every_s: float
    step_s: float
    rest_s: float
    noise: str
    size: float
    missed: float = 0.0
    kind: str = "vllm"
    count: int = _STEPS


def _draw_fleet(rng: Rng, odd: _Replica, usual: _Replica, **fields: Any) -> _Fleet:
    every_s = float(rng.choice([1.0, 2.0, 5.0, 10.0]))
    step_s = float(rng.uniform(20, 60)) * every_s
    number = int(rng.choice([1, 2, 5]))
    fleet = _Fleet(
        [odd] + [usual] * (number - 1),
        every_s,
        step_s,
        max(6 * every_s, 0.3 * step_s),
        str(rng.choice(["none", "bell", "heavy", "slow", "tail"])),
        float(10 ** rng.uniform(-3.7, -2.3)),
        missed=float(rng.choice([0.0, 0.0, 0.1])),
        kind=str(rng.choice(["vllm", "sglang"])),
    )
    return replace(fleet, **fields)


class _Noise:
    def __init__(self, kind: str, size: float, rng: Rng) -> None:
        self._kind, self._size, self._rng, self._last = kind, size, rng, 0.0

    def draw(self) -> float:
        match self._kind:
            case "bell":
                return float(self._rng.normal(0, self._size))
            case "heavy":
                return self._size * max(-8.0, min(8.0, float(self._rng.standard_t(2.5))))
            case "slow":
                self._last = 0.7 * self._last + float(self._rng.normal(0, self._size))
                return self._last
            case "tail":
                return float(self._rng.random() < 0.15) * float(self._rng.uniform(0, 0.08))
            case _:
                return 0.0


def _run_fleet(fleet: _Fleet, rng: Rng, expected: str | None = None, **label: Any) -> Labelled:
    lengths = fleet.step_s * np.exp(rng.normal(0, 0.15, fleet.count))
    starts = np.concatenate([[0.0], np.cumsum(lengths)])
    steps = [_make_step(at, starts[at], starts[at + 1], fleet) for at in range(fleet.count)]
    by_step: list[dict[str, EngineStep]] = [{} for _ in steps]
    for index, replica in enumerate(fleet.replicas):
        name = f"10.0.0.{index}:8000"
        for at, engine in enumerate(_observe(name, replica, fleet, steps, rng)):
            by_step[at][name] = engine
    points = [StepPoint(step, {}, engines=by_step[at]) for at, step in enumerate(steps)]
    wanted = frozenset[str]() if expected is None else frozenset({expected})
    return Labelled(make_run_of(points), points, wanted, **label)


def _make_step(at: int, start_s: float, end_s: float, fleet: _Fleet) -> Step:
    begin, end = BEGIN_NS + round(start_s * S), BEGIN_NS + round(end_s * S)
    split = end - round(min(fleet.rest_s, 0.8 * (end_s - start_s)) * S)
    stages = tuple(
        StageTime(name, (last - first) / S, (last - first) / S, None, first, last, (), "span")
        for name, first, last in (("gen", begin, split), ("update_actor", split, end))
    )
    return Step(
        run_id=RUN_ID,
        step=at + 1,
        attempt=1,
        start_ns=begin,
        end_ns=end,
        duration_s=end_s - start_s,
        closed_by="loop",
        stages=stages,
        unattributed_s=0.0,
        outside=(),
    )


def _observe(
    name: str, replica: _Replica, fleet: _Fleet, steps: Sequence[Step], rng: Rng
) -> list[EngineStep]:
    noise, tokens = _Noise(fleet.noise, fleet.size, rng), 0.0
    before: dict[str, tuple[list[int], list[float]]] = {}
    found: list[EngineStep] = []
    for at, step in enumerate(steps):
        tokens = 0.0 if at in replica.restarts else tokens
        page, tokens = _scrape(replica, fleet, step, at, tokens, noise, rng)
        series = {
            key: Samples(
                np.array([*before.get(key, ([], []))[0], *times], dtype=np.int64),
                np.array([*before.get(key, ([], []))[1], *values]),
            )
            for key, (times, values) in page.items()
        }
        before = {key: (times[-2:], values[-2:]) for key, (times, values) in page.items()}
        engine, windows = observe_engine(name, series, step)
        measured = _measure(replica, at, noise)
        found.append(with_memory(engine, windows, measured))
    return found


def _measure(replica: _Replica, at: int, noise: _Noise) -> Callable[[RestWindow], Rest | None]:
    def measure(window: RestWindow) -> Rest | None:
        return Rest(
            window.stage,
            window.sleep,
            1,
            device_bytes=(replica.device_gib(at) + 100 * noise.draw()) * _GIB,
            device_total_bytes=140 * _GIB,
            host_bytes=(replica.host_gib(at) + 1_000 * noise.draw()) * _GIB,
            host_total_bytes=2_000 * _GIB,
        )

    return measure


def _scrape(
    replica: _Replica,
    fleet: _Fleet,
    step: Step,
    at: int,
    tokens: float,
    noise: _Noise,
    rng: Rng,
) -> tuple[dict[str, tuple[list[int], list[float]]], float]:
    found: dict[str, tuple[list[int], list[float]]] = {}
    gen_end, end_ns = step.stages[0].end_ns, step.end_ns
    work_ns = (gen_end or 0) - step.start_ns
    blocks = replica.blocks(at)
    kept = min(1.0, max(0.0, replica.kept(at) + noise.draw()))
    ts_ns = step.start_ns + round(rng.uniform(0.1, 0.9) * fleet.every_s * S)
    while ts_ns <= (end_ns or 0):
        left = max(0.0, 1.0 - (ts_ns - step.start_ns) / (0.97 * max(1, work_ns)))
        running = math.ceil(128 * left)
        tokens += running * 40 * fleet.every_s
        used = min(1.0, kept + replica.busy(at) * math.sqrt(left))
        taken = round(used * blocks)
        if rng.random() >= fleet.missed:
            for key, value in _page(fleet.kind, running, taken, blocks, tokens).items():
                times, values = found.setdefault(key, ([], []))
                times.append(ts_ns)
                values.append(value)
        ts_ns += round(fleet.every_s * rng.uniform(0.98, 1.02) * S)
    return found, tokens


def _page(kind: str, running: int, taken: int, blocks: float, tokens: float) -> dict[str, float]:
    if kind == "sglang":
        return {
            "sglang:num_running_reqs": float(running),
            "sglang:num_queue_reqs": 0.0,
            "sglang:num_used_tokens": 16.0 * taken,
            "sglang:max_total_num_tokens": 16.0 * blocks,
            "sglang:realtime_tokens_total": tokens,
        }
    return {
        "vllm:num_requests_running": float(running),
        "vllm:num_requests_waiting": 0.0,
        "vllm:kv_cache_usage_perc": taken / blocks,
        "vllm:generation_tokens_total": tokens,
        f'vllm:cache_config_info{{block_size="16",num_gpu_blocks="{blocks:.0f}"}}': 1.0,
    }


def _leaks(
    rng: Rng, odd: _Replica, usual: _Replica | None = None, onset: int = 1, **fleet: Any
) -> Labelled:
    drawn = _draw_fleet(rng, odd, usual or _Replica(), **fleet)
    return _run_fleet(drawn, rng, _LEAK, onset_step=onset, lost_step=_STEPS)


def _benign(rng: Rng, odd: _Replica, usual: _Replica | None = None, **fleet: Any) -> Labelled:
    return _run_fleet(_draw_fleet(rng, odd, usual or _Replica(), **fleet), rng)


def leak_speeds_up(rng: Rng) -> Labelled:
    """Each lost block makes the next one likelier."""
    steps = float(rng.uniform(85, 110))
    return _leaks(rng, _Replica(lambda at: min(1.0, (at / steps) ** 1.6)))


def leak_slows_down(rng: Rng) -> Labelled:
    """Loses less and less, and never stops."""
    steps = float(rng.uniform(100, 140))
    return _leaks(rng, _Replica(lambda at: min(1.0, (at / steps) ** 0.75)))


def leak_of_all_engines(rng: Rng) -> Labelled:
    """A fault of the engine's own code: every replica has it."""
    steps = float(rng.uniform(90, 200))
    every = _Replica(lambda at: min(1.0, at / steps))
    return _leaks(rng, every, every)


def leak_at_validations(rng: Rng) -> Labelled:
    """Blocks are lost in every fourth step only."""
    lost = float(rng.uniform(0.03, 0.06))
    return _leaks(rng, _Replica(lambda at: min(1.0, lost * (at // 4))))


def leak_at_random(rng: Rng) -> Labelled:
    """Much is lost in some steps, little in most."""
    lost = np.cumsum(rng.gamma(0.4, float(rng.uniform(0.015, 0.025)), _STEPS))
    return _leaks(rng, _Replica(lambda at: min(1.0, float(lost[at]))))


def leak_in_a_full_pool(rng: Rng) -> Labelled:
    """A part of the pool is resident from the start, and beside it the floor rises."""
    base, steps = float(rng.uniform(0.2, 0.5)), float(rng.uniform(120, 220))
    resident = _Replica(lambda _: base)
    return _leaks(rng, _Replica(lambda at: min(1.0, base + (1 - base) * at / steps)), resident)


def device_rises_after_release(rng: Rng) -> Labelled:
    """What the device holds once the pool is released grows by a little in each step."""
    each = float(rng.uniform(0.6, 1.0))
    return _leaks(rng, _Replica(device_gib=lambda at: min(139.0, 50 + each * at)))


def host_rises_at_sleeps(rng: Rng) -> Labelled:
    """Pinned memory of each third sleep is kept: a staircase to the end of the node."""
    each = float(rng.uniform(50, 60))
    return _leaks(rng, _Replica(host_gib=lambda at: min(1_990.0, 250 + each * (at // 3))))


def leak_later_than_a_plateau(rng: Rng) -> Labelled:
    """The engine climbs to its plateau as engines do, and leaks after that."""
    height, begin = float(rng.uniform(0.05, 0.2)), int(rng.integers(30, 45))
    slope = float(rng.uniform(0.008, 0.02))

    def kept(at: int) -> float:
        return min(1.0, height * min(1.0, at / 12) + slope * max(0, at - begin))

    return _leaks(rng, _Replica(kept), onset=begin + 1)


def nothing_wrong(rng: Rng) -> Labelled:
    """Nothing stays but what always stays."""
    base = float(rng.choice([0.0, 0.01, 0.05, 0.3]))
    return _benign(rng, _Replica(lambda _: base))


def wanders(rng: Rng) -> Labelled:
    """What stays wanders about, with memory, and leads nowhere."""
    steps, level = rng.normal(0, 0.01, _STEPS), [0.1]
    for step in steps:
        level.append(0.1 + 0.85 * (level[-1] - 0.1) + float(step))
    return _benign(rng, _Replica(lambda at: max(0.0, level[at])))


def settles_slowly(rng: Rng) -> Labelled:
    """Device, node and cache settle on different plateaus within twenty steps."""
    pace = float(rng.uniform(3, 6))

    def rise(at: int) -> float:
        return 1 - math.exp(-at / pace)

    heights = rng.uniform(0.05, 0.3, 3)
    settling = _Replica(
        lambda at: float(heights[0]) * rise(at),
        lambda at: 50 + 140 * float(heights[1]) * rise(at),
        lambda at: 250 + 2_000 * float(heights[2]) * rise(at),
    )
    return _benign(rng, settling, settling)


def cache_saturates(rng: Rng) -> Labelled:
    """Resident pages climb ever slower to what the tasks share, for some dozens of steps."""
    height, tau = float(rng.uniform(0.2, 0.6)), float(rng.uniform(5, 14))
    return _benign(rng, _Replica(lambda at: 0.01 + height * (1 - math.exp(-at / tau))))


def breathes_with_tasks(rng: Rng) -> Labelled:
    """What stays follows the tasks up and down, in waves of a dozen steps or more."""
    height, period = float(rng.uniform(0.03, 0.12)), float(rng.uniform(10, 28))
    phase = float(rng.uniform(0, 2 * math.pi))
    kept = _Replica(lambda at: height * (1 + math.sin(phase + 2 * math.pi * at / period)))
    return _benign(rng, kept)


def host_cache_of_files(rng: Rng) -> Labelled:
    """The node reads more and more files into its cache, until that is full, twice."""
    first, second = int(rng.integers(0, 8)), int(rng.integers(40, 70))
    height = float(rng.uniform(100, 300))

    def host(at: int) -> float:
        early = min(1.0, max(0, at - first) / 8)
        return 250 + height * (early + (at >= second))

    return _benign(rng, _Replica(host_gib=host))


def pool_of_any_size(rng: Rng) -> Labelled:
    """Each wake-up finds another amount of memory for the pool; little stays in it."""
    sizes = rng.uniform(6_000, 14_000, _STEPS)
    resident = float(rng.uniform(50, 400))
    odd = _Replica(
        lambda at: resident / float(sizes[at]), blocks=lambda at: float(round(sizes[at]))
    )
    return _benign(rng, odd)


def restarts_with_residue(rng: Rng) -> Labelled:
    """Engines restart now and then and keep a different little each time."""
    steps = sorted(int(each) for each in rng.choice(np.arange(5, _STEPS), 3, replace=False))
    levels = rng.uniform(0, 0.08, 4)
    odd = _Replica(
        lambda at: float(levels[sum(at >= step for step in steps)]), restarts=frozenset(steps)
    )
    return _benign(rng, odd)


def longer_contexts(rng: Rng) -> Labelled:
    """Responses grow until they fill the pool while they run; nothing stays of them."""
    top = float(rng.uniform(0.6, 1.2))
    growing = _Replica(lambda _: 0.005, busy=lambda at: 0.1 + top * at / _STEPS)
    return _benign(rng, growing, growing)


def _lagging(
    rng: Rng,
    largest: Any,
    mean: Any,
    names: tuple[str, str],
    expected: str | None = None,
    onset: int | None = None,
    **run: Any,
) -> Labelled:
    every, first = int(rng.choice([1, 1, 2])), int(run.get("first_step", 1))
    points: list[StepPoint] = []
    for at in range(len(largest)):
        scalars: dict[str, float] = {}
        if at % every == 0 and rng.random() > 0.05:
            scalars = {names[0]: float(largest[at]), names[1]: float(mean[at])}
        start_ns = BEGIN_NS + at * 90 * S
        step = Step(
            run_id=RUN_ID,
            step=first + at,
            attempt=int(run.get("attempt", 1)),
            start_ns=start_ns,
            end_ns=start_ns + 90 * S,
            duration_s=90.0,
            closed_by="loop",
            stages=(),
            unattributed_s=None,
            outside=(),
        )
        points.append(StepPoint(step, scalars, run["samples"][at] if "samples" in run else None))
    run = {key: value for key, value in run.items() if key != "samples"}
    wanted = frozenset[str]() if expected is None else frozenset({expected})
    # What is beyond the bound for so long is held there as well.
    also = frozenset({"staleness.drift"} if expected == "staleness.bound_exceeded" else ())
    return Labelled(make_run_of(points, **run), points, wanted, also, onset_step=onset)


_NAMES = (
    (
        "training/off_policy/trajectory_staleness/max",
        "training/off_policy/trajectory_staleness/mean",
    ),
    ("async/staleness_max", "async/staleness_mean"),
    ("version_stats/sample_staleness_theta_max", "version_stats/sample_staleness_theta_avg"),
)


def _name(rng: Rng) -> tuple[str, str]:
    return _NAMES[int(rng.integers(len(_NAMES)))]


def _steady_lag(rng: Rng, bound: float, count: int = 120) -> tuple[Any, Any]:
    """Lags well inside a bound: whole numbers at most, means with scatter."""
    mean = np.maximum(0.0, rng.normal(0.35, 0.06, count) * bound)
    largest = np.minimum(bound, np.ceil(mean + rng.exponential(0.15 * bound, count)))
    return largest, mean


def lag_within_bounds(rng: Rng) -> Labelled:
    """An asynchronous run as it should be; its oldest sample touches the bound now and then."""
    bound = float(rng.choice([2, 4, 8]))
    largest, mean = _steady_lag(rng, bound)
    return _lagging(rng, largest, mean, _name(rng), staleness_bound=bound)


def lag_warms_up(rng: Rng) -> Labelled:
    """Queues fill in the first steps, and then the lag is what it is."""
    bound = float(rng.choice([4, 8]))
    largest, mean = _steady_lag(rng, bound)
    rise = np.minimum(1.0, np.arange(len(mean)) / float(rng.uniform(3, 12)))
    return _lagging(rng, np.floor(largest * rise), mean * rise, _name(rng), staleness_bound=bound)


def lag_swings(rng: Rng) -> Labelled:
    """Long and short tasks take turns: the lag swings between nothing and its bound."""
    bound, turn = float(rng.choice([4, 8])), np.arange(120) / float(rng.uniform(4, 10))
    wave = 0.5 + 0.45 * np.sin(turn)
    mean = np.maximum(0.0, 0.6 * bound * wave + rng.normal(0, 0.04, 120) * bound)
    return _lagging(rng, np.ceil(bound * wave), mean, _name(rng), staleness_bound=bound)


def lag_fills_slowly(rng: Rng) -> Labelled:
    """Queues take some dozens of steps to fill, and then the lag is what it is."""
    bound, climb = 5.0, np.minimum(1.0, np.arange(120) / float(rng.uniform(15, 40)))
    mean = np.maximum(0.0, 2.8 * climb + rng.normal(0, 0.12, 120))
    largest = np.minimum(bound, np.ceil(mean + 0.5))
    return _lagging(rng, largest, mean, _name(rng), staleness_bound=bound)


def lag_of_one_step_off(rng: Rng) -> Labelled:
    """Lag one, by design, from the second step on."""
    ones = np.concatenate([[0.0], np.ones(119)])
    return _lagging(rng, ones, ones, _name(rng), staleness_bound=1.0)


def lag_held_at_bound(rng: Rng) -> Labelled:
    """From some step on nearly everything is as old as it may be."""
    bound, onset = float(rng.choice([2, 4, 8])), int(rng.integers(40, 70))
    largest, mean = _steady_lag(rng, bound)
    largest[onset - 1 :] = bound
    mean[onset - 1 :] = bound * np.minimum(1.0, rng.normal(0.92, 0.03, len(mean) - onset + 1))
    return _lagging(rng, largest, mean, _name(rng), "staleness.drift", onset, staleness_bound=bound)


def lag_drifts(rng: Rng) -> Labelled:
    """No bound; the lag doubles over some dozen steps, and again."""
    onset = int(rng.integers(45, 60))
    mean = np.maximum(0.0, rng.normal(1.5, 0.2, 140))
    mean[onset - 1 :] *= 1 + np.arange(140 - onset + 1) / float(rng.uniform(15, 30))
    largest = np.ceil(mean + rng.exponential(0.4, 140))
    return _lagging(rng, largest, mean, _name(rng), "staleness.drift", onset)


def lag_beyond_bound_after_resume(rng: Rng) -> Labelled:
    """A resume lost the counters: the lag rises far past the bound at once."""
    bound = float(rng.choice([2, 4]))
    largest, mean = _steady_lag(rng, bound, 60)
    largest[:12] = bound + np.linspace(6, 2, 12)
    mean[:12] = bound
    return _lagging(
        rng,
        largest,
        mean,
        _name(rng),
        "staleness.bound_exceeded",
        201,
        staleness_bound=bound,
        first_step=201,
        attempt=2,
    )


def lag_resumes_as_it_was(rng: Rng) -> Labelled:
    """A resume empties the queues: the lag begins at nothing and comes back."""
    bound = float(rng.choice([4, 8]))
    largest, mean = _steady_lag(rng, bound)
    rise = np.minimum(1.0, np.arange(len(mean)) / 8)
    return _lagging(
        rng,
        np.floor(largest * rise),
        mean * rise,
        _name(rng),
        staleness_bound=bound,
        first_step=201,
        attempt=2,
    )


def _drops(rng: Rng, ratio: Any) -> list[SampleCounts]:
    found: list[SampleCounts] = []
    for each in ratio:
        total = int(rng.choice([64, 128, 512]))
        # Whole groups of eight are dropped.
        dropped = 8 * int(rng.binomial(total // 8, float(each)))
        found.append(SampleCounts(total, total, 0, dropped, 0, 0, None, None, 0, None))
    return found


def drops_a_fifth_and_more(rng: Rng) -> Labelled:
    """From some step on a good part of the groups is discarded as stale."""
    onset, count = int(rng.integers(30, 60)), 120
    ratio = np.full(count, 0.03)
    ratio[onset - 1 :] = float(rng.uniform(0.32, 0.5))
    largest, mean = _steady_lag(rng, 4.0, count)
    return _lagging(
        rng,
        largest,
        mean,
        _name(rng),
        "staleness.drops",
        onset,
        staleness_bound=4.0,
        samples=_drops(rng, ratio),
    )


def drops_a_few(rng: Rng) -> Labelled:
    """A twentieth is dropped, in whole groups."""
    largest, mean = _steady_lag(rng, 4.0)
    samples = _drops(rng, np.full(len(mean), 0.05))
    return _lagging(rng, largest, mean, _name(rng), staleness_bound=4.0, samples=samples)


FOREIGN_CASES: Mapping[str, Callable[[Rng], Labelled]] = {
    case.__name__: case
    for case in (
        leak_speeds_up,
        leak_slows_down,
        leak_of_all_engines,
        leak_at_validations,
        leak_at_random,
        leak_in_a_full_pool,
        device_rises_after_release,
        host_rises_at_sleeps,
        leak_later_than_a_plateau,
        nothing_wrong,
        wanders,
        settles_slowly,
        cache_saturates,
        breathes_with_tasks,
        host_cache_of_files,
        pool_of_any_size,
        restarts_with_residue,
        longer_contexts,
        lag_within_bounds,
        lag_warms_up,
        lag_swings,
        lag_fills_slowly,
        lag_of_one_step_off,
        lag_held_at_bound,
        lag_drifts,
        lag_beyond_bound_after_resume,
        lag_resumes_as_it_was,
        drops_a_fifth_and_more,
        drops_a_few,
    )
}
