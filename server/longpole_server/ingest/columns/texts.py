"""Text columns from places in a buffer, without a Python string for each."""
# pyarrow carries no complete types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from longpole_server.ingest.columns.wire import Bytes, Flags, Ints, UnfitError

# An Arrow array; its stubs say too little to be of help.
Column: TypeAlias = Any
_MAX_TEXT_BYTES = (1 << 31) - 1
# The two digits of every byte.
_HEX: "NDArray[np.uint16]" = np.frombuffer(
    "".join(f"{byte:02x}" for byte in range(256)).encode(), np.dtype("=u2")
)


def make_texts(buffer: Bytes, starts: Ints, ends: Ints) -> Column:
    """Return the texts at these places; they must be UTF-8."""
    pieces, places = lay_texts(buffer, starts, ends)
    return pieces if places is None else take(pieces, places)


def lay_texts(buffer: Bytes, starts: Ints, ends: Ints) -> tuple[Column, Ints | None]:
    """Return texts that are cheap to make, and which of them lies at each of these places.

    Without the places each text is the one at its place.
    """
    present = ends > starts
    # Where there is nothing, the place after what came before serves as well.
    until = np.maximum.accumulate(np.where(present, ends, 0))
    begins = np.where(present, starts, until)
    if not len(begins) or len(buffer) > _MAX_TEXT_BYTES or (begins[1:] < until[:-1]).any():
        offsets, content = _gather(buffer, starts, ends)
        return _from_buffers(offsets, content), None
    # They lie one after another: every second one of the pieces into which they cut the buffer.
    cuts = np.empty(2 * len(begins), np.int64)
    cuts[0::2], cuts[1::2] = begins, until
    return _from_buffers(cuts, buffer), np.arange(0, len(cuts) - 1, 2)


def make_hex(buffer: Bytes, starts: Ints, ends: Ints) -> Column:
    """Return the bytes at these places in lower-case hexadecimal."""
    size = int(ends[0] - starts[0]) if len(starts) else 0
    if size and (ends - starts == size).all():
        offsets, content = _gather_alike(buffer, starts, size)
    else:
        offsets, content = _gather(buffer, starts, ends)
    return _from_buffers(offsets * 2, _HEX[content].view(np.uint8))


def pick(texts: Sequence[str | None], codes: Ints) -> Column:
    """Return the text of each code."""
    return take(pa.array(texts, pa.string()), codes)


def label(texts: Sequence[str], codes: Ints) -> Column:
    """Return the text of each code, each different one kept once, as the database asks of them."""
    different = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    if len(different) < len(texts):
        codes = np.array([different[text] for text in texts], np.int64)[codes]
    kept = pa.array(list(different), pa.string())
    return pa.DictionaryArray.from_arrays(to_column(codes.astype(np.int32)), kept)


def to_column(values: "NDArray[Any]", known: Flags | None = None) -> Column:
    """Return numbers as an Arrow array, null where they are not known."""
    return pa.array(values, mask=None if known is None else ~known)


def take(column: Column, rows: Ints, known: Flags | None = None) -> Column:
    """Return the values of some rows, null where the row is not known."""
    return column.take(to_column(rows, known))


def to_list(texts: Column) -> list[str]:
    """Return texts in Python."""
    return texts.to_numpy(zero_copy_only=False).tolist()


def _gather_alike(buffer: Bytes, starts: Ints, size: int) -> tuple[Ints, Bytes]:
    """`_gather` for places of one size: ids, nearly always."""
    if len(starts) * size * 2 > _MAX_TEXT_BYTES:
        raise UnfitError("too much text for one column")
    # Every place of the buffer seen as the beginning of so many bytes.
    windows = np.ndarray(
        (len(buffer) - size + 1,), np.dtype((np.void, size)), buffer=buffer.data, strides=(1,)
    )
    return np.arange(len(starts) + 1, dtype=np.int64) * size, windows[starts].view(np.uint8)


def _gather(buffer: Bytes, starts: Ints, ends: Ints) -> tuple[Ints, Bytes]:
    lengths = ends - starts
    offsets = np.zeros(len(starts) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    if offsets[-1] * 2 > _MAX_TEXT_BYTES:
        raise UnfitError("too much text for one column")
    places = np.arange(offsets[-1], dtype=np.int64)
    places += np.repeat(starts - offsets[:-1], lengths)
    return offsets, buffer[places]


def _from_buffers(offsets: Ints, content: Bytes) -> Column:
    places: Any = offsets.astype(np.int32)
    text: Any = content
    return pa.StringArray.from_buffers(len(offsets) - 1, pa.py_buffer(places), pa.py_buffer(text))
