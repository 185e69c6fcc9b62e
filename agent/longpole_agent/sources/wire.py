"""The wire format of protocol buffers, as far as reading a small foreign message takes it.

Format: https://protobuf.dev/programming-guides/encoding/
"""

from collections.abc import Iterator

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED_SIZES = {_FIXED64: 8, _FIXED32: 4}
_MAX_VARINT_BYTES = 10


def read_messages(data: bytes, number: int) -> Iterator[bytes]:
    """Yield the content of a field of bytes, text or messages, as often as it occurs.

    Args:
        data: An encoded message.
        number: The field's number. Other fields are passed over.

    Raises:
        ValueError: The data is no message.
    """
    position = 0
    while position < len(data):
        tag, position = _read_varint(data, position)
        kind = tag & 7
        if kind == _VARINT:
            _, position = _read_varint(data, position)
            continue
        if kind == _BYTES:
            size, position = _read_varint(data, position)
        elif kind in _FIXED_SIZES:
            size = _FIXED_SIZES[kind]
        else:
            raise ValueError(f"no protocol buffer: field of unknown kind {kind}")
        end = position + size
        if end > len(data):
            raise ValueError("no protocol buffer: it ends within a field")
        if kind == _BYTES and tag >> 3 == number:
            yield data[position:end]
        position = end


def read_text(data: bytes, number: int) -> str:
    """Return a text field of a message; of a repeated one the last counts, "" when absent.

    Raises:
        ValueError: The data is no message.
    """
    text = b""
    for text in read_messages(data, number):  # noqa: B007 - the last one counts
        pass
    return text.decode("utf-8", "replace")


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(_MAX_VARINT_BYTES):
        if position >= len(data):
            raise ValueError("no protocol buffer: it ends within a number")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            return value, position
    raise ValueError("no protocol buffer: a number is too long")
