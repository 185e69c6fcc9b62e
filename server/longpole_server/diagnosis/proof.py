"""What a rule is made of, and what it hands back when it holds."""

from collections.abc import Callable
from dataclasses import dataclass, field

from longpole_server.diagnosis.view import View
from longpole_server.model.diagnosis import Effect, Evidence, Layer, NextLook, Reference
from longpole_server.model.step import Confidence


@dataclass(frozen=True, slots=True)
class Proof:
    """Why a verdict holds.

    Attributes:
        because: The second half of the verdict's sentence, from the inner measurement.
        inner_agrees: Whether an inner measurement agrees; without one confidence is `low`.
        at_most: Highest confidence this proof can carry.
        recoverable_s: Estimate of the seconds a step that fixing it gives back.
    """

    because: str
    evidence: tuple[Evidence, ...] = ()
    inner_agrees: bool = False
    at_most: Confidence = "high"
    recoverable_s: float | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """One verdict: how it is decided and how it is explained.

    Attributes:
        code: Verdict code.
        family: Family whose dominance it explains.
        title: What the verdict says, as a short phrase.
        proof: What it takes beyond dominance, for the decision table.
        recoverable: How `recoverable_s_per_step` is estimated.
        reads: Metrics and facts it looks at.
        thresholds: Names of the limits it decides by.
        next: What to look at or try, most promising first, with verl's keys.
        judge: Returns the proof, None when the rule does not hold.
    """

    code: str
    family: str
    title: str
    proof: str
    recoverable: str
    reads: tuple[str, ...]
    next: tuple[NextLook, ...]
    judge: Callable[[View], Proof | None] = field(repr=False)
    thresholds: tuple[str, ...] = ()


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
