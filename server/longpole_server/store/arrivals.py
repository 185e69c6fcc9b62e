"""Rows of an exported run on their way in: checked, given their run, and stored once."""
# pyarrow carries no complete types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import hashlib
import threading
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from longpole_server.errors import BadRequestError
from longpole_server.store.client import WRITE_SETTINGS, Client
from longpole_server.store.columns import TEXT_MAP
from longpole_server.store.store import Store
from longpole_server.store.times import TIME_COLUMNS

_MAX_ROWS = 5_000_000
_MAX_BYTES = 4 << 30
_RUN_ATTRIBUTE = "rl.run.id"
# Tables that do not replace rows: what is there already is left out.
_IDENTITIES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "gpu_samples": ("host", "gpu_uuid", "ts_ns"),
        "host_samples": ("host", "ts_ns"),
        "otel_traces": ("TraceId", "SpanId", "Timestamp"),
    }
)


class Arrivals:
    """Stores rows of exported runs over a connection of its own. Thread-safe.

    Args:
        client: May write; closed with this.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        # Between looking at what is there and adding to it nobody else may add.
        self._lock = threading.Lock()

    def store(self, table: str, file: Path, run_id: str) -> int:
        """Store the rows of a Parquet file as the run's, and return how many were new.

        Rows that are there already, from another try or because the run was made here, are not
        stored a second time.

        Args:
            table: One that an export has.
            file: As `read.run_rows.read_slice` made it.
            run_id: The run that the rows will belong to.

        Raises:
            BadRequestError: The file is no Parquet, or its columns are not the table's.
            StoreError: The database failed; the same call again completes it.
        """
        rows = _read(file)
        with self._lock:
            rows = self._fit(table, rows)
            rows = _assign(rows, run_id)
            if table in _IDENTITIES:
                rows = self._drop_known(table, rows)
            if rows.num_rows:
                token = f"arrival/{run_id}/{table}/{_hash(file)}/{rows.num_rows}"
                self._client.insert(table, rows, token)
        return rows.num_rows

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _fit(self, table: str, rows: pa.Table) -> pa.Table:
        """Return the rows in the table's own types. Columns it does not have are refused."""
        empty = self._client.query(f"SELECT * FROM {table} LIMIT 0")  # noqa: S608 - a known name
        unknown = set(rows.column_names) - set(empty.column_names)
        if unknown:
            raise BadRequestError(
                f"{table} has no column {', '.join(sorted(unknown))}",
                hint="the run was exported by a newer Longpole: upgrade this server",
            )
        schema = pa.schema([empty.schema.field(name) for name in rows.column_names])
        try:
            return rows.cast(schema)
        except (pa.ArrowException, ValueError) as error:
            raise BadRequestError(f"the rows are not those of {table}: {error}") from error

    def _drop_known(self, table: str, rows: pa.Table) -> pa.Table:
        time = TIME_COLUMNS[table]
        if not rows.num_rows:
            return rows
        times_ns = [value or 0 for value in rows[time].cast(pa.int64()).to_pylist()]
        identity = _IDENTITIES[table]
        known = self._client.query(
            f"SELECT {', '.join(identity)} FROM {table}"  # noqa: S608 - known names
            f" WHERE {time} >= fromUnixTimestamp64Nano({{first:Int64}}, 'UTC')"
            f" AND {time} <= fromUnixTimestamp64Nano({{last:Int64}}, 'UTC')",
            {"first": min(times_ns), "last": max(times_ns)},
        )
        seen = _identify(known, identity)
        fresh = pc.invert(pc.is_in(_identify(rows, identity), value_set=seen))
        return rows.filter(fresh)


def open_arrivals(store: Store) -> Arrivals:
    """Return what takes rows for a store; its owner closes it before the store."""
    return Arrivals(store.new_limited_client(WRITE_SETTINGS))


def _identify(rows: pa.Table, identity: tuple[str, ...]) -> "pa.ChunkedArray[Any]":
    parts = [
        rows[name].cast(pa.int64() if pa.types.is_timestamp(rows[name].type) else pa.string())
        for name in identity
    ]
    texts = [part.cast(pa.string()) for part in parts]
    # No identity holds this character: hosts, GPU ids, span ids and numbers.
    join: Any = pc.binary_join_element_wise
    joined: pa.ChunkedArray[Any] = join(*texts, "\x1f")
    return joined


def _read(file: Path) -> pa.Table:
    try:
        with pq.ParquetFile(file) as parquet:
            described = parquet.metadata
            size = sum(
                described.row_group(index).total_byte_size
                for index in range(described.num_row_groups)
            )
            if described.num_rows > _MAX_ROWS or size > _MAX_BYTES:
                raise BadRequestError(f"the file holds more than {_MAX_ROWS:,} rows")
            return parquet.read()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise BadRequestError(f"the body is no Parquet file: {error}") from error


def _assign(rows: pa.Table, run_id: str) -> pa.Table:
    if "run_id" in rows.column_names:
        index = rows.column_names.index("run_id")
        ids = pa.array([run_id] * rows.num_rows, rows.schema.field(index).type)
        return rows.set_column(index, "run_id", ids)
    if "ResourceAttributes" in rows.column_names:
        index = rows.column_names.index("ResourceAttributes")
        maps = [
            [(key, run_id if key == _RUN_ATTRIBUTE else value) for key, value in items or ()]
            for items in rows.column(index).to_pylist()
        ]
        return rows.set_column(index, "ResourceAttributes", pa.array(maps, TEXT_MAP))
    return rows


def _hash(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while chunk := stream.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()
