"""A figure against what it was when the attempt began: for what must not creep away."""

import statistics
from dataclasses import dataclass

from longpole_server.alerts.detectors.threshold import compare
from longpole_server.alerts.history import History
from longpole_server.alerts.inputs import label_of, read_newest, read_opening
from longpole_server.alerts.rule import Judgement, not_judgeable
from longpole_server.model.alert import Comparison


@dataclass(frozen=True, slots=True)
class AgainstStart:
    """Fires when a figure is beyond a multiple of its median over the attempt's first steps.

    Attributes:
        fire_ratio, clear_ratio: Multiples of the reference.
        reference_steps: Steps that make it, after the first `skip`.
        min_steps: Fewer are no reference.
        floor: The reference counts as at least this, in the figure's unit.
    """

    metric: str
    comparison: Comparison
    fire_ratio: float
    clear_ratio: float
    unit: str = "1"
    reference_steps: int = 20
    skip: int = 2
    min_steps: int = 10
    floor: float = 0.0
    fire: float | None = None
    clear: float | None = None

    @property
    def reads(self) -> tuple[str, ...]:
        """The figure."""
        return (self.metric,)

    def judge(self, history: History) -> Judgement:
        """Judge the newest step by the first ones."""
        value = read_newest(history, self.metric)
        if value is None:
            return not_judgeable(f"{label_of(self.metric)} is not reported", self.unit)
        opening = read_opening(history, self.metric)[self.skip :]
        reference = opening[: self.reference_steps]
        if len(reference) < self.min_steps:
            return not_judgeable(
                f"{len(reference)} of {self.min_steps} reference steps are known", self.unit
            )
        usual = max(self.floor, statistics.median(reference))
        if usual <= 0:
            return not_judgeable(f"{label_of(self.metric)} was not above 0 at the start", self.unit)
        return compare(
            value,
            usual * self.fire_ratio,
            usual * self.clear_ratio,
            self.unit,
            self.comparison,
            baseline=usual,
        )
