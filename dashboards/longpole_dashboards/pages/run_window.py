"""The part of a run that all charts of its page show: chosen on one of them, shown on all."""

from collections.abc import Sequence
from dataclasses import dataclass

from longpole_dashboards.addresses import Query
from longpole_dashboards.formats import NS_PER_MS
from longpole_server.model.step import Step

ZOOM, TIME = "zoom", "time"


@dataclass(frozen=True, slots=True)
class RunWindow:
    """What the address asks for: a range of steps, or of time.

    Attributes:
        steps: First and last step; a step reaches half a step to either side.
        span_ns: Time.
    """

    steps: tuple[float, float] | None
    span_ns: tuple[int, int] | None

    @classmethod
    def parse(cls, query: Query) -> "RunWindow":
        """Read what was chosen; a time wins over steps."""
        asked = query.span_ms(TIME)
        if asked is not None:
            return cls(None, (asked[0] * NS_PER_MS, asked[1] * NS_PER_MS))
        return cls(query.span(ZOOM), None)

    @property
    def is_chosen(self) -> bool:
        """Whether anything was."""
        return self.steps is not None or self.span_ns is not None

    def as_steps(self, steps: Sequence[Step], now_ns: int) -> tuple[float, float] | None:
        """Return the window on an axis of steps: those that touch it."""
        if self.span_ns is None:
            return self.steps
        start_ns, end_ns = self.span_ns
        touched = [
            step.step
            for step in steps
            if step.start_ns < end_ns and (step.end_ns or now_ns) > start_ns
        ]
        return (min(touched) - 0.5, max(touched) + 0.5) if touched else None

    def as_span_ns(self, steps: Sequence[Step], now_ns: int) -> tuple[int, int] | None:
        """Return the window as time: from where its first step begins to where its last ends."""
        if self.steps is None:
            return self.span_ns
        first, last = self.steps
        inside = [step for step in steps if first - 0.5 <= step.step <= last + 0.5]
        if not inside:
            return None
        start_ns = inside[0].start_ns
        return start_ns, max(inside[-1].end_ns or now_ns, start_ns + NS_PER_MS)
