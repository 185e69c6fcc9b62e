"""Sizes of the tables."""

from dataclasses import dataclass

from longpole_server.read.pool import ClientPool, make_rows
from longpole_server.store.location import StoreConfig
from longpole_server.store.times import TIME_COLUMNS


@dataclass(frozen=True, slots=True)
class StoredTable:
    """What the database says of one table; times as in `model.storage.TableSize`."""

    name: str
    rows: int
    bytes_on_disk: int
    oldest_ns: int | None
    newest_ns: int | None


def list_stored_tables(pool: ClientPool, config: StoreConfig) -> list[StoredTable]:
    """Return all tables that hold rows, the largest first.

    Raises:
        StoreError: The database failed.
    """
    parts = (
        "system.parts" if config.cluster is None else f"cluster('{config.cluster}', system.parts)"
    )
    answer = pool.query(
        "SELECT table, sum(rows) AS num, sum(bytes_on_disk) AS bytes"  # noqa: S608 - our own names
        f" FROM {parts} WHERE active AND database = {{database:String}} GROUP BY table",
        {"database": config.tables_database},
    )
    sizes = {str(name): (int(num), int(size)) for name, num, size in make_rows(answer)}
    spans = _list_spans(pool, [name for name in sizes if name in TIME_COLUMNS])
    tables = [
        StoredTable(name, num, size, *spans.get(name, (None, None)))
        for name, (num, size) in sizes.items()
    ]
    return sorted(tables, key=lambda table: -table.bytes_on_disk)


def _list_spans(pool: ClientPool, names: list[str]) -> dict[str, tuple[int, int]]:
    if not names:
        return {}
    # The time is in the partition key of every table that grows, so this reads no column.
    selects = (
        f"SELECT '{name}' AS name,"  # noqa: S608 - our own names
        f" toInt64(toUnixTimestamp64Nano(min({TIME_COLUMNS[name]}))),"
        f" toInt64(toUnixTimestamp64Nano(max({TIME_COLUMNS[name]}))), count() AS num FROM {name}"
        for name in names
    )
    rows = make_rows(pool.query(" UNION ALL ".join(selects)))
    return {str(name): (int(oldest), int(newest)) for name, oldest, newest, num in rows if num}
