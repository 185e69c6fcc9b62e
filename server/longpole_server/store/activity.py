"""When something was last heard of an attempt, from the facts of its batches."""
# pyarrow carries no complete types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import time
from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa

from longpole_server.model.records import Records
from longpole_server.store.columns import INTEGER, TEXT, TIME, make_array

_RESOLUTION_NS = 1_000_000_000
_MAX_REMEMBERED = 10_000
# A sender's clock may be ahead by this much; what claims to be later was heard now.
_MAX_AHEAD_NS = 60 * 10**9


class Activity:
    """Remembers what was stored, so that an attempt's time is stored once a second of it only.

    Args:
        clock_ns: UTC nanoseconds.
    """

    def __init__(self, clock_ns: Callable[[], int] = time.time_ns) -> None:
        self._clock_ns = clock_ns
        self._stored_ns: dict[tuple[str, int], int] = {}

    def find_news(self, records: Records) -> Mapping[tuple[str, int], int]:
        """Return the newest time of each (run, attempt) of a batch that is worth storing."""
        latest_ns = self._clock_ns() + _MAX_AHEAD_NS
        newest: dict[tuple[str, int], int] = {}
        for run_id, attempt, ts_ns in _iterate_times(records):
            key, seen_ns = (run_id, attempt), min(ts_ns, latest_ns)
            newest[key] = max(seen_ns, newest.get(key, seen_ns))
        ended = {(end.run_id, end.attempt) for end in records.run_ends}
        return {
            key: ts_ns
            for key, ts_ns in newest.items()
            if key in ended
            or key not in self._stored_ns
            or ts_ns >= self._stored_ns[key] + _RESOLUTION_NS
        }

    def remember(self, stored_ns: Mapping[tuple[str, int], int]) -> None:
        """Take note of what was stored."""
        if len(self._stored_ns) > _MAX_REMEMBERED:
            self._stored_ns.clear()
        for key, ts_ns in stored_ns.items():
            self._stored_ns[key] = max(ts_ns, self._stored_ns.get(key, ts_ns))


def make_activity_rows(newest_ns: Mapping[tuple[str, int], int]) -> pa.Table:
    """Return the newest time of each (run, attempt) as rows of `run_activity`."""
    return pa.table(
        {
            "run_id": make_array([run_id for run_id, _ in newest_ns], TEXT),
            "attempt": make_array([attempt for _, attempt in newest_ns], INTEGER),
            "last_seen_ns": make_array(list(newest_ns.values()), TIME),
        }
    )


def _iterate_times(records: Records) -> Iterator[tuple[str, int, int]]:
    for start in records.run_starts:
        yield start.run_id, start.attempt, start.started_ns
    for end in records.run_ends:
        yield end.run_id, end.attempt, end.ended_ns
    for window in (*records.stage_spans, *records.trajectories, *records.trajectory_spans):
        yield window.run_id, window.attempt, window.end_ns
    for point in (*records.metric_points, *records.engine_samples):
        yield point.run_id, point.attempt, point.ts_ns
    for block in records.blocks:
        for (run_id, attempt), newest_ns in block.newest_ns.items():
            yield run_id, attempt, newest_ns
    for sighting in (*records.processes, *records.stage_starts):
        yield sighting.run_id, sighting.attempt, sighting.seen_ns
