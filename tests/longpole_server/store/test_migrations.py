import re
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import pytest

from longpole_server.errors import StoreError
from longpole_server.model.records import Records
from longpole_server.store.client import (
    WRITE_SETTINGS,
    Client,
    StoreConfig,
    connect,
    create_database,
)
from longpole_server.store.known_samples import KnownSamples
from longpole_server.store.migrations import (
    ONE_NODE,
    Dialect,
    Migration,
    apply_pending,
    list_pending,
    load_migrations,
)
from longpole_server.store.tables import TABLES
from longpole_server.store.writer import Writer
from support.store_records import SECOND_NS, make_batch

CLUSTER = Dialect(
    replicated="Replicated",
    on_cluster="ON CLUSTER 'longpole'",
    deduplication_window="replicated_deduplication_window",
)


@pytest.fixture
def client(tmp_path: Path) -> Generator[Client]:
    config = StoreConfig(directory=tmp_path)
    create_database(config)
    client = connect(config, WRITE_SETTINGS)
    yield client
    client.close()


def list_tables(client: Client) -> set[str]:
    answer = client.query("SELECT name FROM system.tables WHERE database = 'longpole'")
    return {str(name) for name in answer["name"].to_pylist()}


def test_numbers_run_from_one_without_gaps() -> None:
    assert [each.number for each in load_migrations()] == list(range(1, len(load_migrations()) + 1))


def test_an_empty_store_gets_all_and_a_current_one_nothing(client: Client) -> None:
    assert list_pending(client) == load_migrations()
    assert apply_pending(client) == load_migrations()
    tables = list_tables(client)
    assert {"otel_traces", "steps", "gpu_samples", "gpu_samples_10s"} <= tables
    assert list_pending(client) == ()
    assert apply_pending(client) == ()
    assert list_tables(client) == tables


def test_each_can_follow_data_written_before_it(client: Client) -> None:
    known = load_migrations()
    apply_pending(client, known[:-1])
    # A table that the last one leaves as it is: today's writer knows its columns.
    Writer(client).write(Records(trajectories=make_batch(0).trajectories), "batch")
    assert apply_pending(client, known) == known[-1:]
    assert client.query("SELECT count() AS num FROM trajectories").to_pylist() == [{"num": 8}]


def test_one_that_a_crash_interrupted_is_completed(client: Client) -> None:
    first = load_migrations()[1]
    list_pending(client)
    client.command(first.render_statements(ONE_NODE)[0])
    assert apply_pending(client) == load_migrations()


def test_every_statement_can_be_repeated(client: Client) -> None:
    for _ in range(2):
        for migration in load_migrations():
            for statement in migration.render_statements(ONE_NODE):
                client.command(statement)


def test_a_newer_store_is_refused(client: Client) -> None:
    newer = Migration(9999, "from_the_future", "SELECT 1;")
    apply_pending(client, (*load_migrations(), newer))
    with pytest.raises(StoreError, match=r"newer Longpole.*9999_from_the_future") as raised:
        list_pending(client)
    assert "Upgrade" in raised.value.hint


def test_an_edited_one_is_refused(client: Client) -> None:
    apply_pending(client)
    first, *rest = load_migrations()
    edited = Migration(first.number, first.name, first.sql + "\n-- edited\n")
    with pytest.raises(StoreError, match="0001_traces differs"):
        apply_pending(client, (edited, *rest))


@pytest.mark.parametrize("migration", load_migrations(), ids=lambda each: each.name)
def test_a_cluster_gets_replicated_tables(migration: Migration) -> None:
    for statement in migration.render_statements(CLUSTER):
        assert "$" not in statement
        assert "ON CLUSTER 'longpole'" in statement
        for engine in re.findall(r"ENGINE = (\w+)", statement):
            # A table that keeps nothing has nothing to replicate.
            if engine == "Null":
                continue
            assert engine.startswith("Replicated")
            assert "replicated_deduplication_window = " in statement
            assert "non_replicated" not in statement


def test_an_unknown_variable_is_an_error() -> None:
    with pytest.raises(KeyError):
        Migration(1, "bad", "SELECT $unknown;").render_statements(ONE_NODE)


def test_what_an_older_store_holds_is_kept_and_stored_once_from_now_on(client: Client) -> None:
    before = [each for each in load_migrations() if each.number < 14]
    apply_pending(client, before)
    batch = make_batch(0)
    for table in ("gpu_samples", "metric_points", "raw_spans"):
        rows = TABLES[table].make_rows(getattr(batch, table))
        # Sent twice under two ids, as the older one kept it.
        for token in ("first", "second"):
            client.insert(TABLES[table].name, rows, token)
    ahead = replace(batch.gpu_samples[0], ts_ns=4_000_000_000 * SECOND_NS, gpu_uuid="GPU-ahead")
    client.insert("gpu_samples", TABLES["gpu_samples"].make_rows([ahead]), "ahead")
    # A crash may come between a statement and the record of it: all of them twice.
    for migration in load_migrations()[len(before) :]:
        for statement in migration.render_statements(ONE_NODE):
            client.command(statement)
    apply_pending(client)
    assert count(client, "otel_traces FINAL") == 8
    assert count(client, "metric_series FINAL") == 8
    assert count(client, "gpu_samples") == 17
    assert count(client, "gpu_latest FINAL") == 9
    assert count(client, "gpu_latest FINAL WHERE ts_ns > now64(9)") == 0
    writer = Writer(client, KnownSamples(client))
    writer.write(Records(gpu_samples=batch.gpu_samples, raw_spans=batch.raw_spans), "third")
    assert count(client, "gpu_samples") == 17
    assert count(client, "otel_traces FINAL") == 8
    writer.write(make_batch(1), "new")
    assert count(client, "gpu_samples") == 25
    assert count(client, "metric_series FINAL") == 16
    counted = "(SELECT utilization_ratio_count AS n FROM gpu_samples_10s) ARRAY JOIN range(n)"
    assert count(client, counted) == 25


def count(client: Client, source: str) -> int:
    return int(client.query(f"SELECT toInt64(count()) FROM {source}").column(0)[0].as_py())
