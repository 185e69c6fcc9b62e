"""The greeting of Go's driver, which Grafana's plugin uses.

It asks `SELECT displayName(), version(), revision(), timezone()`, reads the answer in the newest
form of the Native format, and every later answer in the form of the `revision` it was told. The
embedded database writes Native as revision 0 only: the greeting says so, in the form expected.
"""

import re
import struct

_HELLO = re.compile(
    rb"\s*SELECT\s+displayName\(\)\s*,\s*version\(\)\s*,\s*revision\(\)\s*,\s*timezone\(\)\s*",
    re.IGNORECASE,
)
_REVISION_OF_ANSWERS = 0
_MIN_REVISION_WITH_BLOCK_INFO = 1
_MIN_REVISION_WITH_CUSTOM_SERIALIZATION = 54_454
# Two numbered fields, "not an overflow row" and "no bucket", and the end of them.
_BLOCK_INFO = b"\x01\x00\x02" + struct.pack("<i", -1) + b"\x00"


def is_hello(sql: bytes) -> bool:
    """Tell whether a query is the greeting."""
    return _HELLO.fullmatch(sql) is not None


def make_hello(name: str, version: str, timezone: str, revision: int) -> bytes:
    """Return the answer to the greeting as one block of Native.

    Args:
        name: Of the server.
        version: Of the database.
        timezone: Of the database.
        revision: The form in which the client reads it.
    """
    columns = (
        ("displayName()", "String", _text(name)),
        ("version()", "String", _text(version)),
        ("revision()", "UInt32", struct.pack("<I", _REVISION_OF_ANSWERS)),
        ("timezone()", "String", _text(timezone)),
    )
    parts = [_BLOCK_INFO] if revision >= _MIN_REVISION_WITH_BLOCK_INFO else []
    parts.append(_number(len(columns)) + _number(1))
    for column, kind, value in columns:
        parts.append(_text(column) + _text(kind))
        if revision >= _MIN_REVISION_WITH_CUSTOM_SERIALIZATION:
            parts.append(b"\x00")
        parts.append(value)
    return b"".join(parts)


def _text(value: str) -> bytes:
    encoded = value.encode()
    return _number(len(encoded)) + encoded


def _number(value: int) -> bytes:
    """Return a number in groups of seven bits, the low ones first."""
    parts = bytearray()
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)
