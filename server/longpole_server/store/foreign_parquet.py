# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Parquet files from elsewhere: read only when what they unfold to is bounded.

A text that stands once in a file may fill millions of rows: a kilobyte becomes terabytes. So a file
is looked through first in its folded form, which takes little, and then read.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from longpole_server.errors import BadRequestError

_MAX_ROWS = 5_000_000
# Of lists and maps in rows.
_MAX_VALUES = 100_000_000
_MAX_BYTES = 4 << 30
_ROWS_AT_ONCE = 65_536
_NUMBER_BYTES = 8


def read_foreign(file: Path) -> pa.Table:
    """Read a file whole.

    Raises:
        BadRequestError: It is no Parquet file, or holds more than is taken at once.
    """
    try:
        with pq.ParquetFile(file) as parquet:
            _check_claims(parquet.metadata)
            texts = [
                column.path
                for column in (parquet.schema.column(i) for i in range(len(parquet.schema)))
                if column.physical_type == "BYTE_ARRAY"
            ]
        with pq.ParquetFile(file, read_dictionary=texts) as folded:
            _check_size(folded)
        with pq.ParquetFile(file) as parquet:
            return parquet.read()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise BadRequestError(f"the body is no Parquet file: {error}") from error


def _check_claims(described: pq.FileMetaData) -> None:
    groups = [described.row_group(index) for index in range(described.num_row_groups)]
    num_values = sum(
        group.column(index).num_values for group in groups for index in range(group.num_columns)
    )
    size = sum(group.total_byte_size for group in groups)
    if described.num_rows > _MAX_ROWS or num_values > _MAX_VALUES or size > _MAX_BYTES:
        raise BadRequestError(f"the file holds more than {_MAX_ROWS:,} rows")


def _check_size(folded: pq.ParquetFile) -> None:
    size = 0
    for batch in folded.iter_batches(batch_size=_ROWS_AT_ONCE, use_threads=False):
        size += sum(_measure(column) for column in batch.columns)
        if size > _MAX_BYTES:
            raise BadRequestError(f"the file unfolds to more than {_MAX_BYTES >> 30} GiB")


def _measure(array: Any) -> int:  # noqa: ANN401 - every kind of array of a library without types
    """Return the bytes of an array once its texts stand where they are used."""
    if isinstance(array, pa.DictionaryArray):
        if not _is_text(array.type.value_type):
            return len(array) * _NUMBER_BYTES
        texts: Any = array.dictionary
        lengths = pc.binary_length(texts).cast(pa.int64())
        return int(pc.sum(lengths.take(array.indices)).as_py() or 0) + len(array) * _NUMBER_BYTES
    parts = list(_split(array))
    return sum(map(_measure, parts)) if parts else array.nbytes


def _is_text(kind: pa.DataType) -> bool:
    return any(
        test(kind)
        for test in (
            pa.types.is_string,
            pa.types.is_large_string,
            pa.types.is_binary,
            pa.types.is_large_binary,
        )
    )


def _split(array: Any) -> Iterator[Any]:  # noqa: ANN401 - as above
    if isinstance(array, pa.MapArray):
        yield from (array.keys, array.items)
    elif isinstance(array, pa.ListArray | pa.LargeListArray):
        yield array.values
    elif isinstance(array, pa.StructArray):
        yield from (array.field(index) for index in range(array.type.num_fields))
