"""Throughput and weight sync against what this run usually does."""

import math
import statistics
from dataclasses import dataclass

from longpole.conventions.stages import UPDATE_WEIGHTS
from longpole_server.alerts.detectors.threshold import compare
from longpole_server.alerts.detectors.work_shape import (
    LENGTH,
    SHAPES,
    THROUGHPUT,
    TOKENS,
    fit_powers,
)
from longpole_server.alerts.history import History
from longpole_server.alerts.inputs import (
    measure_spread,
    read_newest,
    read_opening,
    read_values,
)
from longpole_server.alerts.rule import Judgement, not_judgeable

# Part of the tokens' fall (in logarithms) that lengths or seconds of the step must share.
_FOLLOWS = {LENGTH: 0.7, "step_duration_s": 0.3}
_SYNC_SECONDS = f"stage_s/{UPDATE_WEIGHTS}"
# Newest steps that are looked at.
_PAST_STEPS = 60
# Standard deviation of a median, as a multiple of that of the mean.
_DEVIATION_OF_MEDIAN = 1.2533
# The part of a fall that the shape of the work must explain to count as its cause.
_EXPLAINED = 0.7


@dataclass(frozen=True, slots=True)
class ThroughputFall:
    """Throughput below its reference, unless the shape of the work explains most of the fall.

    Attributes:
        fire_ratio, clear_ratio: Parts of the reference.
        recent: Newest steps whose median is judged.
        deviations: A fall within so many of the median's own standard deviations is scatter.
        frozen: Compared with the first steady steps, else with the twenty before the recent ones.
    """

    fire_ratio: float
    clear_ratio: float
    recent: int
    frozen: bool
    deviations: float = 4.0
    min_reference: int = 10
    fire: float | None = None
    clear: float | None = None
    unit: str = "tokens/s/GPU"
    reads: tuple[str, ...] = (THROUGHPUT, *(shape.name for shape in SHAPES))

    def judge(self, history: History) -> Judgement:
        """Judge the newest steps."""
        recent, reference = self._split(history, THROUGHPUT)
        if len(recent) < self.recent or len(reference) < self.min_reference:
            return not_judgeable(
                f"{len(reference)} of {self.min_reference} reference steps are known", self.unit
            )
        value = statistics.median(recent)
        usual, deviation = measure_spread(reference)
        # How far the median of so few steps strays by itself.
        stray = self.deviations * _DEVIATION_OF_MEDIAN * deviation / math.sqrt(self.recent)
        fire = min(self.fire_ratio * usual, usual - stray)
        judgement = compare(
            value,
            fire,
            max(fire, min(self.clear_ratio * usual, (usual + fire) / 2)),
            self.unit,
            "below",
            baseline=usual,
            words={"fall": f"{100 * (1 - value / usual):.0f} %" if usual > 0 else "unknown"},
        )
        if not judgement.firing:
            return judgement
        explained = self._explain(history, value / usual)
        if explained is None:
            return judgement
        return Judgement(
            False, True, value, judgement.threshold, self.unit, usual, quiet_because=explained
        )

    def _split(self, history: History, name: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Return a figure over the newest steps, and over those they are compared with."""
        steps = history.steps[-_PAST_STEPS:]
        newest, before = steps[-self.recent :], steps[2 : -self.recent]
        recent = read_values(newest, name)
        if not self.frozen:
            return recent, read_values(before, name)[-20:]
        first = newest[0].step.step if newest else 0
        opening = [point for point in history.opening if point.step.step < first]
        return recent, read_values(opening, name)[2:22]

    def _explain(self, history: History, ratio: float) -> str | None:
        """Say which changes of the work's shape explain the fall, None when they do not."""
        powers = fit_powers(history.steps)
        explained, reasons = 0.0, list[str]()
        for shape in SHAPES:
            recent, reference = self._split(history, shape.name)
            if len(recent) < self.recent or len(reference) < self.min_reference:
                continue
            usual, now = statistics.median(reference), statistics.median(recent)
            if usual <= 0 or now <= 0:
                continue
            if shape.name == TOKENS and not self._holds_less(history, now / usual):
                continue
            part = powers.get(shape.name, shape.assumed) * math.log(now / usual) / math.log(ratio)
            if part > 0:
                explained += part
                reasons.append(f"{shape.label} ({usual:.0f} to {now:.0f})")
        if explained < _EXPLAINED:
            return None
        part = 100 * min(1.0, explained)
        return f"benign: {' and '.join(reasons)}, which explains {part:.0f} % of the fall"

    def _holds_less(self, history: History, tokens_ratio: float) -> bool:
        """Tell whether steps hold fewer tokens because less is asked of them.

        Where steps last as long as before and responses are no shorter, fewer tokens are what a
        fall of throughput looks like, and no reason for it.
        """
        if tokens_ratio >= 1:
            return False
        for name in (LENGTH, "step_duration_s"):
            recent, reference = self._split(history, name)
            if not recent or not reference:
                continue
            before, after = statistics.median(reference), statistics.median(recent)
            if before > 0 and after > 0:
                shrunk = math.log(after / before) / math.log(tokens_ratio)
                if shrunk >= _FOLLOWS[name]:
                    return True
        return False


@dataclass(frozen=True, slots=True)
class SyncSlow:
    """A weight sync that takes far longer than the first ones did, and long enough to matter.

    Attributes:
        deviations: Of the first ones' own scatter.
        min_seconds: Longer than usual, least.
        reference_steps: Syncs that make the past, after the first two; until there are so many,
            those before the newest three.
    """

    fire_ratio: float = 2.0
    deviations: float = 6.0
    min_seconds: float = 5.0
    min_steps: int = 10
    reference_steps: int = 20
    fire: float | None = None
    clear: float | None = None
    unit: str = "s"
    reads: tuple[str, ...] = (_SYNC_SECONDS,)

    def judge(self, history: History) -> Judgement:
        """Judge the newest step by the first ones."""
        value = read_newest(history, _SYNC_SECONDS)
        if value is None:
            is_reported = bool(read_values(history.steps[-_PAST_STEPS:], _SYNC_SECONDS))
            why = "this step has no weight sync" if is_reported else "no weight sync is reported"
            return not_judgeable(why, self.unit)
        past = read_opening(history, _SYNC_SECONDS)[2 : 2 + self.reference_steps]
        if len(past) < self.reference_steps:
            past = read_values(history.steps[-_PAST_STEPS:-3], _SYNC_SECONDS)[2:]
        if len(past) < self.min_steps:
            return not_judgeable(f"{len(past)} of {self.min_steps} syncs are known", self.unit)
        usual, deviation = measure_spread(past)
        fire = max(
            self.fire_ratio * usual,
            usual + self.min_seconds,
            usual + self.deviations * deviation,
        )
        return compare(value, fire, (usual + fire) / 2, self.unit, baseline=usual)
