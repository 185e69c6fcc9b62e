"""A figure of the judged step against a limit."""

import math
from dataclasses import dataclass

from longpole_server.alerts.history import History
from longpole_server.alerts.inputs import label_of, read_newest
from longpole_server.alerts.rule import Judgement, not_judgeable
from longpole_server.alerts.wording import format_number
from longpole_server.model.alert import Comparison


@dataclass(frozen=True, slots=True)
class Threshold:
    """Fires while a figure is beyond `fire`, is over once it is back at `clear`.

    Attributes:
        metric: Name of the figure, as `inputs.read_figure` takes it.
        comparison: The side on which it fires.
    """

    metric: str
    fire: float
    clear: float
    unit: str = "1"
    comparison: Comparison = "above"

    @property
    def reads(self) -> tuple[str, ...]:
        """The figure."""
        return (self.metric,)

    def judge(self, history: History) -> Judgement:
        """Judge the newest step."""
        value = read_newest(history, self.metric)
        if value is None:
            return not_judgeable(f"{label_of(self.metric)} is not reported", self.unit)
        return compare(value, self.fire, self.clear, self.unit, self.comparison)


def compare(
    value: float,
    fire: float,
    clear: float,
    unit: str,
    comparison: Comparison = "above",
    *,
    baseline: float | None = None,
    words: "dict[str, str] | None" = None,
) -> Judgement:
    """Judge a value by two limits on one side of it."""
    sign = 1.0 if comparison == "above" else -1.0
    firing = sign * value > sign * fire
    cleared = not firing and sign * value <= sign * clear
    quiet = None
    if not firing:
        side = "not above" if comparison == "above" else "not below"
        quiet = f"{format_number(value, unit)} is {side} {format_number(fire, unit)}"
        if value == fire == 0:
            quiet = "none was counted"
        if not cleared and math.isfinite(clear):
            quiet += f", but beyond {format_number(clear, unit)}"
    return Judgement(
        firing, cleared, value, fire, unit, baseline, words=words or {}, quiet_because=quiet
    )
