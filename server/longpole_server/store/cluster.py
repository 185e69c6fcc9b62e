"""A cluster: the rows in one database on every node, and tables over them all in another.

The migrations make their tables, replicated, in `<database>_local`. In `<database>` each has a
`Distributed` table of the same name, so that every statement of the product is the same on one
node and on many.
"""
# pyarrow carries no complete types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from longpole_server.errors import StoreError
from longpole_server.store.client import Client, Setting
from longpole_server.store.location import StoreConfig
from longpole_server.store.migrations import ONE_NODE, Dialect

# A row is only replaced by its next version, and only rolled up with its neighbours, on the same
# shard: the first of these columns that a table has decides where a row goes.
_SHARDING_COLUMNS = (
    "message_id", "rule_id", "alert_id", "silence_id", "run_id", "host", "TraceId", "job_name",
    "number", "batch_id",
)  # fmt: skip

# An insert is acknowledged by the shards, not by a queue. Reads and writes go to the same replica
# of a shard as long as it lives, so that a step is derived from what was just written.
CLUSTER_SETTINGS: Mapping[str, Setting] = MappingProxyType(
    {
        "distributed_foreground_insert": 1,
        "distributed_product_mode": "global",
        "load_balancing": "in_order",
        "prefer_localhost_replica": 0,
    }
)
# Without a server there is no other replica, and no port to reach one at.
_EMBEDDED_CLUSTER_SETTINGS: Mapping[str, Setting] = MappingProxyType(
    {"distributed_foreground_insert": 1, "distributed_product_mode": "global"}
)


@dataclass(frozen=True, slots=True)
class LocalTable:
    """A table that holds rows, or feeds those that do, with its columns."""

    name: str
    columns: tuple[str, ...]


def choose_dialect(config: StoreConfig) -> Dialect:
    """Return how the migrations are written for a place."""
    if config.cluster is None or config.url is None:
        return ONE_NODE
    # Every node of every shard keeps the record of what was applied.
    path = f"/clickhouse/tables/{config.tables_database}/schema_migrations"
    return Dialect(
        replicated="Replicated",
        on_cluster=f"ON CLUSTER '{config.cluster}'",
        deduplication_window="replicated_deduplication_window",
        record_engine=f"ReplicatedReplacingMergeTree('{path}', '{{shard}}-{{replica}}')",
    )


def choose_settings(config: StoreConfig) -> Mapping[str, Setting]:
    """Return what every connection to a place sets."""
    if config.cluster is None:
        return {}
    return CLUSTER_SETTINGS if config.url is not None else _EMBEDDED_CLUSTER_SETTINGS


def render_database(name: str, dialect: Dialect) -> str:
    """Return the statement that makes a database where it is missing."""
    return f"CREATE DATABASE IF NOT EXISTS {name} {dialect.on_cluster} ENGINE = Atomic"


def render_distributed(config: StoreConfig, table: LocalTable, dialect: Dialect) -> str:
    """Return the statement that makes, or makes anew, the table over all nodes.

    It holds no rows itself, so that making it anew when a migration added columns loses nothing.

    Raises:
        StoreError: No column of the table can tell which shard a row belongs to.
    """
    key = next((name for name in _SHARDING_COLUMNS if name in table.columns), None)
    if key is None:
        raise StoreError(f"The table {table.name} has no column by which to spread its rows.")
    rows = config.tables_database
    return (
        f"CREATE OR REPLACE TABLE {config.database}.{table.name} {dialect.on_cluster}"
        f" AS {rows}.{table.name} ENGINE ="
        f" Distributed('{config.cluster}', '{rows}', '{table.name}', cityHash64({key}))"
    )


def list_tables(client: Client, database: str) -> list[LocalTable]:
    """Return the tables of a database that hold rows, or feed those that do.

    Raises:
        StoreError: The database failed.
    """
    answer = client.query(
        "SELECT table, groupArray(name) AS columns FROM system.columns"
        " WHERE database = {database:String} AND table IN (SELECT name FROM system.tables"
        " WHERE database = {database:String}"
        " AND (engine LIKE '%MergeTree' OR engine = 'Null'))"
        " GROUP BY table ORDER BY table",
        {"database": database},
    )
    return [
        LocalTable(str(row["table"]), tuple(map(str, row["columns"]))) for row in answer.to_pylist()
    ]


def distribute(client: Client, config: StoreConfig, dialect: Dialect, renew: bool) -> None:
    """Make the tables over all nodes.

    Args:
        client: May change the schema.
        config: Of a cluster.
        dialect: How statements are written for it.
        renew: Whether tables that exist are made anew, since columns may have been added.

    Raises:
        StoreError: The database refused or failed; the same call again completes it.
    """
    existing = _list_names(client, config.database)
    for table in list_tables(client, config.tables_database):
        if renew or table.name not in existing:
            client.command(render_distributed(config, table, dialect))


def check_macros(client: Client) -> None:
    """Make sure that the nodes know which shard and which replica they are.

    Raises:
        StoreError: They do not, so that no replicated table can be made.
    """
    names = {str(name) for name in _column(client, "SELECT macro FROM system.macros")}
    missing = {"shard", "replica"} - names
    if missing:
        raise StoreError(
            f"ClickHouse has no macro {' and no macro '.join(sorted(missing))}.",
            hint="Define <macros><shard>..</shard><replica>..</replica></macros> on every node.",
        )


def _list_names(client: Client, database: str) -> set[str]:
    answer = client.query(
        "SELECT name FROM system.tables WHERE database = {database:String}", {"database": database}
    )
    return {str(name) for name in answer.column(0).to_pylist()}


def _column(client: Client, sql: str) -> Iterable[object]:
    return client.query(sql).column(0).to_pylist()
