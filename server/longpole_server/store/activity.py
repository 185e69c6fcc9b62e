"""When something was last heard of an attempt, from the facts of a batch."""
# pyarrow carries no complete types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Iterator

import pyarrow as pa

from longpole_server.model.records import Records
from longpole_server.store.columns import INTEGER, TEXT, TIME, make_array


def make_activity_rows(records: Records) -> pa.Table:
    """Return the newest time of each attempt in a batch, as rows of `run_activity`."""
    newest: dict[tuple[str, int], int] = {}
    for run_id, attempt, ts_ns in _iterate_times(records):
        key = (run_id, attempt)
        newest[key] = max(ts_ns, newest.get(key, ts_ns))
    return pa.table(
        {
            "run_id": make_array([run_id for run_id, _ in newest], TEXT),
            "attempt": make_array([attempt for _, attempt in newest], INTEGER),
            "last_seen_ns": make_array(list(newest.values()), TIME),
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
    for sighting in (*records.processes, *records.stage_starts):
        yield sighting.run_id, sighting.attempt, sighting.seen_ns
