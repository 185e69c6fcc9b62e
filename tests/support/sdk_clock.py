"""A clock whose hands a test turns."""

from longpole.clock import Clock

_NS_PER_S = 1_000_000_000
START_NS = 1_700_000_000 * _NS_PER_S


class FakeClock:
    """Wall and monotonic time that stand still until `advance`."""

    def __init__(self) -> None:
        self.wall_ns = START_NS
        self.monotonic_ns = 5 * _NS_PER_S

    def advance(self, seconds: float) -> None:
        """Let both clocks go on."""
        self.wall_ns += int(seconds * _NS_PER_S)
        self.monotonic_ns += int(seconds * _NS_PER_S)

    def build(self) -> Clock:
        """Return the clock the SDK reads."""
        return Clock(lambda: self.wall_ns, lambda: self.monotonic_ns)
