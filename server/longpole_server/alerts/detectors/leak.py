"""A leak is a floor that rises: what an engine still holds at rest, from step to step."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from longpole_server.alerts.detectors.leak_floors import (
    KV,
    POOL_LABELS,
    FloorPoint,
    Floors,
    list_floors,
)
from longpole_server.alerts.detectors.leak_support import find_support
from longpole_server.alerts.detectors.trends import (
    Trend,
    adjust_holm,
    fit_slope,
    is_in_steps,
    measure_memory,
    measure_trend,
    weigh_line,
)
from longpole_server.alerts.history import TRAINER, History
from longpole_server.alerts.rule import Judgement, not_judgeable
from longpole_server.alerts.wording import format_number
from longpole_server.model.alert import AlertEvidence

_SHARED_MODES = frozenset({"sync", "colocate_async"})
# Newest points of a floor that are looked at; the whole of it besides.
_WINDOWS = (10, 16, 28, 56, 112)
_RESTLESS_STEPS = 10
_KEPT = "kv.leak"


@dataclass(frozen=True, slots=True)
class _Rise:
    """A stretch in which a floor rises as a leak's does.

    Attributes:
        points: The stretch.
        trend: Over it, in parts of the pool a step.
        p_value: Of the trend, for all stretches that were looked at.
    """

    points: tuple[FloorPoint, ...]
    trend: Trend
    p_value: float


@dataclass(frozen=True, slots=True)
class KvLeak:
    """Fires when a floor of a replica rises and goes on rising.

    Attributes:
        min_points: Steps with a rest that are needed.
        min_rise: Of the pool.
        min_tau: Of Kendall's rank correlation with time: nine of ten pairs rise at 0.8.
        min_weight: By which a line must explain the rise better than wandering does
            (`weigh_line`).
        alpha: Chance of a false alarm over all replicas and pools of a run together.
        settled_after: Steps after its start in which an engine may climb to a plateau.
        min_settled: Points after these in which the rise must go on.
        persistence: The least slope of a later part, as a part of the whole slope.
        climb_steps: First steps after its start by which a climb is told from a leak: a leak goes
            on as fast as it began, a climb to a plateau slows down.
        own_points: So many settled points are judged by themselves, as are those of an engine that
            began twice `settled_after` ago: what it did in its first steps is over then.
        settled_p: One-sided p-value that the rise goes on after these steps.
        urgent_steps: A KV pool that is full in so few steps is not waited for, where something
            else speaks for a leak as well: a cache that gives way when it must fills a pool too.
        urgent_ratio: Nor is one that is taken by less than this.
        given_back: Part of the pool to which the floor must have come back to be over.
    """

    min_points: int = 10
    min_rise: float = 0.05
    min_tau: float = 0.6
    min_weight: float = 20.0
    alpha: float = 0.01
    settled_after: int = 20
    min_settled: int = 5
    persistence: float = 0.5
    climb_steps: int = 10
    own_points: int = 40
    settled_p: float = 0.02
    urgent_steps: float = 10.0
    urgent_ratio: float = 0.4
    given_back: float = 0.5
    fire: float | None = 0.05
    clear: float | None = None
    unit: str = "ratio"
    reads: tuple[str, ...] = (
        "vllm:kv_cache_usage_perc",
        "vllm:num_requests_running",
        "vllm:num_requests_waiting",
        "vllm:generation_tokens_total",
        "vllm:engine_sleep_state",
        "sglang:num_used_tokens",
        "sglang:max_total_num_tokens",
        "memory_used_bytes of GPUs and nodes",
        "memory_allocated",
        "memory_reserved",
    )

    def judge(self, history: History) -> Judgement:
        """Judge one replica: the pool whose rise is least likely by chance."""
        replica = history.entity.id
        floors = _list_floors(history, replica)
        if not floors:
            return not_judgeable(_why_no_floor(history, replica), self.unit)
        found = [(each, self._find_in(history, replica, each)) for each in floors]
        _keep(history, replica, self.min_points, found)
        p_values = self._read_family(history)
        leaks = [
            (p_values[replica, each.pool], each, rise)
            for each, rise in found
            if rise is not None and p_values.get((replica, each.pool), 1.0) <= self.alpha
        ]
        if leaks:
            _, worst, rise = min(leaks, key=lambda leak: (leak[1].pool != KV, leak[0]))
            newest = history.newest
            if newest is not None and worst.points[-1].step < newest.step.step:
                # What was seen in the steps before does not count twice.
                return not_judgeable("it was not at rest in this step", self.unit)
            return self._report(history, worst, rise)
        return self._explain(floors)

    def _find_in(self, history: History, replica: str, floors: Floors) -> _Rise | None:
        def is_backed(since_step: int) -> bool:
            return bool(find_support(history.steps, replica, since_step).words)

        return self.find_rise(floors, is_backed)

    def find_rise(
        self, floors: Floors, is_backed: Callable[[int], bool] = lambda _: False
    ) -> _Rise | None:
        """Return the clearest stretch of a floor that rises as a leak's does, None without any.

        Args:
            floors: Of one pool.
            is_backed: Tells whether anything else speaks for a leak since a step.
        """
        points = floors.points
        if len(points) < self.min_points:
            return None
        lengths = sorted({min(length, len(points)) for length in (*_WINDOWS, len(points))})
        best: _Rise | None = None
        for length in lengths:
            stretch = points[-length:]
            trend = self._measure(floors, stretch, is_backed)
            if trend is None or (best is not None and trend.p_value >= best.p_value):
                continue
            best = _Rise(stretch, trend, trend.p_value)
        if best is None:
            return None
        return _Rise(best.points, best.trend, min(1.0, best.p_value * len(lengths)))

    def _measure(
        self, floors: Floors, points: Sequence[FloorPoint], is_backed: Callable[[int], bool]
    ) -> Trend | None:
        """Return the trend of a stretch, None when it is not one of a leak."""
        third = max(1, len(points) // 3)
        begin, end = _middle(points[:third]), _middle(points[-third:])
        if end - begin < self.min_rise / 2 or end < floors.released_peak + self.min_rise:
            return None
        # What is quick to see comes first.
        slope, middle = _slope_of(points), len(points) // 2
        begun, later = _slope_of(points[: middle + 1]), _slope_of(points[middle:])
        rise = slope * (points[-1].step - points[0].step)
        if points[-1].ratio < (begin + end) / 2:
            # It may just have been given back: the next step says.
            return None
        if rise < self.min_rise or later < self.persistence * max(begun, slope):
            return None
        is_urgent = later >= 0.8 * begun and self._is_urgent(floors, points, slope)
        if not self._goes_on(floors, points, slope) and not (
            is_urgent and is_backed(points[0].step)
        ):
            return None
        trend = _trend_of(points, self._find_memory(floors, points))
        if trend.slope_low <= 0 or trend.tau < self.min_tau:
            return None
        if not self._is_new(floors, points, end) or is_in_steps([each.ratio for each in points]):
            return None
        if floors.is_resized and not self._rises_in_amount(floors, points):
            return None
        return trend if self._is_no_wandering(floors, points) else None

    def _is_no_wandering(self, floors: Floors, points: Sequence[FloorPoint]) -> bool:
        """Tell whether a rise is a line, by itself and beside how the floor wandered before."""
        ratios = [each.ratio for each in points]
        if weigh_line(ratios) < self.min_weight:
            return False
        before = [each.ratio for each in self._list_known(floors, points)]
        return not before or weigh_line(ratios, before) >= self.min_weight

    def _find_memory(self, floors: Floors, points: Sequence[FloorPoint]) -> float:
        """Return how much a floor remembered before a stretch, once it had settled if that is long.

        A climb to a plateau looks like memory: where only that is known, less is told.
        """
        known = self._list_known(floors, points)
        return measure_memory([each.ratio for each in known]) if known else 0.0

    def _list_known(self, floors: Floors, points: Sequence[FloorPoint]) -> Sequence[FloorPoint]:
        """Return what came before a stretch, once settled if that is long; empty if too short."""
        before = floors.points[: -len(points)]
        settled = [each for each in before if self._is_settled(floors, each)]
        known = settled if len(settled) >= self.min_points else before
        return known if len(known) >= self.min_points else ()

    def _is_settled(self, floors: Floors, point: FloorPoint) -> bool:
        return point.step >= floors.begun_step + self.settled_after

    def _is_new(self, floors: Floors, points: Sequence[FloorPoint], end: float) -> bool:
        """Tell whether a rise leads beyond where the floor was before: one that wanders comes back.

        One earlier point alone may have been anything.
        """
        before = sorted(each.ratio for each in floors.points[: -len(points)])
        return len(before) < 2 or end >= before[-2] + self.min_rise / 2

    def _rises_in_amount(self, floors: Floors, points: Sequence[FloorPoint]) -> bool:
        """Tell whether a floor rises in blocks or bytes too, where the pool's size changed."""
        known = [(float(point.step), point.amount) for point in points if point.amount is not None]
        if len(known) < len(points) or not floors.capacity:
            return False
        trend = measure_trend([step for step, _ in known], [amount for _, amount in known])
        is_rising = trend.tau >= self.min_tau and trend.slope_low > 0
        return is_rising and trend.rise >= self.min_rise * floors.capacity

    def _goes_on(self, floors: Floors, points: Sequence[FloorPoint], slope: float) -> bool:
        """Tell whether the rise goes on after the steps in which an engine climbs to a plateau."""
        settled = [each for each in points if self._is_settled(floors, each)]
        if len(settled) < self.min_settled:
            return False
        begun = max(slope, self._find_climb(floors, points, len(settled)))
        return (
            _slope_of(settled) >= self.persistence * begun
            and _trend_of(settled).p_value <= self.settled_p
        )

    def _find_climb(self, floors: Floors, points: Sequence[FloorPoint], num_settled: int) -> float:
        """Return how fast the floor rose when its engine began; 0 where that is long ago."""
        is_long_ago = points[0].step >= floors.begun_step + 2 * self.settled_after
        if is_long_ago or num_settled >= self.own_points:
            return 0.0
        last_step = floors.begun_step + self.climb_steps
        climb = [each for each in floors.points if each.step <= last_step]
        return _slope_of(climb) if len(climb) >= self.min_settled else 0.0

    def _is_urgent(self, floors: Floors, points: Sequence[FloorPoint], slope: float) -> bool:
        level = points[-1].ratio
        return (
            floors.pool == KV
            and level >= self.urgent_ratio
            and (1.0 - level) / slope <= self.urgent_steps
        )

    def _read_family(self, history: History) -> dict[tuple[str, str], float]:
        """Return the p-value of every replica and pool of the run, as it counts among all.

        Each replica is judged by itself: what was found is kept beside the newest step.
        """
        newest = history.newest
        if newest is None:
            return {}
        raw: dict[tuple[str, str], float] = {}
        for entity in history.list_entities("replica"):
            marker = f"{_KEPT}/{entity.id}"
            if marker not in newest.figures:
                floors = _list_floors(history, entity.id)
                found = [(each, self._find_in(history, entity.id, each)) for each in floors]
                _keep(history, entity.id, self.min_points, found)
            for pool in POOL_LABELS:
                p_value = newest.figures.get(f"{marker}/{pool}")
                if p_value is not None:
                    raw[entity.id, pool] = p_value
        return adjust_holm(raw)

    def _report(self, history: History, floors: Floors, rise: _Rise) -> Judgement:
        first, last = rise.points[0], rise.points[-1]
        level, slope = last.ratio, rise.trend.slope
        left = max(0.0, 1.0 - level) / slope
        support = find_support(history.steps, history.entity.id, first.step)
        words = {
            "pool": POOL_LABELS[floors.pool],
            "level": _say_level(floors, last),
            # A line through a pool that has been full for a while leads beyond it.
            "rise": f"{100 * min(rise.trend.rise, level):.3g} % of the pool",
            "points": str(len(rise.points)),
            "since": str(first.step),
            "left": _say_left(left),
            "support": "".join(f"; {each}" for each in support.words),
        }
        if floors.before_restart is not None and floors.restart_step is not None:
            words["support"] += (
                f"; the restart in step {floors.restart_step} had reset it from "
                f"{100 * floors.before_restart:.3g} %"
            )
        evidence = (
            AlertEvidence(f"{floors.pool}/slope_per_step", slope, "ratio"),
            AlertEvidence(f"{floors.pool}/slope_low_per_step", rise.trend.slope_low, "ratio"),
            AlertEvidence(f"{floors.pool}/p_value", rise.p_value, "1"),
            AlertEvidence(f"{floors.pool}/steps_until_full", left, "steps"),
            AlertEvidence(f"{floors.pool}/points", float(len(rise.points)), "steps"),
            *support.evidence,
        )
        # A floor that is above where it began by this much has not come back.
        limit = first.ratio + self.min_rise
        return Judgement(
            True, False, level, limit, self.unit, first.ratio, evidence=evidence, words=words
        )

    def _explain(self, floors: Sequence[Floors]) -> Judgement:
        """Say why nothing leaks, of the pool whose floor rose most."""
        judged = [each for each in floors if len(each.points) >= self.min_points]
        if not judged:
            return self._explain_few(floors)
        worst = max(judged, key=lambda each: (_rise_of(each), each.pool == KV))
        points = worst.points
        level, begin = _middle(points[-3:]), _middle(points[: max(1, len(points) // 3)])
        rise = level - begin
        quiet = (
            f"at rest the {POOL_LABELS[worst.pool]} comes back to {format_number(level, 'ratio')}"
            f" over {len(points)} steps"
        )
        if rise >= self.min_rise and worst.is_resized:
            quiet = "its floor moved with the pool, which was resized at a wake-up"
        elif rise >= self.min_rise:
            quiet = self._explain_rise(worst, rise)
        elif worst.released_peak >= begin + self.min_rise:
            quiet += (
                f"; what it held before, up to {format_number(worst.released_peak, 'ratio')}, was "
                "given back without a restart"
            )
        lowest = min(point.ratio for point in points)
        cleared = rise < self.given_back * self.min_rise or level - lowest < self.min_rise
        return Judgement(
            False,
            cleared,
            level,
            begin + self.min_rise,
            self.unit,
            begin,
            quiet_because=quiet,
        )

    def _explain_rise(self, floors: Floors, rise: float) -> str:
        label, points = POOL_LABELS[floors.pool], floors.points
        settled = sum(self._is_settled(floors, each) for each in points)
        risen = f"the floor of the {label} rose by {format_number(rise, 'ratio')} of the pool"
        if _middle(points[-3:]) < floors.released_peak + self.min_rise:
            peak = format_number(floors.released_peak, "ratio")
            return f"{risen}, but it had been at {peak} before and was given back: evictable"
        if settled < self.min_settled:
            return (
                f"{risen}; an engine may climb to a plateau in its first {self.settled_after} steps"
            )
        return f"{risen}, but it does not keep rising, or not from step to step: a plateau"

    def _explain_few(self, floors: Sequence[Floors]) -> Judgement:
        worst = max(floors, key=lambda each: len(each.points))
        count = f"{len(worst.points)} of {self.min_points} steps with a rest are known"
        level = worst.points[-1].ratio
        if worst.restart_step is not None:
            quiet = f"a restart in step {worst.restart_step} reset the floor; {count} since"
        elif worst.released_peak > level + self.min_rise:
            peak = format_number(worst.released_peak, "ratio")
            quiet = f"the floor was at {peak} and was given back without a restart: evictable"
        else:
            return not_judgeable(count, self.unit)
        return Judgement(False, True, level, None, self.unit, quiet_because=quiet)


def _keep(
    history: History,
    replica: str,
    min_points: int,
    found: Sequence[tuple[Floors, _Rise | None]],
) -> None:
    """Keep what was found of a replica beside the newest step, for the other replicas' turns."""
    if history.newest is None:
        return
    figures = history.newest.figures
    for floors, rise in found:
        unrisen = 1.0 if len(floors.points) >= min_points else None
        figures[f"{_KEPT}/{replica}/{floors.pool}"] = rise.p_value if rise else unrisen
    figures[f"{_KEPT}/{replica}"] = float(len(found))


def _slope_of(points: Sequence[FloorPoint]) -> float:
    return fit_slope([float(each.step) for each in points], [each.ratio for each in points])


def _trend_of(points: Sequence[FloorPoint], memory: float = 0.0) -> Trend:
    steps = [float(each.step) for each in points]
    return measure_trend(steps, [each.ratio for each in points], memory=memory)


def _list_floors(history: History, replica: str) -> list[Floors]:
    run = history.run
    return list_floors(
        history.steps,
        replica,
        run.first_step if run is not None else None,
        shares_gpus=run is not None and run.facts.mode in _SHARED_MODES,
    )


def _why_no_floor(history: History, replica: str) -> str:
    if replica == TRAINER:
        return "what the trainer logs of its memory is a peak since its start"
    seen = [
        engine
        for point in history.steps[-_RESTLESS_STEPS:]
        if (engine := point.engines.get(replica)) is not None
    ]
    if not seen:
        return "its engine reports no series"
    reasons = [engine.restless_because for engine in seen if engine.restless_because is not None]
    if len(reasons) < len(seen):
        return "at rest it reported neither its KV pool nor its memory"
    if "ran or waited" in reasons[-1]:
        return (
            f"it was never at rest in {len(seen)} steps: something ran or waited at every scrape, "
            "as in fully asynchronous training or under one long request"
        )
    return reasons[-1]


def _rise_of(floors: Floors) -> float:
    points = floors.points
    return _middle(points[-3:]) - _middle(points[: max(1, len(points) // 3)])


def _middle(points: Sequence[FloorPoint]) -> float:
    ratios = sorted([point.ratio for point in points])
    return ratios[len(ratios) // 2]


def _say_left(steps: float) -> str:
    if steps == 0:
        return "is full"
    return f"is full in {steps:.0f} steps" if steps >= 1.5 else "is full in the next step"


def _say_level(floors: Floors, point: FloorPoint) -> str:
    said = f"{100 * point.ratio:.3g} %"
    if floors.unit == "bytes" and point.amount is not None:
        return f"{format_number(point.amount, 'bytes')} ({said})"
    return said
