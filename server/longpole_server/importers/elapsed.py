"""Seconds of a step where a log says only what the training has taken so far."""


class ElapsedClock:
    """What the time since the start grew by, a step."""

    def __init__(self) -> None:
        self._last: tuple[int, float] | None = None

    def begin(self, step: int, elapsed_s: float) -> None:
        """Note what had been taken at a step, unless a later one is known."""
        if self._last is None:
            self._last = step, elapsed_s

    def read_step_s(self, step: int, elapsed_s: float) -> float | None:
        """Return the seconds of a step, None of the first one and after a new start.

        Of records some steps apart it is the mean of these steps.
        """
        last, self._last = self._last, (step, elapsed_s)
        if last is None or step <= last[0] or elapsed_s <= last[1]:
            return None
        return (elapsed_s - last[1]) / (step - last[0])
