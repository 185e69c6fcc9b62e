"""What is known of an attempt's steps while they are closed: where each begins and ends."""

import bisect
from collections.abc import Iterable

from longpole_server.model.step import Step

# Steps back from the newest in which a late sample may still fall.
_SEARCHED_STEPS = 50


class AttemptProgress:
    """The steps of one attempt in order. Not thread-safe.

    Args:
        steps: (number, closed) of the steps that were derived before.
    """

    def __init__(self, steps: Iterable[tuple[int, bool]] = ()) -> None:
        self._closed: dict[int, bool] = dict(steps)
        self._numbers = sorted(self._closed)
        self._starts_ns: dict[int, int] = {}
        self._ends_ns: dict[int, int] = {}

    def __contains__(self, step: int) -> bool:
        """Tell whether a step is known."""
        return step in self._closed

    @property
    def first(self) -> int | None:
        """The first step's number, None without any."""
        return self._numbers[0] if self._numbers else None

    def newest(self, count: int) -> list[int]:
        """Return the numbers of the last `count` steps in order."""
        return self._numbers[-count:]

    def is_closed(self, step: int) -> bool:
        """Tell whether a step is known to be closed."""
        return self._closed.get(step, False)

    def announce(self, step: int, start_ns: int) -> bool:
        """Take note that a step was entered; tell whether that was news."""
        if step in self._closed:
            return False
        self._insert(step)
        self._starts_ns[step] = start_ns
        return True

    def record(self, step: Step) -> None:
        """Take note of a step as it was assembled."""
        self._insert(step.step)
        self._closed[step.step] = step.closed_by is not None
        self._starts_ns[step.step] = step.start_ns
        if step.end_ns is not None:
            self._ends_ns[step.step] = step.end_ns

    def before(self, step: int) -> int | None:
        """Return the number of the step before this one, None when it is the first."""
        index = bisect.bisect_left(self._numbers, step)
        return self._numbers[index - 1] if index > 0 else None

    def after(self, step: int) -> int | None:
        """Return the number of the step after this one, None when it is the last."""
        index = bisect.bisect_right(self._numbers, step)
        return self._numbers[index] if index < len(self._numbers) else None

    def start_ns(self, step: int) -> int | None:
        """Return where a step begins, None when that was not seen yet."""
        return self._starts_ns.get(step)

    def closed_at(self, ts_ns: int) -> int | None:
        """Return the closed step whose window holds a time, None when no recent one does."""
        for step in reversed(self.newest(_SEARCHED_STEPS)):
            start_ns, end_ns = self._starts_ns.get(step), self._ends_ns.get(step)
            if start_ns is not None and end_ns is not None and start_ns <= ts_ns <= end_ns:
                return step
        return None

    def _insert(self, step: int) -> None:
        if step not in self._closed:
            bisect.insort(self._numbers, step)
            self._closed[step] = False
