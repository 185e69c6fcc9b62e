"""How long rows are kept: a TTL on each table that grows with time rather than with runs.

What a run is and what it was waiting for stays: steps, stages, metrics, samples, alerts. Raw GPU
samples go first, their rollups later.
"""
# pyarrow carries no complete types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import logging
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from longpole_server.errors import ConfigError
from longpole_server.store.client import Client
from longpole_server.store.cluster import choose_dialect
from longpole_server.store.location import StoreConfig
from longpole_server.store.store import Store
from longpole_server.store.times import TIME_COLUMNS

_log = logging.getLogger(__name__)
_DAY_S = 86_400
# Seconds by table; what is not named stays.
DEFAULT_RETENTION: Mapping[str, int] = MappingProxyType(
    {
        "gpu_samples": 14 * _DAY_S,
        "gpu_processes": 14 * _DAY_S,
        "gpu_allocations": 30 * _DAY_S,
        "host_processes": 30 * _DAY_S,
        "otel_traces": 30 * _DAY_S,
        "stage_starts": 30 * _DAY_S,
        "stored_batches": 30 * _DAY_S,
        "host_samples": 90 * _DAY_S,
        "engine_samples": 90 * _DAY_S,
        "gpu_samples_10s": 90 * _DAY_S,
        "gpu_samples_60s": 730 * _DAY_S,
    }
)
_TTL = re.compile(r"\bTTL toDateTime\((?P<column>\w+)\) \+ toIntervalSecond\((?P<keep_s>\d+)\)")


def choose_retention(changes: Sequence[tuple[str, int | None]]) -> Mapping[str, int]:
    """Return seconds by table: the defaults and what differs from them, None for ever.

    Raises:
        ConfigError: There is no such table, or it has no time.
    """
    chosen = dict(DEFAULT_RETENTION)
    for table, keep_s in changes:
        if table not in TIME_COLUMNS:
            raise ConfigError(
                f"--retention names {table!r}, which is no table with a time.",
                hint=f"Tables: {', '.join(sorted(TIME_COLUMNS))}.",
            )
        chosen.pop(table, None)
        if keep_s is not None:
            chosen[table] = keep_s
    return chosen


def apply_retention(store: Store, retention: Mapping[str, int]) -> Sequence[str]:
    """Make the tables keep their rows that long, and return the statements that this took.

    Only what differs is changed, and nothing is rewritten for it: parts are dropped, a day or a
    month at a time, once all their rows are old enough.

    Raises:
        StoreError: The database refused or failed; the same call again completes it.
    """
    client = store.new_schema_client()
    try:
        current = read_retention(client, store.config)
        statements = plan_retention(store.config, current, retention)
        for text in _list_what_goes(client, store.config, current, retention):
            _log.warning("%s", text)
        for statement in statements:
            client.command(statement)
        return statements
    finally:
        client.close()


def _list_what_goes(
    client: Client,
    config: StoreConfig,
    current: Mapping[str, int | None],
    wanted: Mapping[str, int],
) -> Sequence[str]:
    """Say which rows a shorter time takes away: a forgotten option is seen while a backup helps."""
    found: list[str] = []
    for table, keep_s in sorted(wanted.items()):
        current_s = current.get(table)
        if table not in current or (current_s is not None and current_s <= keep_s):
            continue
        # The names are those of this program.
        answer = client.query(
            f"SELECT count() FROM {config.tables_database}.{table}"  # noqa: S608
            f" WHERE toDateTime({TIME_COLUMNS[table]}) + toIntervalSecond({int(keep_s)}) < now()"
        )
        num_rows = int(answer.column(0)[0].as_py())
        if num_rows:
            found.append(
                f"{table} keeps its rows {_describe(keep_s)} now, {_describe(current_s)} before"
                f" (--retention): what is older goes, {num_rows:,} of its rows"
            )
    return found


def _describe(keep_s: int | None) -> str:
    if keep_s is None:
        return "for ever"
    days, rest_s = divmod(keep_s, _DAY_S)
    return f"for {keep_s // 3_600} h" if rest_s else f"for {days} d"


def read_retention(client: Client, config: StoreConfig) -> Mapping[str, int | None]:
    """Return the seconds that each table keeps its rows now, None for ever."""
    answer = client.query(
        "SELECT name, create_table_query AS sql FROM system.tables"
        " WHERE database = {database:String} AND engine LIKE '%MergeTree'",
        {"database": config.tables_database},
    )
    found: dict[str, int | None] = {}
    for row in answer.to_pylist():
        match = _TTL.search(str(row["sql"]))
        found[str(row["name"])] = int(match["keep_s"]) if match is not None else None
    return found


def plan_retention(
    config: StoreConfig, current: Mapping[str, int | None], wanted: Mapping[str, int]
) -> Sequence[str]:
    """Return the statements that lead from one retention to another.

    Args:
        config: Where the store is.
        current: Seconds by table, of all tables.
        wanted: Seconds by table; others keep their rows.
    """
    on_cluster = choose_dialect(config).on_cluster
    statements: list[str] = []
    for table, keep_s in sorted(current.items()):
        alter = f"ALTER TABLE {config.tables_database}.{table} {on_cluster}".rstrip()
        new_s = wanted.get(table)
        if new_s == keep_s:
            continue
        if new_s is None:
            statements.append(f"{alter} REMOVE TTL")
            continue
        if keep_s is None:
            statements.append(
                f"{alter} MODIFY SETTING ttl_only_drop_parts = 1,"
                " materialize_ttl_recalculate_only = 1"
            )
        column = TIME_COLUMNS[table]
        statements.append(
            f"{alter} MODIFY TTL toDateTime({column}) + toIntervalSecond({int(new_s)})"
        )
    return statements
