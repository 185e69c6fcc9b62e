"""A writer killed at any moment, and one that comes back with the batches not acknowledged."""

import os
import subprocess
import sys
from pathlib import Path

from support.store_child import ROWS
from support.store_opening import opened_store
from support.store_records import make_batch


def write_until_killed(directory: Path, first: int, num_batches: int) -> int:
    """Let a process write batches, kill it amid its work, and return the last acknowledged."""
    with subprocess.Popen(
        [sys.executable, "-m", "support.store_child", str(directory), str(first)],
        stdout=subprocess.PIPE,
        # A killed writer leaves the file of its last insert in the temporary directory.
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "TMPDIR": str(directory.parent),
        },
    ) as child:
        assert child.stdout is not None
        acknowledged = [int(child.stdout.readline()) for _ in range(num_batches)]
        child.kill()
        # What was acknowledged between the last look and the kill.
        rest = child.stdout.read().splitlines(keepends=True)
        acknowledged += [int(line) for line in rest if line.endswith(b"\n")]
        return acknowledged[-1]


def test_every_batch_is_stored_once_whatever_was_killed(tmp_path: Path) -> None:
    acknowledged = -1
    for num_batches in (3, 5, 4):
        # The batch after the last acknowledged one may be stored, in part or not at all.
        acknowledged = write_until_killed(tmp_path, acknowledged + 1, num_batches)
    with opened_store(tmp_path) as opened:
        last = acknowledged + 1
        opened.writer.write(make_batch(last, rows=ROWS), f"batch-{last}")
        expected = (last + 1) * ROWS
        for table in ("gpu_samples", "trajectories", "metric_points", "stage_spans", "otel_traces"):
            assert opened.count(table, final=False) == expected, table
        for rollup in ("gpu_samples_10s", "gpu_samples_60s"):
            row = opened.client.query(
                "SELECT sum(utilization_ratio_count) AS num FROM {table:Identifier}",
                {"table": rollup},
            ).to_pylist()[0]
            assert row["num"] == expected, rollup
