"""Rows of the health table that need more than one number."""

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from longpole_server.alerts.detectors.threshold import compare
from longpole_server.alerts.history import History, StepPoint
from longpole_server.alerts.inputs import measure_spread, read_newest, read_opening, read_values
from longpole_server.alerts.rule import Judgement, not_judgeable
from longpole_server.analysis.architectures import is_mixture_of_experts
from longpole_server.diagnosis.thresholds import resolve_limits

_LIMITS = resolve_limits()
# Newest steps that make the past of a figure.
_PAST_STEPS = 60
_KL_BASIS_KEYS = ("rl.kl.basis", "kl.basis", "kl_basis")
# Steps by which it is known how long responses are.
_LEAST_LENGTHS = 5
_SPREAD = "spread of the advantages"
_ADVANTAGES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "max": ("critic/advantages/max", "train/advantages/max", "ppo_actor/advantages/max"),
        "min": ("critic/advantages/min", "train/advantages/min", "ppo_actor/advantages/min"),
        "std": ("critic/advantages/std", "train/advantages_std", "ppo_actor/advantages/std"),
    }
)


@dataclass(frozen=True, slots=True)
class KlHigh:
    """KL to the reference a sequence; a mean over tokens is multiplied by the length first."""

    fire: float = _LIMITS["health.kl_ref"]
    clear: float = 0.8 * _LIMITS["health.kl_ref"]
    unit: str = "nats"
    reads: tuple[str, ...] = ("kl_ref", "response_length_mean")

    def judge(self, history: History) -> Judgement:
        """Judge the newest step."""
        value = read_newest(history, "kl_ref")
        if value is None or history.run is None:
            return not_judgeable("KL to the reference is not reported", self.unit)
        config = history.run.facts.config
        basis = next((config[key] for key in _KL_BASIS_KEYS if key in config), "token")
        words = {"basis": "on a sequence basis"}
        if basis != "sequence":
            length = read_newest(history, "response_length_mean")
            if length is None:
                return not_judgeable(
                    "KL is a mean over tokens, and the response length is not reported", self.unit
                )
            words["basis"] = f"{value:.3g} a token x {length:.0f} tokens of a mean response"
            value *= length
        judgement = compare(value, self.fire, self.clear, self.unit, words=words)
        if judgement.quiet_because is None:
            return judgement
        return replace(judgement, quiet_because=f"{judgement.quiet_because} a sequence")


@dataclass(frozen=True, slots=True)
class MfuLow:
    """MFU of the update below what its kind of model should reach: the median of a few steps.

    Attributes:
        recent: Newest steps whose median is judged.
    """

    recent: int = 5
    fire: float | None = None
    clear: float | None = None
    unit: str = "ratio"
    reads: tuple[str, ...] = ("mfu_actor",)

    def judge(self, history: History) -> Judgement:
        """Judge the newest step."""
        value = read_newest(history, "mfu_actor")
        if value is None or history.run is None:
            return not_judgeable("the update's MFU is not known", self.unit)
        value = statistics.median(read_values(history.steps[-self.recent :], "mfu_actor"))
        is_moe = is_mixture_of_experts(history.run.facts.model_config)
        kind = "moe" if is_moe else "dense"
        low = _LIMITS[f"update.mfu.low_{kind}"]
        healthy = _LIMITS[f"update.mfu.healthy_{kind}"]
        words = {
            "kind": "a mixture of experts" if is_moe else "a dense model",
            "healthy": f"{100 * healthy:.0f} %",
        }
        return compare(value, low, 1.1 * low, self.unit, "below", baseline=healthy, words=words)


@dataclass(frozen=True, slots=True)
class AdvantageSpread:
    """The spread of the advantages against its own past: next to none teaches nothing.

    Far too much lets a few samples decide the update. The spread is the reported deviation, else
    largest minus smallest.

    Attributes:
        low_ratio, high_ratio: Parts of the usual spread.
        deviations: Robust ones of its logarithm, beyond which it must be as well to be too much.
        gap: Newest steps that are left out of its past.
    """

    low_ratio: float = 0.05
    high_ratio: float = 5.0
    deviations: float = 8.0
    gap: int = 3
    min_steps: int = 10
    fire: float | None = None
    clear: float | None = None
    unit: str = "1"
    reads: tuple[str, ...] = (*_ADVANTAGES["std"], *_ADVANTAGES["max"], *_ADVANTAGES["min"])

    def judge(self, history: History) -> Judgement:
        """Judge the newest step."""
        spreads = [_read_spread(point) for point in history.steps]
        value = spreads[-1] if spreads else None
        if value is None:
            return not_judgeable("the spread of the advantages is not reported")
        past = [each for each in spreads[: -1 - self.gap] if each is not None][-_PAST_STEPS:]
        if len(past) < self.min_steps:
            return not_judgeable(f"{len(past)} of {self.min_steps} earlier steps are known")
        usual = statistics.median(past)
        if usual <= 0:
            return not_judgeable("advantages never had a spread")
        if value <= usual:
            words = {"what": "steps teach next to nothing"}
            low = self.low_ratio * usual
            return compare(value, low, 2 * low, "1", "below", baseline=usual, words=words)
        _, deviation = measure_spread([math.log(each) for each in past if each > 0])
        high = usual * max(self.high_ratio, math.exp(self.deviations * deviation))
        words = {"what": "a few samples decide the update"}
        return compare(value, high, math.sqrt(high * usual), "1", baseline=usual, words=words)


def _read_spread(point: StepPoint) -> float | None:
    """Return the spread of a step's advantages; kept beside the step for the next look."""
    if _SPREAD not in point.figures:
        found = {
            part: next((point.scalars[name] for name in names if name in point.scalars), None)
            for part, names in _ADVANTAGES.items()
        }
        spread = found["std"]
        if spread is None and found["max"] is not None and found["min"] is not None:
            spread = found["max"] - found["min"]
        point.figures[_SPREAD] = spread
    return point.figures[_SPREAD]


@dataclass(frozen=True, slots=True)
class LengthCollapsed:
    """Mean response length near zero, or a small part of what it was at the start.

    Attributes:
        low_ratio: It must be below so much of the shortest of the first steps as well: where short
            and long tasks take turns, a short one is no collapse.
        least_ratio: By how much more at most, where the first steps differ among themselves: the
            shortest of them is then not the shortest there is.
        gap: Newest steps that are left out of the first ones.
    """

    fire_ratio: float = 0.25
    low_ratio: float = 0.7
    least_ratio: float = 0.1
    gap: int = 3
    fire: float = 4.0
    clear: float = 8.0
    unit: str = "tokens"
    reads: tuple[str, ...] = ("response_length_mean",)

    def judge(self, history: History) -> Judgement:
        """Judge the newest step."""
        value = read_newest(history, "response_length_mean")
        if value is None:
            return not_judgeable("the response length is not reported", self.unit)
        past = sorted(read_opening(history, "response_length_mean")[: -self.gap][:20])
        usual, fire = None, self.fire
        if len(past) >= _LEAST_LENGTHS:
            # The shortest but one of twenty: a single step may have been anything.
            odd = len(past) // 10
            usual, low, high = past[len(past) // 2], past[odd], past[-1 - odd]
            ratio = min(self.low_ratio, max(self.least_ratio, low / high if high > 0 else 1.0))
            fire = max(fire, min(self.fire_ratio * usual, ratio * low))
        clear = max(self.clear, 1.5 * fire)
        if usual is not None and usual <= clear:
            # Answers were never longer: short is what they are.
            fire, clear = min(fire, 0.5 * usual), min(clear, 0.7 * usual)
        return compare(value, fire, clear, self.unit, "below", baseline=usual)
