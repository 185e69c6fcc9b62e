from dataclasses import replace

import pyarrow as pa
import pytest

from longpole_server.errors import StoreError
from longpole_server.model.records import (
    GpuSample,
    MetricPoint,
    Records,
    RunStart,
    StageSpan,
    TrajectoryRecord,
)
from longpole_server.store.tables import TABLES
from longpole_server.store.writer import Inserter, Writer
from support.store_opening import OpenedStore
from support.store_records import BASE_NS, SECOND_NS, make_batch

COUNTED = ("gpu_samples", "trajectories", "metric_points", "stage_spans", "otel_traces")


class FailingInserter:
    """Passes inserts on until a number of them went through; then fails, after or before one."""

    def __init__(self, client: Inserter, num_good: int, insert_anyway: bool) -> None:
        self._client = client
        self._num_good = num_good
        self._insert_anyway = insert_anyway

    def insert(self, table: str, rows: pa.Table, token: str) -> None:
        if self._num_good == 0:
            if self._insert_anyway:
                self._client.insert(table, rows, token)
            raise StoreError("lost")
        self._num_good -= 1
        self._client.insert(table, rows, token)


class RecordingInserter:
    def __init__(self) -> None:
        self.calls: list[tuple[str, int, str]] = []

    def insert(self, table: str, rows: pa.Table, token: str) -> None:
        self.calls.append((table, rows.num_rows, token))


def count_raw(opened: OpenedStore, host: str, run_id: str) -> dict[str, int]:
    """Rows as they lie there, replaced ones included."""
    where = {"gpu_samples": f"host = '{host}'", "otel_traces": f"TraceId = '{run_id}'"}
    return {
        table: opened.count(table, where.get(table, f"run_id = '{run_id}'"), final=False)
        for table in COUNTED
    }


def count_rolled_up(opened: OpenedStore, table: str, host: str) -> tuple[int, float]:
    row = opened.client.query(
        "SELECT sum(utilization_ratio_count) AS num, sum(utilization_ratio_sum) AS total "
        "FROM {table:Identifier} WHERE host = {host:String}",
        {"table": table, "host": host},
    ).to_pylist()[0]
    return row["num"], row["total"]


def test_one_insert_a_table_with_a_token_of_its_own() -> None:
    inserter = RecordingInserter()
    Writer(inserter).write(make_batch(0, rows=2), "7-9")
    assert sorted(inserter.calls) == sorted(
        [(table, 2, f"7-9/{table}") for table in (*COUNTED, "gpu_samples_feed")]
        + [("run_starts", 1, "7-9/run_starts"), ("run_activity", 1, "7-9/run_activity")]
    )
    order = [table for table, _, _ in inserter.calls]
    assert order.index("gpu_samples_feed") < order.index("gpu_samples")


def test_an_empty_batch_inserts_nothing() -> None:
    inserter = RecordingInserter()
    Writer(inserter).write(Records(), "empty")
    Writer(inserter).write_steps([], 1)
    Writer(inserter).write_run_gpus([])
    assert inserter.calls == []


def test_the_same_token_again_changes_nothing(opened: OpenedStore) -> None:
    batch = make_batch(0, run_id="again", host="again")
    opened.writer.write(batch, "again")
    before = count_raw(opened, "again", "again")
    opened.writer.write(batch, "again")
    opened.writer.write(make_batch(1, run_id="again", host="again"), "again")
    assert count_raw(opened, "again", "again") == before
    for rollup in ("gpu_samples_10s", "gpu_samples_60s"):
        assert count_rolled_up(opened, rollup, "again") == (8, 4.0)


def test_the_same_content_under_another_token_is_stored_once(opened: OpenedStore) -> None:
    batch = make_batch(0, run_id="content", host="content")
    opened.writer.write(batch, "content-1")
    before = opened.writer.num_left_out
    opened.writer.write(batch, "content-2")
    assert opened.count("gpu_samples", "host = 'content'", final=False) == 8
    assert opened.writer.num_left_out == before + 8
    assert opened.count("otel_traces", "TraceId = 'content'") == 8
    assert count_rolled_up(opened, "gpu_samples_10s", "content") == (8, 4.0)


def test_a_fact_in_two_batches_is_seen_once(opened: OpenedStore) -> None:
    batch = make_batch(0, run_id="facts", host="facts")
    opened.writer.write(batch, "facts-1")
    opened.writer.write(batch, "facts-2")
    for table in ("trajectories", "metric_points", "stage_spans"):
        assert opened.count(table, "run_id = 'facts'") == 8
    assert opened.count("run_starts", "run_id = 'facts'") == 1


@pytest.mark.parametrize(
    ("num_good", "insert_anyway"), [*((count, False) for count in range(7)), (0, True), (5, True)]
)
def test_a_retry_completes_what_a_failure_left(
    opened: OpenedStore, num_good: int, insert_anyway: bool
) -> None:
    name = f"retry-{num_good}-{insert_anyway}"
    batch = make_batch(0, run_id=name, host=name)
    failing = FailingInserter(opened.store._client, num_good, insert_anyway)
    with pytest.raises(StoreError, match="lost"):
        Writer(failing).write(batch, name)
    opened.writer.write(batch, name)
    assert count_raw(opened, name, name) == dict.fromkeys(COUNTED, 8)
    assert opened.count("run_activity", f"run_id = '{name}'") == 1
    assert count_rolled_up(opened, "gpu_samples_10s", name) == (8, 4.0)


@pytest.mark.parametrize("view", ["gpu_feed_10s_view", "gpu_feed_60s_view"])
def test_a_retry_repairs_rollups_that_a_crash_left_short(opened: OpenedStore, view: str) -> None:
    name = f"short-{view}"
    batch = make_batch(0, run_id=name, host=name)
    client = opened.store._client
    # As if the crash had come between the two: the samples follow their rollups.
    client.command(f"DETACH TABLE {view}")
    tables = list(TABLES)
    before = sum(bool(getattr(batch, field)) for field in tables[: tables.index("gpu_samples")])
    with pytest.raises(StoreError, match="lost"):
        Writer(FailingInserter(client, before + 1, insert_anyway=False)).write(batch, name)
    client.command(f"ATTACH TABLE {view}")
    assert opened.count("gpu_samples", f"host = '{name}'", final=False) == 0
    for _ in range(2):
        opened.writer.write(batch, name)
        assert opened.count("gpu_samples", f"host = '{name}'", final=False) == 8
        assert count_rolled_up(opened, "gpu_samples_10s", name) == (8, 4.0)
        assert count_rolled_up(opened, "gpu_samples_60s", name) == (8, 4.0)


def test_a_large_batch_of_wild_times_is_one_batch(opened: OpenedStore) -> None:
    day_ns = 86_400 * SECOND_NS
    records = Records(
        gpu_samples=[
            GpuSample("wild", "GPU-0", 0, BASE_NS - day_ns * number, utilization_ratio=1.0)
            for number in range(300)
        ],
        metric_points=[
            MetricPoint("wild", 1, number, "reward", 0.0, number * 40 * day_ns)
            for number in range(300)
        ],
    )
    for _ in range(2):
        opened.writer.write(records, "wild")
    assert opened.count("gpu_samples", "host = 'wild'", final=False) == 300
    assert opened.count("metric_points", "run_id = 'wild'", final=False) == 300
    assert count_rolled_up(opened, "gpu_samples_60s", "wild") == (300, 300.0)


def test_values_outside_every_range_do_not_stop_a_batch(opened: OpenedStore) -> None:
    nan, huge = float("nan"), 1 << 80
    records = Records(
        run_starts=[RunStart("hostile", huge, -huge, name="\ud800", pid=-huge, config={"\0": "'"})],
        stage_spans=[StageSpan("hostile", 1, huge, "gen", "x", -huge, huge, "", "")],
        trajectories=[TrajectoryRecord("hostile", 1, -huge, "", huge, -huge, generate_s=nan)],
        metric_points=[MetricPoint("hostile", 1, 1, "", float("inf"), huge)],
        gpu_samples=[
            GpuSample("hostile", "", huge, -huge, utilization_ratio=nan, power_watts=1e300)
        ],
        raw_spans=[replace(make_batch(0, rows=1).raw_spans[0], ts_ns=-huge, duration_ns=-1)],
    )
    opened.writer.write(records, "hostile")
    assert opened.count("run_starts", "run_id = 'hostile'") == 1
    assert opened.count("trajectories", "run_id = 'hostile' AND isNaN(generate_s)") == 1
    assert opened.count("gpu_samples", "host = 'hostile' AND power_watts IS NULL", final=False) == 1


def test_every_window_is_bounded(opened: OpenedStore) -> None:
    answer = opened.client.query(
        "SELECT name FROM system.tables WHERE database = 'longpole' AND engine LIKE '%MergeTree' "
        "AND name != 'schema_migrations' AND name NOT LIKE '.inner%' "
        "AND create_table_query NOT LIKE '%non_replicated_deduplication_window = 10000%'"
    )
    assert answer.to_pylist() == []
