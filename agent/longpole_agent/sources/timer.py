"""Things that a source does more rarely than at every tick."""


class Timer:
    """Says when something is due. Due at first, and when the wall clock was set back."""

    def __init__(self) -> None:
        self._set_ns = 0
        self._due_ns = 0

    def is_due(self, ts_ns: int) -> bool:
        """Whether the time has come."""
        return ts_ns >= self._due_ns or ts_ns < self._set_ns

    def set(self, ts_ns: int, after_ns: int) -> None:
        """Make it due again `after_ns` after `ts_ns`, which is now."""
        self._set_ns = ts_ns
        self._due_ns = ts_ns + after_ns
