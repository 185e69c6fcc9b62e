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
# From here on many fields are found at once in less time than one after another.
_LEAST_ALIKE = 4096
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
class Chosen:
    """Fields of one number, in the order of messages, then of their bytes.

    Attributes:
        owners: Number of the message.
        starts, ends: Of the content where it has a length, else nothing.
        values: The number, where it has none.
    """

    owners: Ints
    starts: Ints
    ends: Ints
    values: Words

    def __len__(self) -> int:
        """Return the number of fields."""
        return len(self.owners)


@dataclass(frozen=True, slots=True)
class Round:
    """One field of each of some messages: the first, the second, and so on.

    Attributes:
        owners: Numbers of the messages, in order.
        tags: Field number and wire type, `make_tag`.
        tag: The one that all have; None where they differ.
        starts, ends: Of the contents that have a length; nothing where none has one.
        values: The numbers; nothing where none is one.
    """

    owners: Ints
    tags: Ints
    tag: int | None
    starts: Ints
    ends: Ints
    values: Words

    def choose(self, tag: int) -> Chosen | None:
        """Return the fields of a tag, None without any."""
        if self.tag is not None:
            if self.tag != tag:
                return None
            return Chosen(self.owners, self.starts, self.ends, self.values)
        found = np.flatnonzero(self.tags == tag)
        if not len(found):
            return None
        has_length = tag & 7 == LENGTH
        return Chosen(
            self.owners[found],
            self.starts[found] if has_length else _NO_PLACES,
            self.ends[found] if has_length else _NO_PLACES,
            _NO_VALUES if has_length else self.values[found],
        )


@dataclass(frozen=True, slots=True)
class Fields:
    """All fields of many messages, as they were read: round by round. `count` messages."""

    count: int
    rounds: Sequence[Round]

    def select(self, number: int, wire: int) -> Chosen:
        """Return the fields of one number that have the wire type it should have.

        Places are there only for what has a length, values only for what has none.
        """
        tag = make_tag(number, wire)
        found = [chosen for each in self.rounds if (chosen := each.choose(tag)) is not None]
        if not found:
            return Chosen(_NO_PLACES, _NO_PLACES, _NO_PLACES, _NO_VALUES)
        return found[0] if len(found) == 1 else _in_order(found, self.count)


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
    rounds: list[Round] = []
    for _ in range(_MAX_FIELDS):
        alive = position < limit
        if not alive.all():
            owners, position, limit = owners[alive], position[alive], limit[alive]
        if not len(owners):
            return Fields(len(messages), rounds)
        tags, position = _read_lengths(buffer, position, limit)
        fields, position = _read_content(buffer, owners, tags, position, limit)
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


def find_alike(body: bytes, start: int, end: int, tag: int, opening: bytes) -> tuple[Ints, Ints]:
    """Return the fields of one tag that follow each other from `start`, as far as they are alike.

    What `walk_alike` notes one after another is found at once here: where the content of such a
    field may begin, by its first two bytes, and of these places those that lie behind each other
    without a gap. What begins otherwise ends the row; the rest is left to the others.

    Args:
        body: Of messages.
        start: Where the first field begins.
        end: Of the message.
        tag: Of the fields.
        opening: First two bytes of the content of each.
    """
    part = np.frombuffer(body, np.uint8, end - start, start)
    if len(part) <= _LEAST_ALIKE:
        return _NO_PLACES, _NO_PLACES
    at = np.flatnonzero((part[2:-1] == opening[0]) & (part[3:] == opening[1])) + 2
    low, high = part[at - 2], part[at - 1]
    is_long = (part[np.maximum(at - 3, 0)] == tag) & (low >= _MORE) & (high < _MORE)
    is_short = (low == tag) & (high < _MORE)
    fit = is_long | is_short
    at, is_long = at[fit], is_long[fit]
    lengths = part[at - 1].astype(np.int64)
    lengths[is_long] = lengths[is_long] << 7 | part[at[is_long] - 2] & _PAYLOAD
    begins, ends = at - np.where(is_long, 3, 2), at + lengths
    row = _follow(begins, np.where(ends <= len(part), ends, -1))
    return at[row] + start, ends[row] + start


def _follow(begins: Ints, ends: Ints) -> Ints:
    """Return which places lie behind each other without a gap, from 0 on. `begins` grow."""
    row: list[int] = []
    after = np.searchsorted(begins, ends)
    after[(ends < 0) | (begins[np.minimum(after, len(begins) - 1)] != ends)] = -1
    following: list[int] = after.tolist()
    place = 0 if len(begins) and begins[0] == 0 and ends[0] > 0 else -1
    while place >= 0:
        row.append(place)
        place = following[place]
    if row and ends[row[-1]] < 0:
        row.pop()
    return np.array(row, np.int64)


def _read_content(
    buffer: Bytes, owners: Ints, tags: Ints, position: Ints, limit: Ints
) -> tuple[Round, Ints]:
    least, most = int(tags.min()), int(tags.max())
    if least < make_tag(1, 0):
        raise UnfitError("field number 0")
    if least == most:
        starts, ends, values, after = _read_alike(buffer, least & 7, position, limit)
    else:
        starts, ends, values, after = _read_mixed(buffer, tags & 7, position, limit)
    if bool(np.any(after > limit)):
        raise UnfitError("a field beyond its message")
    tag = least if least == most else None
    return Round(owners, tags, tag, starts, ends, values), after


def _read_alike(
    buffer: Bytes, wire: int, position: Ints, limit: Ints
) -> tuple[Ints, Ints, Words, Ints]:
    """Read contents of one wire type: starts, ends, values, and where the next fields begin."""
    if wire == LENGTH:
        lengths, starts = _read_lengths(buffer, position, limit)
        ends = starts + lengths
        return starts, ends, _NO_VALUES, ends
    if wire == VARINT:
        values, after = read_varints(buffer, position, limit)
    elif wire == FIXED64:
        values, after = read_fixed(buffer, position, limit, np.dtype("<u8")), position + 8
    elif wire == FIXED32:
        values, after = read_fixed(buffer, position, limit, np.dtype("<u4")), position + 4
    else:
        raise UnfitError(f"wire type {wire}")
    return _NO_PLACES, _NO_PLACES, values, after


def _read_mixed(
    buffer: Bytes, wires: Ints, position: Ints, limit: Ints
) -> tuple[Ints, Ints, Words, Ints]:
    starts, ends = np.zeros(len(wires), np.int64), np.zeros(len(wires), np.int64)
    values = np.zeros(len(wires), np.uint64)
    after = np.array(position)
    for wire in np.flatnonzero(np.bincount(wires, minlength=8)).tolist():
        chosen = np.flatnonzero(wires == wire)
        begun, ended, read, beyond = _read_alike(buffer, wire, position[chosen], limit[chosen])
        after[chosen] = beyond
        if wire == LENGTH:
            starts[chosen], ends[chosen] = begun, ended
        else:
            values[chosen] = read
    return starts, ends, values, after


def _read_lengths(buffer: Bytes, position: Ints, limit: Ints) -> tuple[Ints, Ints]:
    """Read numbers that are mostly small: lengths, tags. Larger than the buffer are unfit."""
    first = buffer[position]
    if first.max(initial=0) < _MORE:
        return first.astype(np.int64), position + 1
    values, after = read_varints(buffer, position, limit)
    if (values > np.uint64(len(buffer))).any():
        raise UnfitError("a length beyond the message")
    return values.astype(np.int64), after


def read_varints(buffer: Bytes, position: Ints, limit: Ints) -> tuple[Words, Ints]:
    """Read numbers; return them, and where each ends.

    Raises:
        UnfitError: One has no end before its limit.
    """
    first = buffer[position]
    after = position + 1
    pending = np.flatnonzero(first >= _MORE)
    if not len(pending):
        return first.astype(np.uint64), after
    values = (first & _PAYLOAD).astype(np.uint64)
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


def read_fixed(buffer: Bytes, position: Ints, limit: Ints, kind: "np.dtype[np.generic]") -> Words:
    """Read numbers of a fixed width.

    Raises:
        UnfitError: One is cut short.
    """
    if (position + kind.itemsize > limit).any():
        raise UnfitError("a number cut short")
    # Every place of the buffer seen as the beginning of a number.
    window = np.ndarray((len(buffer) - kind.itemsize + 1,), kind, buffer=buffer.data, strides=(1,))
    return window[position].astype(np.uint64)


def _in_order(rounds: Sequence[Chosen], count: int) -> Chosen:
    """Put together what was read round by round: the fields of the first message come first."""
    sizes = np.zeros(count, np.int64)
    for chosen in rounds:
        sizes[chosen.owners] += 1
    following = np.cumsum(sizes) - sizes
    total = int(sizes.sum())
    has_length = bool(len(rounds[0].starts))
    owners = np.empty(total, np.int64)
    starts, ends = (np.empty(total if has_length else 0, np.int64) for _ in range(2))
    values = np.empty(0 if has_length else total, np.uint64)
    for chosen in rounds:
        places = following[chosen.owners]
        following[chosen.owners] += 1
        owners[places] = chosen.owners
        if has_length:
            starts[places], ends[places] = chosen.starts, chosen.ends
        else:
            values[places] = chosen.values
    return Chosen(owners, starts, ends, values)
