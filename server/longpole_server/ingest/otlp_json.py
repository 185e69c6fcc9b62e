"""OTLP/JSON to protobuf, by the rules in which it differs from protobuf's own JSON.

Ids are hexadecimal in either case, enums are integers only, keys are lowerCamelCase only, unknown
keys are ignored, 64-bit integers come as numbers or as decimal strings.
Source: opentelemetry-proto, docs/specification.md, "JSON Protobuf Encoding".
"""

import base64
import binascii
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import orjson
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from longpole_server.errors import BadRequestError
from longpole_server.ingest.signals import REQUEST_TYPES, Signal

# The depth up to which protobuf itself parses.
_MAX_DEPTH = 100
_HEX_FIELDS = frozenset({"trace_id", "span_id", "parent_span_id"})
_INTEGER_BOUNDS: Mapping[int, tuple[int, int]] = {
    FieldDescriptor.TYPE_INT32: (-(1 << 31), (1 << 31) - 1),
    FieldDescriptor.TYPE_SINT32: (-(1 << 31), (1 << 31) - 1),
    FieldDescriptor.TYPE_SFIXED32: (-(1 << 31), (1 << 31) - 1),
    FieldDescriptor.TYPE_UINT32: (0, (1 << 32) - 1),
    FieldDescriptor.TYPE_FIXED32: (0, (1 << 32) - 1),
    FieldDescriptor.TYPE_INT64: (-(1 << 63), (1 << 63) - 1),
    FieldDescriptor.TYPE_SINT64: (-(1 << 63), (1 << 63) - 1),
    FieldDescriptor.TYPE_SFIXED64: (-(1 << 63), (1 << 63) - 1),
    FieldDescriptor.TYPE_UINT64: (0, (1 << 64) - 1),
    FieldDescriptor.TYPE_FIXED64: (0, (1 << 64) - 1),
    FieldDescriptor.TYPE_ENUM: (-(1 << 31), (1 << 31) - 1),
}
_FLOAT_TYPES = frozenset({FieldDescriptor.TYPE_DOUBLE, FieldDescriptor.TYPE_FLOAT})
_SPECIAL_FLOATS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}

_Convert = Callable[[object], object]


class _UnfitError(Exception):
    """A value does not fit its field."""


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    is_repeated: bool
    # None for a message.
    convert: _Convert | None


def build_request(signal: Signal, body: bytes) -> Message:
    """Read an OTLP/JSON body into the request message.

    Raises:
        BadRequestError: It is not JSON, or not such a request; the message names the place.
    """
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadRequestError(f"The body is not valid JSON: {error}.") from error
    message = REQUEST_TYPES[signal]()
    try:
        _fill(message, document, 0)
    except _UnfitError as error:
        raise BadRequestError(
            f"The body is not an OTLP {signal} request in JSON: {error}."
        ) from error
    return message


def _fill(message: Message, document: object, depth: int) -> None:
    if not isinstance(document, dict):
        raise _UnfitError(f"{message.DESCRIPTOR.name} must be an object")
    if depth > _MAX_DEPTH:
        raise _UnfitError(f"nested deeper than {_MAX_DEPTH} levels")
    fields = _describe_fields(type(message))
    for key, value in cast("dict[str, Any]", document).items():
        field = fields.get(key)
        if field is None or value is None:
            continue
        try:
            _set(message, field, value, depth)
        except _UnfitError as error:
            raise _UnfitError(f"{key}: {error}") from None


def _set(message: Message, field: _Field, value: object, depth: int) -> None:
    if not field.is_repeated:
        if field.convert is not None:
            setattr(message, field.name, field.convert(value))
            return
        child = getattr(message, field.name)
        # A member of a oneof is present even when it is empty.
        child.SetInParent()
        _fill(child, value, depth + 1)
        return
    if not isinstance(value, list):
        raise _UnfitError("must be an array")
    target = getattr(message, field.name)
    for element in cast("list[Any]", value):
        if field.convert is not None:
            target.append(field.convert(element))
        else:
            _fill(target.add(), element, depth + 1)


@cache
def _describe_fields(kind: type[Message]) -> Mapping[str, _Field]:
    """Return the fields of a message type by their key in JSON."""
    empty = kind()
    return {
        field.json_name: _Field(
            name=field.name,
            is_repeated=hasattr(getattr(empty, field.name), "extend"),
            convert=_choose_converter(field.name, field.type),
        )
        for field in kind.DESCRIPTOR.fields
    }


def _choose_converter(name: str, kind: int) -> _Convert | None:
    if kind == FieldDescriptor.TYPE_MESSAGE:
        return None
    if kind in _INTEGER_BOUNDS:
        low, high = _INTEGER_BOUNDS[kind]
        # The names of enum values are not valid in OTLP/JSON.
        accepts_text = kind != FieldDescriptor.TYPE_ENUM
        return lambda value: _to_integer(value, low, high, accepts_text)
    if kind in _FLOAT_TYPES:
        return _to_float
    if kind == FieldDescriptor.TYPE_BOOL:
        return _to_bool
    if kind == FieldDescriptor.TYPE_BYTES:
        return _to_id if name in _HEX_FIELDS else _to_bytes
    return _to_text


def _to_integer(value: object, low: int, high: int, accepts_text: bool) -> int:
    number: int | None = None
    if isinstance(value, int) and not isinstance(value, bool):
        number = value
    elif isinstance(value, float) and value.is_integer():
        number = int(value)
    elif isinstance(value, str) and accepts_text:
        digits = value.removeprefix("-")
        if digits.isascii() and digits.isdigit() and len(digits) <= 20:
            number = int(value)
    if number is None or not low <= number <= high:
        raise _UnfitError(f"{_show(value)} is not an integer from {low} to {high}")
    return number


def _to_float(value: object) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, str):
        if value in _SPECIAL_FLOATS:
            return _SPECIAL_FLOATS[value]
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if math.isfinite(number):
            return number
    raise _UnfitError(f"{_show(value)} is not a number")


def _to_bool(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise _UnfitError(f"{_show(value)} is not true or false")


def _to_text(value: object) -> str:
    if isinstance(value, str):
        return value
    raise _UnfitError(f"{_show(value)} is not a string")


def _to_id(value: object) -> bytes:
    if isinstance(value, str):
        try:
            return binascii.unhexlify(value)
        except ValueError:
            pass
    raise _UnfitError(f"{_show(value)} is not hexadecimal")


def _to_bytes(value: object) -> bytes:
    if isinstance(value, str):
        # Both alphabets, padding optional, as protobuf's JSON has it.
        text = value.replace("-", "+").replace("_", "/").rstrip("=")
        try:
            return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
        except ValueError:
            pass
    raise _UnfitError(f"{_show(value)} is not base64")


def _show(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:40] + "..."
