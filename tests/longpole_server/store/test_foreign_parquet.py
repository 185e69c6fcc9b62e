# pyarrow carries no complete types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportMissingTypeArgument=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from longpole_server.errors import BadRequestError
from longpole_server.store.foreign_parquet import read_foreign

NUM_ROWS = 1_000
# All rows together would take 20 GiB.
LONG = "x" * (20 << 20)


def write(file: Path, array: pa.Array) -> Path:
    pq.write_table(
        pa.table({"column": array}),
        file,
        compression="zstd",
        store_schema=False,
        dictionary_pagesize_limit=64 << 20,
    )
    return file


def repeat(text: str, times: int = NUM_ROWS) -> pa.Array:
    indices = pa.array([0] * times, pa.int32())
    return pa.DictionaryArray.from_arrays(indices, pa.array([text]))


def test_a_small_file_that_unfolds_to_gigabytes_is_refused(tmp_path: Path):
    file = write(tmp_path / "bomb.parquet", repeat(LONG))
    assert file.stat().st_size < 4_096
    before = pa.total_allocated_bytes()
    with pytest.raises(BadRequestError, match="unfolds to more than 4 GiB"):
        read_foreign(file)
    assert pa.total_allocated_bytes() - before < 256 << 20


def test_what_hides_in_lists_and_maps_is_found(tmp_path: Path):
    offsets: Any = pa.array(range(NUM_ROWS + 1), pa.int32())
    for number, array in enumerate(
        (
            pa.ListArray.from_arrays(offsets, repeat(LONG)),
            pa.MapArray.from_arrays(offsets, repeat("k").cast(pa.string()), repeat(LONG)),
            pa.StructArray.from_arrays([repeat(LONG)], ["inner"]),
        )
    ):
        file = write(tmp_path / f"{number}.parquet", array)
        with pytest.raises(BadRequestError, match="unfolds"):
            read_foreign(file)


def test_usual_files_are_read_as_they_are(tmp_path: Path):
    texts = pa.array(["a", None, "b"] * 100)
    maps = pa.array([[("k", "v")], [], None] * 100, pa.map_(pa.string(), pa.string()))
    table = pa.table({"texts": texts, "maps": maps, "numbers": pa.array(range(300))})
    pq.write_table(table, tmp_path / "usual.parquet")
    assert read_foreign(tmp_path / "usual.parquet").equals(table)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + b"\x00" * 64 + b"PAR1"], ids=range(3))
def test_what_is_no_such_file_is_refused(content: bytes, tmp_path: Path):
    file = tmp_path / "x.parquet"
    file.write_bytes(content)
    with pytest.raises(BadRequestError, match="no Parquet file"):
        read_foreign(file)
