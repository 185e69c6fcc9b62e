"""Throughput and weight sync against what this run usually does."""

import math
import statistics
from dataclasses import dataclass

from longpole.conventions.stages import UPDATE_WEIGHTS
from longpole_server.alerts.detectors.threshold import compare
from longpole_server.alerts.history import History
from longpole_server.alerts.inputs import measure_spread, read_series
from longpole_server.alerts.rule import Judgement, not_judgeable

_THROUGHPUT = "throughput_tokens_per_s_per_gpu"
_LENGTH = "response_length_mean"
_TOKENS = "tokens_total"
# What may explain a fall: longer contexts, or fewer tokens to fill the same step.
_SHAPES = (
    (_LENGTH, "responses got longer", 1),
    (_TOKENS, "steps hold fewer tokens", -1),
)
# Newest steps that are looked at.
_PAST_STEPS = 60
# Standard deviation of a median, as a multiple of that of the mean.
_DEVIATION_OF_MEDIAN = 1.2533
# The part of a fall that longer answers may explain before it counts as theirs.
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
    reads: tuple[str, ...] = (_THROUGHPUT, _LENGTH, _TOKENS)

    def judge(self, history: History) -> Judgement:
        """Judge the newest steps."""
        recent, reference = self._split(history, _THROUGHPUT)
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
        recent = read_series(newest, name).values
        if not self.frozen:
            return recent, read_series(before, name).values[-20:]
        first = newest[0].step.step if newest else 0
        opening = [point for point in history.opening if point.step.step < first]
        return recent, read_series(opening, name).values[2:22]

    def _explain(self, history: History, ratio: float) -> str | None:
        """Say what explains the fall: answers that got so much longer, or far fewer tokens."""
        for name, label, sign in _SHAPES:
            recent, reference = self._split(history, name)
            if len(recent) < self.recent or len(reference) < self.min_reference:
                continue
            usual, now = statistics.median(reference), statistics.median(recent)
            if usual <= 0 or now <= 0:
                continue
            growth = now / usual if sign > 0 else usual / now
            # Decoding slows down at most in proportion to the length of the context.
            if growth > 1 and (growth - 1) >= _EXPLAINED * (1 / ratio - 1):
                return f"benign: {label} ({usual:.0f} to {now:.0f}), which explains the fall"
        return None


@dataclass(frozen=True, slots=True)
class SyncSlow:
    """A weight sync that takes far longer than it did, and long enough to matter."""

    fire_ratio: float = 2.0
    min_seconds: float = 5.0
    min_steps: int = 10
    fire: float | None = None
    clear: float | None = None
    unit: str = "s"
    reads: tuple[str, ...] = (f"stage_s/{UPDATE_WEIGHTS}",)

    def judge(self, history: History) -> Judgement:
        """Judge the newest step by the steps before it."""
        series = read_series(history.steps[-_PAST_STEPS:], f"stage_s/{UPDATE_WEIGHTS}")
        if history.newest is None or not series.steps:
            return not_judgeable("no weight sync is reported", self.unit)
        if series.steps[-1] != history.newest.step.step:
            return not_judgeable("this step has no weight sync", self.unit)
        past = series.values[:-1][-50:]
        if len(past) < self.min_steps:
            return not_judgeable(f"{len(past)} of {self.min_steps} syncs are known", self.unit)
        usual = statistics.median(past)
        fire = max(self.fire_ratio * usual, usual + self.min_seconds)
        return compare(series.values[-1], fire, (usual + fire) / 2, self.unit, baseline=usual)
