"""Protobuf's wire format, for many messages at once.

Source of the format: protobuf.dev/programming-guides/encoding.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]
Words = NDArray[np.uint64]
Flags = NDArray[np.bool_]

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
# A number that ends a message is read from here on: reading past the end stays in the buffer.
_PADDING = 16
_MAX_SHIFT = 63
# Each field costs a round over all messages.
_MAX_FIELDS = 256
_MORE = 0x80
_PAYLOAD = 0x7F

_NO_PLACES = np.zeros(0, np.int64)
_NO_VALUES = np.zeros(0, np.uint64)


class UnfitError(Exception):
    """The bytes are not of the usual form; another reader has to judge them."""


@dataclass(frozen=True, slots=True)
class Messages:
    """Where messages lie in one buffer: from `starts` to `ends`, exclusive."""

    buffer: Bytes
    starts: Ints
    ends: Ints

    def __len__(self) -> int:
        """Return the number of messages."""
        return len(self.starts)


@dataclass(frozen=True, slots=True)
class Fields:
    """All fields of many messages, in the order of messages, then of their bytes.

    Attributes:
        owners: Number of the message.
        tags: Field number and wire type, `make_tag`.
        starts, ends: Of the content where it has a length, else 0.
        values: The number, where it has none.
    """

    owners: Ints
    tags: Ints
    starts: Ints
    ends: Ints
    values: Words

    def select(self, number: int, wire: int) -> "Fields":
        """Return the fields of one number that have the wire type it should have.

        Places are kept only of what has a length, values only of what has none.
        """
        chosen = np.flatnonzero(self.tags == make_tag(number, wire))
        owners, tags = self.owners[chosen], self.tags[chosen]
        if wire == LENGTH:
            return Fields(owners, tags, self.starts[chosen], self.ends[chosen], _NO_VALUES)
        return Fields(owners, tags, _NO_PLACES, _NO_PLACES, self.values[chosen])

    def __len__(self) -> int:
        """Return the number of fields."""
        return len(self.owners)


def make_tag(number: int, wire: int) -> int:
    """Return field number and wire type as they are written together."""
    return number << 3 | wire


def join_bodies(bodies: Sequence[bytes]) -> Messages:
    """Put messages one after another into a buffer that may be read a little past its end."""
    buffer = np.frombuffer(b"".join((*bodies, bytes(_PADDING))), np.uint8)
    sizes = np.array([len(body) for body in bodies], np.int64)
    ends = np.cumsum(sizes)
    return Messages(buffer, ends - sizes, ends)


def scan(messages: Messages) -> Fields:
    """Read the fields of every message, one of each at a time.

    Raises:
        UnfitError: A message is damaged, or of a form that nobody sends.
    """
    buffer = messages.buffer
    owners = np.arange(len(messages), dtype=np.int64)
    position, limit = messages.starts, messages.ends
    rounds: list[Fields] = []
    for _ in range(_MAX_FIELDS):
        alive = position < limit
        if not alive.all():
            owners, position, limit = owners[alive], position[alive], limit[alive]
        if not len(owners):
            return _in_order(rounds, len(messages))
        tags, position = _read_varints(buffer, position, limit)
        fields, position = _read_content(buffer, owners, tags.astype(np.int64), position, limit)
        rounds.append(fields)
    raise UnfitError("a message of very many fields")


def has_repeats(owners: Ints) -> bool:
    """Tell whether a field that should come once comes twice in a message."""
    return len(owners) > 1 and bool((owners[1:] == owners[:-1]).any())


def walk(body: bytes, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Read the fields of one message with any number of them: tag, start and end of the content.

    Raises:
        UnfitError: The message is damaged, or has fields without a length.
    """
    while start < end:
        tag = body[start]
        if tag & 7 != LENGTH or tag >= _MORE or tag < make_tag(1, 0):
            raise UnfitError("a message of another form")
        length, shift, start = 0, 0, start + 1
        while True:
            if start >= end or shift > _MAX_SHIFT:
                raise UnfitError("a length without an end")
            byte = body[start]
            start += 1
            length |= (byte & _PAYLOAD) << shift
            if byte < _MORE:
                break
            shift += 7
        if length > end - start:
            raise UnfitError("a field beyond its message")
        yield tag, start, start + length
        start += length


def walk_alike(
    body: bytes, start: int, end: int, tag: int, starts: list[int], ends: list[int]
) -> int:
    """Note the fields of one tag that follow each other; return where another one begins.

    Only those are noted that `walk` would read in the usual way; it reads what comes next.
    """
    last = end - 3
    while start < last and body[start] == tag:
        length = body[start + 1]
        begin = start + 2
        if length >= _MORE:
            high = body[begin]
            if high >= _MORE:
                break
            length = length & _PAYLOAD | high << 7
            begin += 1
        until = begin + length
        if until > end:
            break
        starts.append(begin)
        ends.append(until)
        start = until
    return start


def _read_content(
    buffer: Bytes, owners: Ints, tags: Ints, position: Ints, limit: Ints
) -> tuple[Fields, Ints]:
    wires = tags & 7
    if (tags < make_tag(1, 0)).any():
        raise UnfitError("field number 0")
    starts = np.zeros(len(owners), np.int64)
    ends = np.zeros(len(owners), np.int64)
    values = np.zeros(len(owners), np.uint64)
    after = np.array(position)
    for wire in _list_wires(wires):
        chosen = np.flatnonzero(wires == wire)
        at, until = position[chosen], limit[chosen]
        if wire == LENGTH:
            lengths, begin = _read_varints(buffer, at, until)
            if (lengths > np.uint64(len(buffer))).any():
                raise UnfitError("a length beyond the message")
            after[chosen] = begin + lengths.astype(np.int64)
            starts[chosen], ends[chosen] = begin, after[chosen]
        elif wire == VARINT:
            values[chosen], after[chosen] = _read_varints(buffer, at, until)
        elif wire == FIXED64:
            after[chosen] = at + 8
            values[chosen] = _read_fixed(buffer, at, until, np.dtype("<u8"))
        elif wire == FIXED32:
            after[chosen] = at + 4
            values[chosen] = _read_fixed(buffer, at, until, np.dtype("<u4"))
        else:
            raise UnfitError(f"wire type {wire}")
    if bool(np.any(after > limit)):
        raise UnfitError("a field beyond its message")
    return Fields(owners, tags, starts, ends, values), after


def _list_wires(wires: Ints) -> "list[int]":
    return np.flatnonzero(np.bincount(wires, minlength=8)).tolist()


def _read_varints(buffer: Bytes, position: Ints, limit: Ints) -> tuple[Words, Ints]:
    first = buffer[position]
    values = (first & _PAYLOAD).astype(np.uint64)
    after = position + 1
    pending = np.flatnonzero(first >= _MORE)
    shift = 7
    while len(pending):
        if shift > _MAX_SHIFT or (after[pending] >= limit[pending]).any():
            raise UnfitError("a number without an end")
        byte = buffer[after[pending]]
        values[pending] |= (byte & _PAYLOAD).astype(np.uint64) << np.uint64(shift)
        after[pending] += 1
        pending = pending[byte >= _MORE]
        shift += 7
    return values, after


def _read_fixed(buffer: Bytes, position: Ints, limit: Ints, kind: "np.dtype[np.generic]") -> Words:
    if (position + kind.itemsize > limit).any():
        raise UnfitError("a number cut short")
    # Every place of the buffer seen as the beginning of a number.
    window = np.ndarray((len(buffer) - kind.itemsize + 1,), kind, buffer=buffer.data, strides=(1,))
    return window[position].astype(np.uint64)


def _in_order(rounds: Sequence[Fields], count: int) -> Fields:
    """Put together what was read round by round: the fields of the first message come first."""
    sizes = np.zeros(count, np.int64)
    for fields in rounds:
        sizes[fields.owners] += 1
    before = np.cumsum(sizes) - sizes
    total = int(sizes.sum())
    owners, tags, starts, ends = (np.empty(total, np.int64) for _ in range(4))
    values = np.empty(total, np.uint64)
    for number, fields in enumerate(rounds):
        places = before[fields.owners] + number
        owners[places] = fields.owners
        tags[places] = fields.tags
        starts[places] = fields.starts
        ends[places] = fields.ends
        values[places] = fields.values
    return Fields(owners, tags, starts, ends, values)
