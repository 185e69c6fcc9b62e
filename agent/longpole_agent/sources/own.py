"""The agent's own counters, sent like everything else."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from longpole.conventions.gpus import (
    AGENT_CLOCK_OFFSET,
    AGENT_DISK_UTILIZATION,
    AGENT_DROPPED,
    AGENT_PREFIX,
    AGENT_SPOOL_UTILIZATION,
)
from longpole.spool import Spool
from longpole_agent.counters import Counters
from longpole_agent.sources.source import Kind, Point
from longpole_agent.sources.timer import Timer

_EVERY_NS = 10_000_000_000


class OwnSource:
    """`Source` of what the agent counts, every 10 s.

    Args:
        spool: What waits for the server.
        counters: What happened since the start.
        directory: Where the spool lies; how full its file system is is sent too.
    """

    name = "own"

    def __init__(self, spool: Spool, counters: Counters, directory: Path) -> None:
        self._directory = directory
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
            ("received", "{record}", "counter", counters.received),
            ("forwarded", "{record}", "counter", counters.forwarded),
            ("rejected", "{record}", "counter", counters.rejected),
            ("missed_ticks", "{tick}", "counter", counters.missed_ticks),
        )
        dropped = self._spool.num_dropped + counters.unstored
        return [
            Point(AGENT_DROPPED, "{record}", "counter", ts_ns, dropped),
            Point(AGENT_SPOOL_UTILIZATION, "1", "gauge", ts_ns, self._fill_ratio()),
            *self._measure_disk(ts_ns),
            *self._compare_clocks(ts_ns),
            *(
                Point(AGENT_PREFIX + name, unit, kind, ts_ns, value)
                for name, unit, kind, value in values
            ),
        ]

    def _fill_ratio(self) -> float:
        return min(1.0, self._spool.num_bytes / self._spool.max_bytes)

    def _measure_disk(self, ts_ns: int) -> Sequence[Point]:
        """Return how full the file system of the spool is."""
        try:
            disk = shutil.disk_usage(self._directory)
        except OSError:
            return []
        used = disk.used / max(1, disk.used + disk.free)
        return [Point(AGENT_DISK_UTILIZATION, "1", "gauge", ts_ns, used)]

    def _compare_clocks(self, ts_ns: int) -> Sequence[Point]:
        """Return how far this machine's clock is ahead of the server's, once that is known."""
        ahead_s = self._counters.clock_ahead_s
        if ahead_s is None:
            return []
        return [Point(AGENT_CLOCK_OFFSET, "s", "gauge", ts_ns, ahead_s)]

    def close(self) -> None:
        """Nothing is held."""
