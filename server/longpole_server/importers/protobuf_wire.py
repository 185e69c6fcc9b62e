"""Fields of a protobuf message, by number, without its description."""

from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_MAX_VARINT_BYTES = 10


class MalformedError(ValueError):
    """The bytes are no protobuf message."""


def read_fields(message: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """Yield (number, wire type, value): integers, or bytes for the other types.

    Raises:
        MalformedError: The message ends in the middle or holds an unknown wire type.
    """
    at, end = 0, len(message)
    while at < end:
        tag, at = _read_varint(message, at)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == VARINT:
            value, at = _read_varint(message, at)
            yield number, wire_type, value
            continue
        if wire_type == BYTES:
            size, at = _read_varint(message, at)
        elif wire_type in (FIXED64, FIXED32):
            size = 8 if wire_type == FIXED64 else 4
        else:
            raise MalformedError(f"wire type {wire_type}")
        if at + size > end:
            raise MalformedError("truncated")
        yield number, wire_type, message[at : at + size]
        at += size


def to_int64(value: int | bytes) -> int:
    """Return a varint as the signed number that it stands for."""
    number = value if isinstance(value, int) else 0
    return number - (1 << 64) if number >= 1 << 63 else number


def to_bytes(value: int | bytes) -> bytes:
    """Return a field's bytes, none for a varint."""
    return value if isinstance(value, bytes) else b""


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for index in range(_MAX_VARINT_BYTES):
        if at >= len(message):
            raise MalformedError("truncated")
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
    raise MalformedError("varint too long")
