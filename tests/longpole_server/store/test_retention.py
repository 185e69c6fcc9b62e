import time
from collections.abc import Generator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from longpole_server.errors import ConfigError
from longpole_server.store import Client, Store, StoreConfig, open_store
from longpole_server.store.client import WRITE_SETTINGS
from longpole_server.store.cluster import list_tables
from longpole_server.store.retention import (
    DEFAULT_RETENTION,
    apply_retention,
    choose_retention,
    plan_retention,
    read_retention,
)
from longpole_server.store.times import TIME_COLUMNS, TIMELESS

DAY_S = 86_400
DAY_NS = DAY_S * 10**9


@pytest.fixture
def store(tmp_path: Path) -> Generator[Store]:
    store = open_store(StoreConfig(directory=tmp_path))
    yield store
    store.close()


@pytest.fixture
def client(store: Store) -> Generator[Client]:
    client = store.new_limited_client(WRITE_SETTINGS)
    yield client
    client.close()


def test_every_table_has_its_time_or_says_that_it_has_none(client: Client):
    tables = {table.name: table.columns for table in list_tables(client, "longpole")}
    assert tables.keys() == TIME_COLUMNS.keys() | TIMELESS
    for table, column in TIME_COLUMNS.items():
        assert column in tables[table]


def test_raw_gpu_samples_are_kept_shortest():
    assert min(DEFAULT_RETENTION.values()) == DEFAULT_RETENTION["gpu_samples"]
    assert "steps" not in DEFAULT_RETENTION


def test_old_rows_go_and_young_ones_stay(store: Store, client: Client):
    now_ns = time.time_ns()
    ages_days = {"old": 20, "older": 400, "young": 1}
    rows = pa.table(
        {
            "host": list(ages_days),
            "gpu_uuid": ["GPU"] * 3,
            "gpu_index": [0] * 3,
            "ts_ns": pa.array(
                [now_ns - days * DAY_NS for days in ages_days.values()], pa.timestamp("ns", "UTC")
            ),
            "utilization_ratio": pa.array([1.0] * 3).cast(pa.decimal128(9, 4)),
        }
    )
    for table in ("gpu_samples_feed", "gpu_samples"):
        client.insert(table, rows, "rows")
    apply_retention(store, DEFAULT_RETENTION)
    for table in ("gpu_samples", "gpu_samples_10s", "gpu_samples_60s"):
        client.command(f"ALTER TABLE {table} MODIFY SETTING merge_with_ttl_timeout = 0")
        client.command(f"OPTIMIZE TABLE {table} FINAL")

    def list_hosts(table: str) -> Sequence[object]:
        answer = client.query(f"SELECT DISTINCT host FROM {table} ORDER BY host")
        return answer.column(0).to_pylist()

    assert list_hosts("gpu_samples") == ["young"]
    assert list_hosts("gpu_samples_10s") == ["old", "young"]
    assert list_hosts("gpu_samples_60s") == ["old", "older", "young"]


def test_it_is_applied_once_and_follows_the_configuration(store: Store, client: Client):
    assert len(apply_retention(store, DEFAULT_RETENTION)) == 2 * len(DEFAULT_RETENTION)
    assert apply_retention(store, DEFAULT_RETENTION) == []
    changed = choose_retention(
        [("gpu_samples", 3 * DAY_S), ("otel_traces", None), ("steps", 9 * DAY_S)]
    )
    assert len(apply_retention(store, changed)) == 4
    now = read_retention(client, store.config)
    assert {table: keep_s for table, keep_s in now.items() if keep_s is not None} == changed
    assert now["otel_traces"] is None
    assert apply_retention(store, changed) == []


def test_rows_that_go_because_they_are_kept_for_less_time_are_told(
    store: Store, client: Client, caplog: pytest.LogCaptureFixture
):
    now = time.time_ns()
    moments = pa.array([now - 3 * DAY_NS, now], pa.timestamp("ns", "UTC"))
    rows = pa.table({"Timestamp": moments, "TraceId": ["a", "b"]})
    apply_retention(store, choose_retention([("otel_traces", None)]))
    client.insert("otel_traces", rows, "rows")
    # Nobody is told of a longer time, or of rows that are young enough.
    apply_retention(store, DEFAULT_RETENTION)
    assert caplog.messages == []
    apply_retention(store, choose_retention([("otel_traces", 2 * DAY_S)]))
    (told,) = caplog.messages
    assert told == (
        "otel_traces keeps its rows for 2 d now, for 30 d before (--retention): what is older"
        " goes, 1 of its rows"
    )


def test_a_table_that_does_not_exist_is_refused():
    with pytest.raises(ConfigError, match="gpu_sample'"):
        choose_retention([("gpu_sample", DAY_S)])


def test_on_a_cluster_the_rows_own_tables_are_altered(client: Client):
    config = StoreConfig(url="http://host", cluster="main")
    for statement in plan_retention(config, {"steps": None, "gpu_samples": 5}, {"steps": DAY_S}):
        assert statement.startswith("ALTER TABLE longpole_local.")
        assert " ON CLUSTER 'main' " in statement
        client.query_bytes(f"EXPLAIN AST {statement}")
