"""The part of a step that its timeline shows, and how much more of it is read."""

from dataclasses import dataclass

from longpole_dashboards.addresses import Query
from longpole_dashboards.formats import NS_PER_MS, NS_PER_S

PART = "t"
# Nothing is measured more finely: a shorter part is as good as the whole.
_MIN_NS = 10 * NS_PER_MS
# A gauge of an engine holds for so long after it was reported.
_BEFORE_NS = 10 * NS_PER_S
# No bin is longer where a part is worth a look.
_AFTER_NS = 2 * NS_PER_S


@dataclass(frozen=True, slots=True)
class StepWindow:
    """What the address asks for of a step, as time.

    Attributes:
        whole_ns: Begin and end of the step.
        chosen_ns: The part of it that was chosen; None is all of it.
    """

    whole_ns: tuple[int, int]
    chosen_ns: tuple[int, int] | None = None

    @classmethod
    def parse(cls, query: Query, start_ns: int, end_ns: int) -> "StepWindow":
        """Read what was chosen; what lies outside of the step, or covers it, chooses nothing."""
        whole_ns = (start_ns, end_ns)
        asked = query.span(PART)
        if asked is None:
            return cls(whole_ns)
        length_s = (end_ns - start_ns) / NS_PER_S
        first, last = (min(max(at, 0.0), length_s) for at in asked)
        chosen_ns = (start_ns + round(first * NS_PER_S), start_ns + round(last * NS_PER_S))
        is_part = chosen_ns[1] - chosen_ns[0] >= _MIN_NS and chosen_ns != whole_ns
        return cls(whole_ns, chosen_ns if is_part else None)

    @property
    def read_ns(self) -> tuple[int, int]:
        """Return what is read for it: a little more, so that nothing breaks off at its edges."""
        if self.chosen_ns is None:
            return self.whole_ns
        start_ns, end_ns = self.chosen_ns
        return (
            max(self.whole_ns[0], start_ns - _BEFORE_NS),
            min(self.whole_ns[1], end_ns + _AFTER_NS),
        )
