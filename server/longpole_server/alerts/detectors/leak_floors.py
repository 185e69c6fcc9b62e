"""The floors of a replica's memory pools: what they still held at rest, step by step."""

import itertools
import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from types import MappingProxyType
from typing import NamedTuple

from longpole_server.alerts.engines import EngineStep, Rest
from longpole_server.alerts.history import TRAINER, StepPoint
from longpole_server.alerts.inputs import measure_spread, read_figure

KV, DEVICE, HOST = "kv", "device", "host"
ALLOCATED, FRAGMENTS, BEYOND_TORCH = "torch_allocated", "torch_fragments", "beyond_torch"
POOL_LABELS: Mapping[str, str] = MappingProxyType(
    {
        KV: "KV pool",
        DEVICE: "device memory",
        HOST: "host memory",
        ALLOCATED: "memory allocated by torch",
        FRAGMENTS: "memory reserved by torch beyond what it allocated",
        BEYOND_TORCH: "device memory beyond torch's",
    }
)
# A phase counts as usual when it is seen in so much of the steps of the most usual one.
_USUAL = 0.8
# Newest steps by which that is told.
_PHASE_STEPS = 40
# A change of the pool's size below this is rounding.
_RESIZED = 0.01
# Part of a floor's rise that it must lose to have been given back, and the least of the pool.
_GIVEN_BACK = 0.5
_MIN_GIVEN_BACK = 0.03


class FloorPoint(NamedTuple):
    """The smallest that a pool held at rest in a step.

    Attributes:
        ratio: Part of the pool.
        amount: In the pool's own unit, None when its size is not known.
    """

    step: int
    ratio: float
    amount: float | None = None


@dataclass(frozen=True, slots=True)
class Floors:
    """The floor of one pool in one phase since it was last reset.

    Attributes:
        pool: Which one.
        begun_step: Step in which its engine began, or began anew.
        points: Since then, in order.
        restart_step: Of the restart that reset it, None without one.
        before_restart: The floor before that restart, as a part of the pool.
        is_resized: Whether the pool's size changed meanwhile.
        released_peak: Highest floor that was given back without a restart: what a cache may hold
            that is evicted when it must.
        capacity: The pool's size in its own unit, None when not known.
        unit: Of amounts.
    """

    pool: str
    begun_step: int
    points: tuple[FloorPoint, ...]
    restart_step: int | None = None
    before_restart: float | None = None
    is_resized: bool = False
    released_peak: float = 0.0
    capacity: float | None = None
    unit: str = "ratio"


def list_floors(
    steps: Sequence[StepPoint],
    replica: str,
    first_step: int | None,
    *,
    shares_gpus: bool = False,
) -> list[Floors]:
    """Return the floors of every pool of a replica that reports any.

    Args:
        steps: Newest steps in order.
        replica: Which one; `TRAINER` for what the trainer logs.
        first_step: First step of the attempt, None when not known.
        shares_gpus: Whether trainer and engines live on the same GPUs.
    """
    if replica == TRAINER:
        return _list_trainer_floors(steps, first_step, shares_gpus=shares_gpus)
    engines = [
        (point.step.step, engine)
        for point in steps
        if (engine := point.engines.get(replica)) is not None
    ]
    if not engines:
        return []
    begun = first_step if first_step is not None else engines[0][0]
    restarts = _find_restarts(engines)
    fresh = _leave_out_standing(engines)
    counted_step = _find_counted(fresh, restarts)
    phases = _group_rests(fresh)
    found = [
        _make_floors(
            pool,
            unit,
            _read_pool(phases, counted_step, read, is_lowest=pool != KV),
            begun,
            restarts,
        )
        for pool, unit, read in (
            (KV, "ratio", _read_kv),
            (DEVICE, "bytes", _read_device),
            (HOST, "bytes", _read_host),
        )
    ]
    return [floors for floors in found if floors.points]


class _Level(NamedTuple):
    step: int
    ratio: float
    size: float | None


def _read_kv(rest: Rest) -> tuple[float, float | None] | None:
    return None if rest.kv_used_ratio is None else (rest.kv_used_ratio, rest.pool_size)


def _read_device(rest: Rest) -> tuple[float, float | None] | None:
    if rest.device_bytes is None or not rest.device_total_bytes:
        return None
    return rest.device_bytes / rest.device_total_bytes, rest.device_total_bytes


def _read_host(rest: Rest) -> tuple[float, float | None] | None:
    if rest.host_bytes is None or not rest.host_total_bytes:
        return None
    return rest.host_bytes / rest.host_total_bytes, rest.host_total_bytes


_Reading = Callable[[Rest], "tuple[float, float | None] | None"]
# The rests of each phase, stage and sleep state, with their step.
_Phases = dict[tuple[str, str], list[tuple[int, Rest]]]


def _find_restarts(engines: Sequence[tuple[int, EngineStep]]) -> list[int]:
    """Return the steps in which the token counters fell back."""
    found: list[int] = []
    last: float | None = None
    for step, engine in engines:
        fell = engine.tokens_first is not None and last is not None and engine.tokens_first < last
        if engine.is_restarted or fell:
            found.append(step)
        last = engine.tokens_last if engine.tokens_last is not None else last
    return found


def _leave_out_standing(
    engines: Sequence[tuple[int, EngineStep]],
) -> list[tuple[int, EngineStep]]:
    """Leave out steps in which an engine did nothing: its gauges stand as they were."""
    kept: list[tuple[int, EngineStep]] = []
    last: float | None = None
    for step, engine in engines:
        tokens = engine.tokens_last
        if tokens is None or last is None or tokens != last:
            kept.append((step, engine))
        last = tokens if tokens is not None else last
    return kept


def _find_counted(engines: Sequence[tuple[int, EngineStep]], restarts: Sequence[int]) -> int:
    """Return the first of the newest steps by which it is told which phases are usual."""
    if not engines:
        return 0
    since = restarts[-1] if restarts else engines[0][0]
    counted = [step for step, _ in engines[-_PHASE_STEPS:] if step >= since]
    return counted[0] if counted else engines[-_PHASE_STEPS:][0][0]


def _group_rests(engines: Sequence[tuple[int, EngineStep]]) -> _Phases:
    """Return the rests of each phase, in order."""
    phases: _Phases = defaultdict(list)
    for step, engine in engines:
        for rest in engine.rests:
            phases[rest.stage, rest.sleep].append((step, rest))
    return phases


def _read_pool(
    phases: _Phases, counted_step: int, read: _Reading, *, is_lowest: bool
) -> list[_Level]:
    """Return the floor at the phase that most steps have, and that says most.

    Of the KV pool that is the phase with the highest newest floor: in others it was given away.
    Of memory it is the lowest: in others somebody works with it.
    """
    seen: dict[tuple[str, str], int] = {}
    for phase, rests in phases.items():
        newest = rests[bisect_left(rests, counted_step, key=itemgetter(0)) :]
        seen[phase] = len(newest) - [read(rest) for _, rest in newest].count(None)
    least = max(1.0, _USUAL * max(seen.values(), default=0))
    usual = [phases[phase] for phase in sorted(seen) if seen[phase] >= least]
    if not usual:
        return []
    choose = min if is_lowest else max
    chosen = choose(usual, key=lambda rests: _middle_of_last(rests, read))
    return [_Level(step, *value) for step, rest in chosen if (value := read(rest)) is not None]


def _middle_of_last(rests: Sequence[tuple[int, Rest]], read: _Reading) -> float:
    known = (value[0] for _, rest in reversed(rests) if (value := read(rest)) is not None)
    newest = sorted(itertools.islice(known, 5))
    return newest[len(newest) // 2]


def _make_floors(
    pool: str, unit: str, levels: Sequence[_Level], begun_step: int, restarts: Sequence[int]
) -> Floors:
    restart = restarts[-1] if restarts else None
    first = 0 if restart is None else bisect_left(levels, restart, key=itemgetter(0))
    before, own = levels[:first], levels[first:]
    sizes = [level.size for level in own if level.size]
    is_resized = bool(sizes) and max(sizes) > (1 + _RESIZED) * min(sizes)
    released = _find_released(own)
    peak = max([level.ratio for level in own[:released]], default=0.0)
    return Floors(
        pool,
        begun_step if restart is None else restart,
        tuple(
            FloorPoint(step, ratio, ratio * size if size else None)
            for step, ratio, size in own[released:]
        ),
        restart,
        before[-1].ratio if before else None,
        is_resized,
        peak,
        sizes[-1] if sizes else None,
        unit,
    )


def _find_released(levels: Sequence[_Level]) -> int:
    """Return where the levels begin after the floor was last given back without a restart.

    Two points in a row must lie well below half of what it had risen by: one is noise.
    """
    ratios = [level.ratio for level in levels]
    if not ratios or max(ratios) - min(ratios) < _MIN_GIVEN_BACK:
        return 0
    noise = _measure_noise(ratios)
    least_rise, least_fall = max(_MIN_GIVEN_BACK, 6 * noise), max(_MIN_GIVEN_BACK / 2, 4 * noise)
    begin, lowest, highest = 0, float("inf"), float("-inf")
    for index, (ratio, following) in enumerate(itertools.pairwise([*ratios, ratios[-1]])):
        rise, fall = highest - lowest, highest - max(ratio, following)
        if rise >= least_rise and fall >= _GIVEN_BACK * rise + least_fall:
            begin, lowest, highest = index, ratio, ratio
        if ratio < lowest:
            # What came before the lowest point is no rise from it.
            lowest = highest = ratio
        highest = max(highest, ratio)
    return begin


def _measure_noise(ratios: Sequence[float]) -> float:
    """Return the robust standard deviation of a point, from the changes between neighbours."""
    changes = [after - before for before, after in itertools.pairwise(ratios)]
    return measure_spread(changes)[1] / math.sqrt(2) if changes else 0.0


def _list_trainer_floors(
    steps: Sequence[StepPoint], first_step: int | None, *, shares_gpus: bool
) -> list[Floors]:
    """Return torch's pools as the trainer logs them, in bytes, at the same place in each step."""
    if not steps:
        return []
    begun = first_step if first_step is not None else steps[0].step.step
    allocated: list[tuple[int, float]] = []
    fragments: list[tuple[int, float]] = []
    beyond: list[tuple[int, float]] = []
    total = 0.0
    for point in steps:
        torch = read_figure(point, "memory_allocated")
        reserved = read_figure(point, "memory_reserved")
        device = [
            (rest.device_bytes, rest.device_total_bytes)
            for engine in point.engines.values()
            for rest in engine.rests
            if rest.device_bytes is not None and rest.device_total_bytes
        ]
        if torch is not None:
            allocated.append((point.step.step, torch))
        if torch is not None and reserved is not None:
            fragments.append((point.step.step, reserved - torch))
        if device:
            used, total = min(device)
            if reserved is not None and shares_gpus:
                beyond.append((point.step.step, used - reserved))
    found: list[Floors] = []
    for pool, values in ((ALLOCATED, allocated), (FRAGMENTS, fragments), (BEYOND_TORCH, beyond)):
        if not values or _is_peak(values):
            continue
        # Without the device's size, what it started with stands for the pool.
        size = total or 4 * max(1.0, values[0][1])
        levels = [_Level(step, value / size, size) for step, value in values]
        found.append(_make_floors(pool, "bytes", levels, begun, ()))
    return found


def _is_peak(values: Sequence[tuple[int, float]]) -> bool:
    """Tell whether a figure looks like a peak since the start: it never falls and often stands."""
    pairs = list(itertools.pairwise(values))
    stands = sum(after == before for (_, before), (_, after) in pairs)
    falls = any(after < before for (_, before), (_, after) in pairs)
    return not falls and stands >= 0.2 * len(pairs) and len(pairs) >= 3
