"""The agent's own counters, sent like everything else."""

from collections.abc import Sequence

from longpole.spool import Spool
from longpole_agent.counters import Counters
from longpole_agent.sources.source import Kind, Point
from longpole_agent.sources.timer import Timer

_EVERY_NS = 10_000_000_000
_PREFIX = "longpole.agent."


class OwnSource:
    """`Source` of what the agent counts, every 10 s."""

    name = "own"

    def __init__(self, spool: Spool, counters: Counters) -> None:
        self._spool = spool
        self._counters = counters
        self._timer = Timer()

    def sample(self, ts_ns: int) -> Sequence[Point]:
        """Return the counters when they are due."""
        if not self._timer.is_due(ts_ns):
            return []
        self._timer.set(ts_ns, _EVERY_NS)
        counters = self._counters
        values: tuple[tuple[str, str, Kind, int], ...] = (
            ("spool.records", "{record}", "total", self._spool.num_pending),
            ("spool.bytes", "By", "total", self._spool.num_bytes),
            ("dropped", "{record}", "counter", self._spool.num_dropped + counters.unstored),
            ("received", "{record}", "counter", counters.received),
            ("forwarded", "{record}", "counter", counters.forwarded),
            ("rejected", "{record}", "counter", counters.rejected),
            ("missed_ticks", "{tick}", "counter", counters.missed_ticks),
        )
        return [
            Point(_PREFIX + name, unit, kind, ts_ns, value) for name, unit, kind, value in values
        ]

    def close(self) -> None:
        """Nothing is held."""
