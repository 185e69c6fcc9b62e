"""Rows of an exported run on their way in: checked, given their run, and stored once."""
# pyarrow carries no complete types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import hashlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from longpole_server.errors import BadRequestError
from longpole_server.store.client import WRITE_SETTINGS, Client
from longpole_server.store.columns import TEXT_MAP
from longpole_server.store.foreign_parquet import read_foreign
from longpole_server.store.known_samples import SAMPLE_TABLES, KnownSamples
from longpole_server.store.location import StoreConfig
from longpole_server.store.retention import read_retention
from longpole_server.store.store import Store
from longpole_server.store.times import TIME_COLUMNS
from longpole_server.store.writer import insert_samples

_RUN_ATTRIBUTE = "rl.run.id"
_MINUTE_NS = 60 * 10**9
# How spans are told apart: those that are there are left out, so that what is new can be counted.
_SPAN_IDENTITY = ("TraceId", "SpanId", "Timestamp")


class Arrivals:
    """Stores rows of exported runs over a connection of its own. Thread-safe.

    Args:
        client: May write; closed with this.
        config: Where the store is.
        clock_ns: UTC nanoseconds.
    """

    def __init__(
        self, client: Client, config: StoreConfig, clock_ns: Callable[[], int] = time.time_ns
    ) -> None:
        self._client = client
        self._config = config
        self._clock_ns = clock_ns
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
        rows = read_foreign(file)
        with self._lock:
            rows = self._fit(table, rows)
            rows = _assign(rows, run_id)
            rows = self._drop_known(table, rows)
            token = f"arrival/{run_id}/{table}/{_hash(file)}/{rows.num_rows}"
            num_before = self._count(table, run_id)
            insert_samples(self._client, table, rows, token)
            if num_before is None:
                return rows.num_rows
            num_after = self._count(table, run_id) or 0
        return max(0, min(rows.num_rows, num_after - num_before))

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

    def _count(self, table: str, run_id: str) -> int | None:
        """Return the rows of a run in a table that replaces by identity, None for the others.

        What such a table has already is inserted again: of two versions the later one is valid.
        """
        if table in SAMPLE_TABLES or table == "otel_traces":
            return None
        sql = f"SELECT count() FROM {table} FINAL WHERE run_id = {{run_id:String}}"  # noqa: S608 - a known name
        return int(self._client.query(sql, {"run_id": run_id}).column(0)[0].as_py())

    def _drop_known(self, table: str, rows: pa.Table) -> pa.Table:
        if table == "gpu_samples":
            rows = self._drop_rolled_up(rows)
        if table in SAMPLE_TABLES:
            return KnownSamples(self._client, in_order=False).leave_out(table, rows)
        return self._drop_known_spans(rows) if table == "otel_traces" else rows

    def _drop_known_spans(self, rows: pa.Table) -> pa.Table:
        if not rows.num_rows:
            return rows
        first, last = _find_span(rows, TIME_COLUMNS["otel_traces"])
        known = self._client.query(
            f"SELECT {', '.join(_SPAN_IDENTITY)} FROM otel_traces"  # noqa: S608 - known names
            " WHERE Timestamp >= fromUnixTimestamp64Nano({first:Int64}, 'UTC')"
            " AND Timestamp <= fromUnixTimestamp64Nano({last:Int64}, 'UTC')",
            {"first": first, "last": last},
        )
        seen = _identify(known, _SPAN_IDENTITY)
        fresh = pc.invert(pc.is_in(_identify(rows, _SPAN_IDENTITY), value_set=seen))
        return rows.filter(fresh)

    def _drop_rolled_up(self, rows: pa.Table) -> pa.Table:
        """Leave out samples too old to be kept whose minutes the rollup has: they were counted."""
        keep_s = read_retention(self._client, self._config).get("gpu_samples")
        if keep_s is None or not rows.num_rows:
            return rows
        limit_ns = self._clock_ns() - keep_s * 10**9
        first, last = _find_span(rows, "ts_ns")
        if first >= limit_ns:
            return rows
        rolled = self._client.query(
            "SELECT DISTINCT gpu_uuid, intDiv(toUnixTimestamp64Nano(ts_ns), {minute:Int64}) AS at"
            " FROM gpu_samples_60s"
            " WHERE ts_ns >= fromUnixTimestamp64Nano({first:Int64}, 'UTC')"
            " AND ts_ns <= fromUnixTimestamp64Nano({last:Int64}, 'UTC')",
            {
                "minute": _MINUTE_NS,
                "first": first - _MINUTE_NS,
                "last": min(last, limit_ns),
            },
        )
        counted = set(
            zip(rolled.column("gpu_uuid").to_pylist(), rolled.column("at").to_pylist(), strict=True)
        )
        times: list[Any] = rows["ts_ns"].cast(pa.int64()).to_pylist()
        keep = [
            ts_ns >= limit_ns or (gpu, ts_ns // _MINUTE_NS) not in counted
            for gpu, ts_ns in zip(rows["gpu_uuid"].to_pylist(), times, strict=True)
        ]
        return rows.filter(pa.array(keep, pa.bool_()))


def open_arrivals(store: Store) -> Arrivals:
    """Return what takes rows for a store; its owner closes it before the store."""
    return Arrivals(store.new_limited_client(WRITE_SETTINGS), store.config)


def _find_span(rows: pa.Table, column: str) -> tuple[int, int]:
    times_ns = [value or 0 for value in rows[column].cast(pa.int64()).to_pylist()]
    return min(times_ns), max(times_ns)


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
