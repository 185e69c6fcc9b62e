"""A figure that leaves its own past: against the median and the median absolute deviation."""

from dataclasses import dataclass

from longpole_server.alerts.detectors.threshold import compare
from longpole_server.alerts.history import History
from longpole_server.alerts.inputs import label_of, measure_spread, read_newest, read_series
from longpole_server.alerts.rule import Judgement, not_judgeable
from longpole_server.model.alert import Comparison


@dataclass(frozen=True, slots=True)
class RobustJump:
    """Fires when a figure is so many robust deviations from its median over the steps before.

    Attributes:
        deviations: Robust standard deviations (1.4826 MAD) from the median at which it fires;
            at half of the distance it is over.
        min_change: Least distance from the median, in the figure's unit: a flat past has no spread.
        min_change_of_median: The same as a part of the median.
        window: Steps before the judged one that make the past.
        gap: Newest of them that are left out, so that a slow jump does not hide in its own past.
        min_steps: Fewer steps than this are no past.
    """

    metric: str
    comparison: Comparison
    deviations: float = 8.0
    min_change: float = 0.0
    min_change_of_median: float = 0.0
    unit: str = "1"
    window: int = 50
    gap: int = 3
    min_steps: int = 10
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
        past = read_series(history.steps[-reach - 1 : -1], self.metric).values
        past = past[: len(past) - self.gap][-self.window :] if self.gap else past[-self.window :]
        if len(past) < self.min_steps:
            return not_judgeable(
                f"{len(past)} of {self.min_steps} earlier steps are known", self.unit
            )
        median, deviation = measure_spread(past)
        distance = max(
            self.deviations * deviation,
            self.min_change,
            self.min_change_of_median * abs(median),
        )
        sign = 1.0 if self.comparison == "above" else -1.0
        return compare(
            value,
            median + sign * distance,
            median + sign * distance / 2,
            self.unit,
            self.comparison,
            baseline=median,
        )
