"""A cluster: every statement as one, and the tables over all nodes on the real engine.

The engine in this process takes itself for a cluster of one node; what it cannot do without a
server, replication and statements for all nodes, is checked by its parser only.
"""

from collections.abc import Generator

import pytest

from longpole_server.errors import StoreError
from longpole_server.store import Client, Store, StoreConfig, open_store
from longpole_server.store.client import WRITE_SETTINGS, Connector
from longpole_server.store.cluster import (
    CLUSTER_SETTINGS,
    LocalTable,
    check_macros,
    choose_dialect,
    choose_settings,
    list_tables,
    render_database,
    render_distributed,
)
from longpole_server.store.migrations import load_migrations, render_record_table
from longpole_server.store.stored_batches import StoredBatches
from longpole_server.store.term import WriterTerm
from support.cluster_of_one import make_cluster_of_one
from support.store_records import make_batch

CLUSTER = StoreConfig(url="https://host:8443", cluster="main")


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> StoreConfig:
    return make_cluster_of_one(tmp_path_factory.mktemp("cluster"))


@pytest.fixture(scope="module")
def store(config: StoreConfig) -> Generator[Store]:
    store = open_store(config)
    yield store
    store.close()


@pytest.fixture(scope="module")
def client(store: Store) -> Generator[Client]:
    client = store.new_limited_client(WRITE_SETTINGS)
    yield client
    client.close()


def count(client: Client, sql: str) -> int:
    return int(client.query(sql).column(0)[0].as_py())


def list_statements() -> list[str]:
    """All statements that a new cluster gets before its tables over all nodes."""
    dialect = choose_dialect(CLUSTER)
    return [
        render_database(CLUSTER.tables_database, dialect),
        render_database(CLUSTER.database, dialect),
        render_record_table(dialect),
        *(
            statement
            for migration in load_migrations()
            for statement in migration.render_statements(dialect)
        ),
    ]


@pytest.mark.parametrize(
    "statement", list_statements(), ids=lambda text: " ".join(text.split()[:6])
)
def test_the_engine_can_parse_what_a_cluster_gets(client: Client, statement: str):
    assert "ON CLUSTER 'main'" in statement
    tree = client.query_bytes(f"EXPLAIN AST {statement}").decode()
    if "ENGINE" in statement and "TABLE" in statement and "ENGINE = Null" not in statement:
        assert "Function Replicated" in tree or "ReplicatedReplacingMergeTree" in tree


def test_the_engine_can_parse_the_tables_over_all_nodes(client: Client, config: StoreConfig):
    tables = list_tables(client, config.tables_database)
    assert len(tables) > 20
    for table in tables:
        statement = render_distributed(CLUSTER, table, choose_dialect(CLUSTER))
        assert f"CREATE OR REPLACE TABLE longpole.{table.name} ON CLUSTER 'main'" in statement
        tree = client.query_bytes(f"EXPLAIN AST {statement}").decode()
        assert "Function Distributed" in tree


def test_a_table_without_a_column_to_spread_by_is_a_defect():
    with pytest.raises(StoreError, match="spread"):
        render_distributed(CLUSTER, LocalTable("odd", ("a", "b")), choose_dialect(CLUSTER))


def test_settings_of_a_cluster_are_settings_of_the_engine(client: Client):
    answer = client.query(
        "SELECT count() AS num FROM system.settings WHERE name IN {names:Array(String)}",
        {"names": list(CLUSTER_SETTINGS)},
    )
    assert answer.to_pylist() == [{"num": len(CLUSTER_SETTINGS)}]
    assert choose_settings(CLUSTER) == CLUSTER_SETTINGS
    assert choose_settings(StoreConfig(url="http://host")) == {}


def test_nodes_must_know_who_they_are(client: Client):
    check_macros(client)


def test_tokens_count_through_the_tables_over_all_nodes(store: Store, client: Client):
    before = count(client, "SELECT count() FROM gpu_samples")
    for token in ("a", "b", "a"):
        number = {"a": 100, "b": 101}[token]
        store.writer.write(make_batch(number), token)
    assert count(client, "SELECT count() FROM gpu_samples") == before + 16
    rolled = "SELECT sum(utilization_ratio_count) FROM gpu_samples_10s WHERE host = 'node-0'"
    assert count(client, rolled) == count(
        client, "SELECT count() FROM gpu_samples WHERE host = 'node-0'"
    )


def test_one_server_writes_into_a_cluster_too(store: Store):
    first, second = (
        WriterTerm(store.new_limited_client(WRITE_SETTINGS), name, lambda: None)
        for name in ("first", "second")
    )
    # Both saw that nobody has the right: the token decides.
    second._find_newest = lambda: None  # type: ignore[method-assign]
    assert (first.try_take(), second.try_take()) == (True, False)
    first.renew()
    assert first.is_held
    second.close()
    first.close()
    batches = StoredBatches(store.new_limited_client(WRITE_SETTINGS))
    assert batches.claim(["a", "b"], "first/1-2") == set()
    assert batches.claim(["b", "c"], "second/1-2") == {"b"}
    assert batches.claim(["a", "b"], "first/1-2") == set()
    batches.close()


def test_columns_that_a_migration_adds_reach_the_tables_over_all_nodes(
    config: StoreConfig, client: Client
):
    assert "pod_uid" in client.query("SELECT * FROM processes LIMIT 0").column_names
    other = Connector(config).connect({})
    assert count(other, "SELECT count() FROM schema_migrations") == len(load_migrations())
    other.close()
