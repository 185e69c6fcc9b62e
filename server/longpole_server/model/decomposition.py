"""A change of throughput, split into parts that add up to it."""

from dataclasses import dataclass
from typing import Literal

PartKind = Literal["tokens", "gpus", "stage", "unattributed", "outside"]
# What a change is a change of: as much of tokens / (seconds x GPUs) as both windows know.
Quantity = Literal["tokens_per_s_per_gpu", "tokens_per_s", "steps_per_s_per_gpu", "steps_per_s"]


@dataclass(frozen=True, slots=True)
class WindowMeans:
    """Means a step of one window. None is not reported, or there is no step.

    Attributes:
        gpus: GPUs, weighted by the seconds they were held.
        step_s: Seconds of a step.
        outside_s: Seconds a step spent between steps.
        throughput: In the decomposition's quantity, over the seconds of steps alone.
        loop_throughput: The same with the seconds between steps counted.
    """

    num_steps: int
    tokens: float | None
    gpus: float | None
    step_s: float | None
    outside_s: float | None
    throughput: float | None
    loop_throughput: float | None


@dataclass(frozen=True, slots=True)
class Part:
    """What one cause contributes to a change of throughput.

    Attributes:
        name: Stage for kinds `stage` and `outside`, else the kind.
        unit: Of `before` and `after`: `tokens`, `1` for GPUs, `s`; all are means a step.
        log_change: Natural logarithm of the factor by which this part changes throughput;
            positive is faster. None when not known.
        reason: Why it is not known.
    """

    kind: PartKind
    name: str
    unit: str
    before: float | None
    after: float | None
    log_change: float | None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Decomposition:
    """The change of throughput from one window of steps to another.

    Attributes:
        quantity: What changed; None when one of the windows has no step.
        total: Change of the logarithm of the loop's throughput, the seconds between steps
            counted: the sum of all known parts.
        total_of_steps: The same over the seconds of steps alone: the sum without `outside`.
        reason: Why nothing could be decomposed.
        remarks: What to know about the figures, one sentence each.
    """

    quantity: Quantity | None
    before: WindowMeans
    after: WindowMeans
    total: float | None
    total_of_steps: float | None
    parts: tuple[Part, ...]
    reason: str | None = None
    remarks: tuple[str, ...] = ()

    def part(self, kind: PartKind, name: str | None = None) -> Part | None:
        """Return the first part of a kind, of a name where one is given; None without one."""
        return next(
            (
                part
                for part in self.parts
                if part.kind == kind and (name is None or part.name == name)
            ),
            None,
        )
