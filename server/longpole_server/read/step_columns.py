"""All steps of a run as columns: the database takes the ledgers apart, not Python."""
# pyarrow carries no complete types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from longpole_server.analysis.step_table import (
    NUMBERS,
    Column,
    Flags,
    Numbers,
    Rows,
    StepColumns,
    make_objects,
)
from longpole_server.model.step import Note
from longpole_server.read.pool import ClientPool, make_rows

_Arrow: TypeAlias = "pa.Array[Any] | pa.ChunkedArray[Any]"

_NUMBERS = ", ".join(f"toFloat64({name}) AS {name}" for name in NUMBERS)
_SCALAR = "scalar"
_COLUMNS = f"""
SELECT attempt, step, version, start_ns, ifNull(end_ns, toDateTime64(0, 9, 'UTC')) AS end_ns,
    closed_by, verdict, confidence, {_NUMBERS},
    JSONExtract(
        stages,
        'Array(Tuple(stage String, exclusive_s Float64, inclusive_s Float64, source String))'
    ) AS stages,
    JSONExtract(outside, 'Array(Tuple(stage String, duration_s Float64))') AS outside,
    notes
FROM steps FINAL
WHERE run_id = {{run_id:String}} AND version > {{after:UInt64}}
ORDER BY attempt, step
"""  # noqa: S608 - names of columns
_STATE = """
SELECT count(), sum(version), max(version) FROM steps FINAL WHERE run_id = {run_id:String}
"""


@dataclass(frozen=True, slots=True)
class StepsState:
    """What tells whether the steps of a run are still those that were read.

    Attributes:
        checksum: Sum of their versions, modulo 2^64.
        newest: Highest version.
    """

    count: int
    checksum: int
    newest: int


@dataclass(frozen=True, slots=True)
class VersionedColumns:
    """Steps of every attempt, by attempt and step, each with the version that it was written as."""

    columns: StepColumns
    versions: "np.ndarray[tuple[int], np.dtype[np.uint64]]"


def get_state(pool: ClientPool, run_id: str) -> StepsState:
    """Return the state of a run's steps."""
    ((count, checksum, newest),) = make_rows(pool.query(_STATE, {"run_id": run_id}))
    return StepsState(count, checksum, newest)


def list_columns(pool: ClientPool, run_id: str, after: int = 0) -> VersionedColumns:
    """Return the steps of a run, of all attempts, that were written after a version."""
    rows = pool.query(_COLUMNS, {"run_id": run_id, "after": after})
    exclusive_s: dict[str, Column] = {}
    inclusive_s: dict[str, Column] = {}
    is_scalar: dict[str, Any] = {}
    count = rows.num_rows
    owners, parts = _flatten(rows["stages"])
    for name, chosen in _by_name(parts, "stage"):
        at = owners[chosen]
        exclusive_s[name] = _spread(count, at, _floats(parts["exclusive_s"])[chosen])
        inclusive_s[name] = _spread(count, at, _floats(parts["inclusive_s"])[chosen])
        is_scalar[name] = np.zeros(count, dtype=np.bool_)
        is_scalar[name][at] = _equals(parts["source"], _SCALAR)[chosen]
    outside_s: dict[str, Column] = {}
    owners, parts = _flatten(rows["outside"])
    for name, chosen in _by_name(parts, "stage"):
        at, seconds = owners[chosen], _floats(parts["duration_s"])[chosen]
        sums = np.bincount(at, seconds, count)
        outside_s[name] = np.where(np.bincount(at, minlength=count) > 0, sums, np.nan)
    columns = StepColumns(
        run_id,
        _integers(rows["step"]),
        _integers(rows["attempt"]),
        _integers(rows["start_ns"]),
        _integers(rows["end_ns"]),
        {name: _floats(rows[name]) for name in NUMBERS},
        exclusive_s,
        inclusive_s,
        is_scalar,
        outside_s,
        make_objects(rows["closed_by"].to_pylist()),
        make_objects([verdict or None for verdict in rows["verdict"].to_pylist()]),
        make_objects(rows["confidence"].to_pylist()),
        make_objects([_read_notes(notes or "[]") for notes in rows["notes"].to_pylist()]),
    )
    return VersionedColumns(columns, rows["version"].to_numpy())


def _flatten(column: "pa.ChunkedArray[Any]") -> tuple[Any, dict[str, Any]]:
    """Return the row of every item of lists of structs, and the items' fields."""
    lists: Any = column.combine_chunks()
    if isinstance(lists, pa.ChunkedArray):
        lists = pa.concat_arrays(lists.chunks) if lists.num_chunks else pa.array([], lists.type)
    items = lists.flatten()
    owners = pc.list_parent_indices(lists).to_numpy()
    return owners, {field.name: items.field(field.name) for field in items.type}


def _by_name(parts: dict[str, Any], name: str) -> list[tuple[str, Any]]:
    """Return the items of each name, by the name that comes first."""
    encoded = parts[name].dictionary_encode()
    places = encoded.indices.to_numpy()
    return [
        (word, np.flatnonzero(places == place))
        for place, word in enumerate(encoded.dictionary.to_pylist())
    ]


def _spread(count: int, rows: Rows, values: Column) -> Column:
    column = np.full(count, np.nan)
    column[rows] = values
    return column


def _floats(column: _Arrow) -> Column:
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    # None becomes NaN.
    return np.array(whole.to_numpy(zero_copy_only=False), dtype=np.float64)


def _integers(column: "_Arrow") -> Numbers:
    return column.cast(pa.int64()).to_numpy().astype(np.int64, copy=False)


def _equals(column: _Arrow, word: str) -> Flags:
    return np.array([value == word for value in column.to_pylist()], dtype=np.bool_)


def _read_notes(text: str) -> tuple[Note, ...]:
    return () if text == "[]" else tuple(Note(**note) for note in orjson.loads(text))
