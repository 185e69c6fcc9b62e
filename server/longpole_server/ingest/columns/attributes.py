"""The attributes of many spans or points, as columns.

`normalize.attributes` says what a value means as number or as text; here the usual types are
converted at once, and a value of another type is asked of there.
"""
# pyarrow carries no complete types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa
from google.protobuf.message import DecodeError
from numpy.typing import NDArray
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from longpole_server.ingest.columns.texts import (
    Column,
    label,
    lay_texts,
    make_texts,
    take,
    to_column,
)
from longpole_server.ingest.columns.wire import (
    FIXED64,
    LENGTH,
    VARINT,
    Bytes,
    Fields,
    Flags,
    Ints,
    Messages,
    UnfitError,
    Words,
    has_repeats,
    make_tag,
    read_fixed,
    read_varints,
    scan,
)
from longpole_server.ingest.normalize.attributes import (
    Value,
    format_value,
    get_float,
    get_int,
    get_text,
    read_value,
)
from longpole_server.ingest.normalize.free_text import MAX_TEXT_CHARS, FreeText, quotes

_NONE, _STRING, _BOOL, _INT, _DOUBLE, _OTHER = range(6)
_UNREAD = -1
_KIND_OF_FIELD = {
    (1, LENGTH): _STRING,
    (2, VARINT): _BOOL,
    (3, VARINT): _INT,
    (4, FIXED64): _DOUBLE,
    (5, LENGTH): _OTHER,
    (6, LENGTH): _OTHER,
    (7, LENGTH): _OTHER,
}
_KEY_TAG, _VALUE_TAG = make_tag(1, LENGTH), make_tag(2, LENGTH)
_DOUBLE_BYTES = 9
# Beyond this a length takes a second byte.
_MORE = 0x80
_MAX_BIT_KEYS = 62
_KEY = "key"
Kinds = NDArray[np.int8]
_LEAST_USUAL, _MOST_USUAL = 1e-4, 1e9


@dataclass(frozen=True)
class Attributes:
    """Attributes in the order of their owners, then as sent.

    Attributes:
        owners: Number of the span or point that each belongs to.
        codes: Number of its key in `keys`.
        kinds: Type of its value.
        values: Messages `AnyValue`.
        numbers: Whole number, bits of a fraction, or truth, by kind.
        text_starts, text_ends: Of a text.
    """

    count: int
    owners: Ints
    keys: Sequence[str]
    codes: Ints
    kinds: Kinds
    values: Messages
    numbers: Words
    text_starts: Ints
    text_ends: Ints

    @cached_property
    def _code_of_key(self) -> dict[str, int]:
        return {key: code for code, key in enumerate(self.keys)}

    def find(self, key: str) -> Ints:
        """Return the numbers of the attributes with a key."""
        code = self._code_of_key.get(key)
        if code is None:
            return np.zeros(0, np.int64)
        return np.flatnonzero(self.codes == code)

    def has(self, key: str) -> Flags:
        """Tell of each owner whether it has a key."""
        present = np.zeros(self.count, np.bool_)
        present[self.owners[self.find(key)]] = True
        return present

    def read_ints(self, key: str) -> Column:
        """Return whole numbers, one for each owner; null where it has none."""
        found = self.find(key)
        numbers = np.zeros(self.count, np.int64)
        known = np.zeros(self.count, np.bool_)
        usual = found[self.kinds[found] == _INT]
        numbers[self.owners[usual]] = self.numbers[usual].view(np.int64)
        known[self.owners[usual]] = True
        for each in found[self.kinds[found] != _INT]:
            number = get_int({_KEY: self.read(each)}, _KEY)
            if number is not None:
                numbers[self.owners[each]], known[self.owners[each]] = number, True
        return to_column(numbers, known)

    def read_floats(self, key: str) -> Column:
        """Return finite numbers, one for each owner; null where it has none."""
        found = self.find(key)
        numbers = np.full(self.count, np.nan)
        usual = found[self.kinds[found] == _DOUBLE]
        numbers[self.owners[usual]] = self.numbers[usual].view(np.float64)
        for each in found[self.kinds[found] != _DOUBLE]:
            number = get_float({_KEY: self.read(each)}, _KEY)
            if number is not None:
                numbers[self.owners[each]] = number
        return to_column(numbers, np.isfinite(numbers))

    def read_texts(self, key: str) -> Column:
        """Return texts, one for each owner; null where it has none or an empty one."""
        found = self.find(key)
        places = np.zeros(self.count, np.int64)
        known = np.zeros(self.count, np.bool_)
        is_text = self.kinds[found] == _STRING
        usual = found[is_text & (self.text_ends[found] > self.text_starts[found])]
        places[self.owners[usual]] = np.arange(len(usual))
        known[self.owners[usual]] = True
        texts = make_texts(self.values.buffer, self.text_starts[usual], self.text_ends[usual])
        unusual: list[str] = []
        for each in found[~is_text]:
            text = get_text({_KEY: self.read(each)}, _KEY)
            if text is not None:
                places[self.owners[each]] = len(usual) + len(unusual)
                known[self.owners[each]] = True
                unusual.append(text)
        if unusual:
            texts = pa.concat_arrays([texts, pa.array(unusual, pa.string())])
        return take(texts, places, known)

    def read(self, number: "int | np.int64") -> Value:
        """Return one value in Python."""
        start, end = int(self.values.starts[number]), int(self.values.ends[number])
        try:
            return read_value(AnyValue.FromString(self.values.buffer[start:end].tobytes()))
        except DecodeError as error:
            raise UnfitError("a value that cannot be read") from error

    def make_maps(self, free_text: FreeText) -> Column:
        """Return all attributes of each owner as text, without what people wrote."""
        kept = np.array([free_text.keeps(key) for key in self.keys] or [True])
        chosen = np.flatnonzero(kept[self.codes]) if not kept.all() else np.arange(len(self.codes))
        if self._repeats_keys():
            raise UnfitError("a key that comes twice")
        sizes = np.bincount(self.owners[chosen], minlength=self.count)
        offsets = np.zeros(self.count + 1, np.int32)
        np.cumsum(sizes, out=offsets[1:])
        keys = label(self.keys, self.codes[chosen])
        return pa.MapArray.from_arrays(to_column(offsets), keys, self._format(chosen, free_text))

    def _repeats_keys(self) -> bool:
        if len(self.keys) > _MAX_BIT_KEYS:
            pairs = self.owners * len(self.keys) + self.codes
            return len(np.unique(pairs)) < len(pairs)
        # Different powers of two add up to what they are together as bits.
        bits = np.int64(1) << self.codes
        begins = np.flatnonzero(np.diff(self.owners, prepend=-1))
        if not len(begins):
            return False
        return bool((np.add.reduceat(bits, begins) != np.bitwise_or.reduceat(bits, begins)).any())

    def _format(self, chosen: Ints, free_text: FreeText) -> Column:
        """Return the values of some attributes as text: cut, cleaned where people wrote it."""
        kinds = self.kinds[chosen]
        lengths = self.text_ends[chosen] - self.text_starts[chosen]
        is_special = lengths > MAX_TEXT_CHARS
        quoting = np.array([quotes(key) for key in self.keys] or [False])
        if quoting.any():
            is_special |= quoting[self.codes[chosen]]
        parts: list[Any] = []
        order = np.zeros(len(chosen), np.int64)
        done = 0

        def add(places: Ints, make: Callable[[Ints], tuple[Column, Ints | None]]) -> None:
            nonlocal done
            if len(places):
                texts, numbers = make(chosen[places])
                parts.append(texts)
                order[places] = done + (np.arange(len(places)) if numbers is None else numbers)
                done += len(texts)

        add(np.flatnonzero((kinds == _STRING) & ~is_special), self._take_texts)
        add(np.flatnonzero((kinds == _INT) & ~is_special), self._write_ints)
        add(np.flatnonzero((kinds == _DOUBLE) & ~is_special), self._write_floats)
        rest = (kinds == _NONE) | (kinds == _BOOL) | (kinds == _OTHER) | is_special
        add(np.flatnonzero(rest), partial(self._write_others, free_text))
        if not parts:
            return pa.array([], pa.string())
        return take(pa.concat_arrays(parts), order)

    def _take_texts(self, numbers: Ints) -> tuple[Column, Ints | None]:
        return lay_texts(self.values.buffer, self.text_starts[numbers], self.text_ends[numbers])

    def _write_ints(self, numbers: Ints) -> tuple[Column, None]:
        return to_column(self.numbers[numbers].view(np.int64)).cast(pa.string()), None

    def _write_floats(self, numbers: Ints) -> tuple[Column, None]:
        floats = self.numbers[numbers].view(np.float64)
        sizes = np.abs(floats)
        # Arrow writes these as Python does, and whole, small and large ones otherwise.
        usual = (sizes >= _LEAST_USUAL) & (sizes < _MOST_USUAL) & (np.floor(sizes) != sizes)
        if usual.all():
            return to_column(floats).cast(pa.string()), None
        texts = np.empty(len(floats), object)
        texts[usual] = to_column(floats[usual]).cast(pa.string()).to_numpy(zero_copy_only=False)
        texts[~usual] = list(map(str, floats[~usual].tolist()))
        return pa.array(texts, pa.string()), None

    def _write_others(self, free_text: FreeText, numbers: Ints) -> tuple[Column, None]:
        written = [
            free_text.fit(self.keys[int(self.codes[each])], format_value(self.read(each)))
            for each in numbers.tolist()
        ]
        return pa.array(written, pa.string()), None


def read_attributes(pairs: Messages, owners: Ints, count: int) -> Attributes:
    """Read messages `KeyValue`.

    Args:
        pairs: The messages, those of one owner after another.
        owners: Number of the owner of each.
        count: How many owners there are, with attributes or without.

    Raises:
        UnfitError: Something is not of the usual form.
    """
    read = _read_usual(pairs)
    rest = np.flatnonzero(read.kinds == _UNREAD)
    if len(rest):
        _read_rest(pairs, rest, read)
    names, codes = name_texts(Messages(pairs.buffer, read.key_starts, read.key_ends))
    return Attributes(
        count,
        owners,
        names,
        codes,
        read.kinds,
        Messages(pairs.buffer, read.value_starts, read.value_ends),
        read.numbers,
        read.text_starts,
        read.text_ends,
    )


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Where keys and values lie, and what the values are. `kinds` is `_UNREAD` where not known."""

    key_starts: Ints
    key_ends: Ints
    value_starts: Ints
    value_ends: Ints
    kinds: Kinds
    numbers: Words
    text_starts: Ints
    text_ends: Ints


def _read_usual(pairs: Messages) -> _Pairs:
    """Read the pairs written as nearly all are: a short key, then a short text or one number.

    Nine tenths of the bytes of a request are attributes, and all of these are read at once.
    """
    buffer, starts, ends = pairs.buffer, pairs.starts, pairs.ends
    key_lengths = buffer[starts + 1]
    key_starts = starts + 2
    # Of what is damaged any place will do, as long as it is one.
    key_ends = np.minimum(key_starts + key_lengths, ends)
    value_starts = key_ends + 2
    lengths = buffer[key_ends + 1]
    tags, first = buffer[value_starts], buffer[value_starts + 1]
    usual = (
        (buffer[starts] == _KEY_TAG)
        & (key_lengths < _MORE)
        & (buffer[key_ends] == _VALUE_TAG)
        & (lengths < _MORE)
        & (value_starts + lengths == ends)
    )
    kinds = np.full(len(pairs), _UNREAD, np.int8)
    kinds[usual & (tags == make_tag(1, LENGTH)) & (first < _MORE) & (first + 2 == lengths)] = (
        _STRING
    )
    kinds[usual & (tags == make_tag(4, FIXED64)) & (lengths == _DOUBLE_BYTES)] = _DOUBLE
    kinds[usual & (tags == make_tag(3, VARINT)) & (lengths > 1)] = _INT
    numbers = np.zeros(len(pairs), np.uint64)
    doubles = np.flatnonzero(kinds == _DOUBLE)
    numbers[doubles] = read_fixed(buffer, value_starts[doubles] + 1, ends[doubles], np.dtype("<u8"))
    ints = np.flatnonzero(kinds == _INT)
    numbers[ints], after = read_varints(buffer, value_starts[ints] + 1, ends[ints])
    kinds[ints[after != ends[ints]]] = _UNREAD
    is_text = kinds == _STRING
    text_starts = np.where(is_text, value_starts + 2, 0)
    text_ends = np.where(is_text, ends, 0)
    return _Pairs(
        key_starts, key_ends, value_starts, ends.copy(), kinds, numbers, text_starts, text_ends
    )


def _read_rest(pairs: Messages, rest: Ints, read: _Pairs) -> None:
    """Read the pairs that are written otherwise, field by field."""
    some = Messages(pairs.buffer, pairs.starts[rest], pairs.ends[rest])
    fields = scan(some)
    keys = place_content(fields, 1, len(some), some.buffer)
    values = place_content(fields, 2, len(some), some.buffer)
    read.key_starts[rest], read.key_ends[rest] = keys.starts, keys.ends
    read.value_starts[rest], read.value_ends[rest] = values.starts, values.ends
    inner = scan(values)
    kinds = np.full(len(some), _NONE, np.int8)
    numbers = np.zeros(len(some), np.uint64)
    starts, ends = np.zeros(len(some), np.int64), np.zeros(len(some), np.int64)
    for (number, wire), kind in _KIND_OF_FIELD.items():
        found = inner.select(number, wire)
        if has_repeats(found.owners) or (kinds[found.owners] != _NONE).any():
            raise UnfitError("a value of two types")
        kinds[found.owners] = kind
        if wire == LENGTH:
            starts[found.owners], ends[found.owners] = found.starts, found.ends
        else:
            numbers[found.owners] = found.values
    read.kinds[rest], read.numbers[rest] = kinds, numbers
    read.text_starts[rest], read.text_ends[rest] = starts, ends


def place_content(fields: Fields, number: int, count: int, buffer: Bytes) -> Messages:
    """Return what a field with a length holds, by owner; empty where it is missing.

    Raises:
        UnfitError: It comes twice in a message.
    """
    found = fields.select(number, LENGTH)
    if has_repeats(found.owners):
        raise UnfitError("a field that comes twice")
    starts, ends = np.zeros(count, np.int64), np.zeros(count, np.int64)
    starts[found.owners], ends[found.owners] = found.starts, found.ends
    return Messages(buffer, starts, ends)


def name_texts(places: Messages) -> tuple[list[str], Ints]:
    """Return the different texts among those at these places, and for each place which it is."""
    texts: Column = make_texts(places.buffer, places.starts, places.ends).dictionary_encode()
    return texts.dictionary.to_pylist(), texts.indices.to_numpy().astype(np.int64)
