"""A figure that leaves its own past: against the median and the median absolute deviation."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from longpole_server.alerts.detectors.threshold import compare
from longpole_server.alerts.detectors.trends import fit_slope
from longpole_server.alerts.history import History
from longpole_server.alerts.inputs import label_of, measure_spread, read_newest, read_values
from longpole_server.alerts.rule import Judgement, not_judgeable
from longpole_server.model.alert import Comparison

# A short past knows its own scatter badly: limits by ten steps are 1.64 times as wide as by fifty.
_SHORT_PAST = 8.0
# The part of a change that must be new.
_SUDDEN = 0.5


@dataclass(frozen=True, slots=True)
class RobustJump:
    """Fires when a figure is so many robust deviations from its past, and from where that led.

    A past that rises or falls by itself leads somewhere: its Theil-Sen line is looked at beside its
    median, and a jump is beyond both.

    Attributes:
        deviations: Robust standard deviations (1.4826 MAD) at which it fires; at half of the
            distance it is over.
        min_change: Least distance from the median, in the figure's unit: a flat past has no spread.
        min_change_of_median: The same as a part of the median.
        is_ratio: Deviations are those of the logarithm, for figures that scatter by factors.
        window: Steps before the judged one that make the past.
        gap: Newest of them that are left out, so that a slow jump does not hide in its own past.
        min_steps: Fewer steps than this are no past.
        sustained: So many newest steps that all lie beyond every step of the past are a jump too,
            where scatter hides it: their median must be `sustained_change` of the past's away.
            0 switches it off, for figures that are meant to rise.
        rare: Where figures come from several levels by turns, the usual one hides the others: what
            more than this part of the past lay near, on the same side, is no jump. 0 asks for
            nothing.
        sudden: Half of the change must have come within about so many newest steps: what grows
            little by little is no jump, wherever it comes from. 0 asks for nothing.
    """

    metric: str
    comparison: Comparison
    deviations: float = 8.0
    min_change: float = 0.0
    min_change_of_median: float = 0.0
    is_ratio: bool = False
    unit: str = "1"
    window: int = 50
    gap: int = 3
    min_steps: int = 10
    sustained: int = 0
    sustained_change: float = 0.4
    rare: float = 0.0
    sudden: int = 0
    fire: float | None = None
    clear: float | None = None

    @property
    def reads(self) -> tuple[str, ...]:
        """The figure."""
        return (self.metric,)

    def judge(self, history: History) -> Judgement:
        """Judge the newest step by the steps before it."""
        value = read_newest(history, self.metric)
        if value is None:
            return not_judgeable(f"{label_of(self.metric)} is not reported", self.unit)
        reach = 2 * (self.window + self.gap)
        # Of a figure that is logged now and then the steps with it count.
        every = read_values(history.steps, self.metric)[-reach - 1 :]
        past = every[: len(every) - 1 - self.gap][-self.window :]
        if len(past) < self.min_steps:
            return not_judgeable(
                f"{len(past)} of {self.min_steps} earlier steps are known", self.unit
            )
        judgement = self._judge_by(past, value)
        if judgement.firing and self.sudden:
            return self._judge_sudden(every, judgement)
        if judgement.firing or not self.sustained:
            return judgement
        return self._judge_sustained(every, judgement)

    def _judge_sudden(self, every: Sequence[float], judgement: Judgement) -> Judgement:
        before = every[-self.sudden - 3 : -self.sudden]
        usual = judgement.baseline
        if not before or usual is None or _share_of(every[-1], usual, before) >= _SUDDEN:
            return judgement
        return replace(
            judgement, firing=False, quiet_because="it came there little by little, not in a jump"
        )

    def _judge_sustained(self, every: Sequence[float], judgement: Judgement) -> Judgement:
        recent = every[-self.sustained :]
        past = every[: -self.sustained][-self.window :]
        if len(past) < 2 * self.min_steps or len(recent) < self.sustained:
            return judgement
        median, now = statistics.median(past), statistics.median(recent)
        sign = 1.0 if self.comparison == "above" else -1.0
        is_beyond = min(sign * each for each in recent) > max(sign * each for each in past)
        change = max(self.min_change, self.sustained_change * abs(median))
        if not is_beyond or sign * (now - median) < change:
            return judgement
        return replace(
            judgement,
            firing=True,
            cleared=False,
            threshold=median + sign * change,
            baseline=median,
            quiet_because=None,
        )

    def _judge_by(self, past: Sequence[float], value: float) -> Judgement:
        sign = 1.0 if self.comparison == "above" else -1.0
        median = statistics.median(past)
        least = max(self.min_change, self.min_change_of_median * abs(median))
        is_ratio = self.is_ratio and min(past) > 0
        near, deviation = self._fit_past([math.log(each) for each in past] if is_ratio else past)
        shortness = max(0.0, 1 / len(past) - 1 / self.window)
        distance = sign * self.deviations * (1.0 + _SHORT_PAST * shortness) * deviation
        limits = near + distance, near + distance / 2
        if is_ratio:
            limits = math.exp(limits[0]), math.exp(limits[1])
        choose = max if sign > 0 else min
        known = self._find_known_level(past) if self.rare else median
        return compare(
            value,
            choose(limits[0], median + sign * least, known),
            choose(limits[1], median + sign * least / 2),
            self.unit,
            self.comparison,
            baseline=median,
        )

    def _find_known_level(self, past: Sequence[float]) -> float:
        """Return what lies well beyond the farthest that all but a rare part of the past went."""
        sign = 1.0 if self.comparison == "above" else -1.0
        level = sorted(past, reverse=sign > 0)[int(self.rare * len(past))]
        return level + sign * self.min_change_of_median / 2 * abs(level)

    def _fit_past(self, past: Sequence[float]) -> tuple[float, float]:
        """Return what a jump must leave, and how the past scatters about its own line.

        The first is the median of the past or where its line leads, whichever is nearer.
        """
        slope = fit_slope(range(len(past)), past)
        level, deviation = measure_spread([each - slope * at for at, each in enumerate(past)])
        led = level + slope * (len(past) + self.gap)
        median = statistics.median(past)
        choose = max if self.comparison == "above" else min
        return choose(median, led), deviation


def _share_of(value: float, usual: float, before: Sequence[float]) -> float:
    """Return which part of the way from the usual to a value came after some steps."""
    return (value - statistics.median(before)) / (value - usual)
