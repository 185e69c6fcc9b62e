"""What a rule is made of, and what it hands back when it holds."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from longpole_server.diagnosis.view import View
from longpole_server.model.diagnosis import Effect, Evidence, Layer, Reference
from longpole_server.model.step import Confidence

Pools = Literal["any", "shared", "separate"]


@dataclass(frozen=True, slots=True)
class Advice:
    """Something to look at or to try next.

    Attributes:
        text: What to do.
        knobs: What it turns, by name in `framework_keys.KNOBS`; their keys are named beside it.
        pools: Where it makes sense: only with shared, or only with separate GPU pools.
        unless: A layer of evidence that has this done already when it is heard.
    """

    text: str
    knobs: tuple[str, ...] = ()
    pools: Pools = "any"
    unless: str | None = None


@dataclass(frozen=True, slots=True)
class Recoverable:
    """An estimate of the seconds a step that fixing something gives back, with its range."""

    low_s: float
    usual_s: float
    high_s: float

    @classmethod
    def around(
        cls, usual_s: float, low_s: float | None = None, high_s: float | None = None
    ) -> "Recoverable":
        """Return an estimate whose bounds enclose it; a bound that is left out equals it."""
        usual_s = max(0.0, usual_s)
        low_s = usual_s if low_s is None else max(0.0, min(low_s, usual_s))
        high_s = usual_s if high_s is None else max(high_s, usual_s)
        return cls(low_s, usual_s, high_s)

    @classmethod
    def between(cls, low_s: float, high_s: float) -> "Recoverable":
        """Return an estimate midway between its bounds, where nothing says which is nearer."""
        high_s = max(0.0, high_s)
        low_s = max(0.0, min(low_s, high_s))
        return cls(low_s, (low_s + high_s) / 2, high_s)

    def capped(self, limit_s: float) -> "Recoverable":
        """Return the estimate with nothing above a limit."""
        return Recoverable(
            min(self.low_s, limit_s), min(self.usual_s, limit_s), min(self.high_s, limit_s)
        )


@dataclass(frozen=True, slots=True)
class Proof:
    """Why a verdict holds.

    Attributes:
        because: The second half of the verdict's sentence, from the inner measurement.
        inner_agrees: Whether an inner measurement agrees; without one confidence is `low`.
        at_most: Highest confidence this proof can carry.
        recoverable: What fixing it gives back a step; None when it cannot be estimated.
        first: What this proof says to try before what the rule always says.
    """

    because: str
    evidence: tuple[Evidence, ...] = ()
    inner_agrees: bool = False
    at_most: Confidence = "high"
    recoverable: Recoverable | None = None
    first: tuple[Advice, ...] = ()


@dataclass(frozen=True, slots=True)
class Rule:
    """One verdict: how it is decided and how it is explained.

    Attributes:
        code: Verdict code.
        family: Family whose dominance it explains.
        title: What the verdict says, as a short phrase.
        proof: What it takes beyond dominance, for the decision table.
        recoverable: How `recoverable_s_per_step` is estimated, and its range.
        reads: Metrics and facts it looks at.
        sources: Layers of evidence that can prove it, by their names in `layers.LAYERS`.
        thresholds: Names of the limits it decides by.
        next: What to look at or try, most promising first.
        judge: Returns the proof, None when the rule does not hold.
    """

    code: str
    family: str
    title: str
    proof: str
    recoverable: str
    reads: tuple[str, ...]
    next: tuple[Advice, ...]
    judge: Callable[[View], Proof | None] = field(repr=False)
    thresholds: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()


def inner(
    metric: str,
    value: float,
    unit: str,
    source: str,
    compared_with: Reference | None = None,
    effect: Effect = "supports",
) -> Evidence:
    """Return a row of the inner measurement."""
    return _row("inner", metric, value, unit, source, compared_with, effect)


def outer(
    metric: str,
    value: float,
    unit: str,
    source: str,
    compared_with: Reference | None = None,
    effect: Effect = "supports",
) -> Evidence:
    """Return a row of the outer measurement."""
    return _row("outer", metric, value, unit, source, compared_with, effect)


def _row(
    layer: Layer,
    metric: str,
    value: float,
    unit: str,
    source: str,
    compared_with: Reference | None,
    effect: Effect,
) -> Evidence:
    return Evidence(metric, value, unit, compared_with, effect, layer, source)


def threshold(view: View, name: str) -> Reference:
    """Return a limit as what a value is compared with."""
    return Reference("threshold", view.limits[name])
