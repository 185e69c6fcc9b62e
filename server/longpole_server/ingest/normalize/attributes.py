"""OTLP attribute values as Python values, as numbers and as text."""

import base64
import json
import math
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from longpole_server.ingest.normalize.free_text import FreeText

Value: TypeAlias = "str | bool | int | float | bytes | list[Value] | dict[str, Value] | None"
Values: TypeAlias = Mapping[str, Value]

_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1
_MAX_DIGITS = 20
# No clock of a trainer stands before the year 2000 or a year ahead: zero, seconds since a machine's
# start, milliseconds taken for nanoseconds.
EARLIEST_NS = 946_684_800 * 10**9
MAX_AHEAD_NS = 366 * 86_400 * 10**9
# This program did not exist before: a server whose own clock stands earlier (a machine without a
# battery begins in 1970) must not take all others for ahead.
LEAST_NOW_NS = 1_759_276_800 * 10**9


def read_time(time_ns: int) -> int:
    """Return a time of the wire (64 bits without sign) as one that every part holds."""
    return time_ns if time_ns <= _INT64_MAX else _INT64_MAX


def is_of_our_time(time_ns: int, received_ns: int) -> bool:
    """Tell whether a time can be a clock's, right or wrong by hours, and not a slip of units."""
    return EARLIEST_NS <= time_ns <= find_latest_ns(received_ns)


def find_latest_ns(received_ns: int) -> int:
    """Return how far ahead a clock may be, by this server's clock or, if that is wrong, without."""
    return max(received_ns, LEAST_NOW_NS) + MAX_AHEAD_NS


def read_value(value: AnyValue) -> Value:
    """Return an attribute value in Python."""
    match value.WhichOneof("value"):
        case "string_value":
            return value.string_value
        case "int_value":
            return value.int_value
        case "double_value":
            return value.double_value
        case "bool_value":
            return value.bool_value
        case "array_value":
            return [read_value(element) for element in value.array_value.values]
        case "kvlist_value":
            return read_attributes(value.kvlist_value.values)
        case "bytes_value":
            return value.bytes_value
        case _:
            return None


def read_attributes(pairs: Iterable[KeyValue]) -> dict[str, Value]:
    """Return attributes in Python; of a repeated key the last one counts."""
    return {pair.key: read_value(pair.value) for pair in pairs}


def format_value(value: Value) -> str:
    """Return a value as the Collector writes it into text columns: nested ones as JSON."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case None:
            return ""
        case bytes():
            return base64.b64encode(value).decode()
        case list() | dict():
            return json.dumps(_to_json(value), ensure_ascii=False, separators=(",", ":"))
        case _:
            return str(value)


def format_attributes(values: Values, free_text: FreeText) -> dict[str, str]:
    """Return attributes as text, without what people wrote where that is not kept."""
    return {
        key: free_text.fit(key, value if isinstance(value, str) else format_value(value))
        for key, value in values.items()
        if free_text.keeps(key)
    }


def get_text(values: Values, key: str) -> str | None:
    """Return a value as text; None when it is absent or empty."""
    value = values.get(key)
    if isinstance(value, str):
        return value or None
    return None if value is None else format_value(value)


def get_int(values: Values, key: str) -> int | None:
    """Return a whole number however it was sent; None when it is none."""
    value = values.get(key)
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        digits = value.strip().removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= _MAX_DIGITS):
            return None
        value = int(value)
    if isinstance(value, float):
        value = int(value) if value.is_integer() else None
    if isinstance(value, int) and _INT64_MIN <= value <= _INT64_MAX:
        return value
    return None


def get_float(values: Values, key: str) -> float | None:
    """Return a finite number however it was sent; None when it is none."""
    value = values.get(key)
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, int | float) and math.isfinite(value):
        return float(value)
    return None


def get_texts(values: Values, key: str) -> tuple[str, ...]:
    """Return a list of texts; a single text is split at commas."""
    value = values.get(key)
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    if isinstance(value, list):
        return tuple(element for element in value if isinstance(element, str) and element)
    return ()


def _to_json(value: Value) -> object:
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case list():
            return [_to_json(element) for element in value]
        case dict():
            return {key: _to_json(element) for key, element in value.items()}
        case _:
            return value
