"""Rows of an exported run, put back where some of them are already."""

from pathlib import Path

from longpole_server.read.run_rows import RUN_TABLES, list_slices, read_slice
from longpole_server.store.arrivals import open_arrivals
from support.store_opening import OpenedStore
from support.store_records import make_batch


def test_rows_that_are_there_already_are_not_called_new(opened: OpenedStore, tmp_path: Path):
    opened.writer.write(make_batch(0, run_id="exported"), "batch")
    slices = list_slices(opened.pool, "exported")
    assert {"stage_spans", "trajectories", "metric_points"} <= {each.table for each in slices}
    arrivals = open_arrivals(opened.store)
    file = tmp_path / "rows.parquet"

    def bring(run_id: str) -> dict[str, tuple[int, int]]:
        """Return by table how many rows came, and how many of them were new."""
        found: dict[str, tuple[int, int]] = dict.fromkeys(RUN_TABLES, (0, 0))
        for piece in slices:
            file.write_bytes(read_slice(opened.pool, "exported", piece))
            num_new = arrivals.store(piece.table, file, run_id)
            rows, new = found[piece.table]
            found[piece.table] = (rows + piece.rows, new + num_new)
        return found

    assert {new for _, new in bring("exported").values()} == {0}
    brought = bring("another")
    for table in ("stage_spans", "trajectories", "metric_points", "run_starts"):
        rows, new = brought[table]
        assert new == rows
    assert {new for _, new in bring("another").values()} == {0}
    arrivals.close()
