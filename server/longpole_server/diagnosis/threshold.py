"""One number that a diagnosis decides by."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Threshold:
    """One limit.

    Attributes:
        name: Dotted name, by which it is overridden.
        unit: `1` for ratios and shares, `s`, `tokens/s`, `bytes/s`, `samples`, `steps`, `nats`.
        reason: Why there is a limit here at all, and why at this value.
        source: Where the value comes from.
    """

    name: str
    value: float
    unit: str
    reason: str
    source: str
