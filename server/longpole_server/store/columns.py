"""Turning Python values into Arrow columns that the database takes whatever a sender sent.

A batch that cannot be stored would be retried for ever, so a value outside its column's range is
bent: integers and times to the nearest that fits, text to valid Unicode, fractions and physical
values that no instrument reads to "not reported".
"""
# pyarrow carries no complete types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

TEXT = pa.string()
INTEGER = pa.int64()
FLOAT = pa.float64()
FLAG = pa.bool_()
TIME = pa.timestamp("ns", "UTC")
TEXTS = pa.list_(pa.string())
TEXT_MAP = pa.map_(pa.string(), pa.string())
# Few different texts: sent once each, as the database keeps them (`LowCardinality`).
LABEL = pa.dictionary(pa.int32(), pa.string())
LABELLED = pa.map_(LABEL, pa.string())

# As fine as the instruments read: exact on the way back, half the size of floats.
RATIO = pa.decimal128(9, 4)
TENTHS = pa.decimal128(9, 1)
THOUSANDTHS = pa.decimal128(18, 3)
WHOLE = pa.decimal128(18, 0)

_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1


def make_array(values: Sequence[object], kind: pa.DataType) -> "pa.Array[Any]":
    """Return the values as one Arrow array of a kind. None stays None."""
    if isinstance(kind, pa.Decimal128Type):
        return _make_decimals(values, kind)
    if pa.types.is_map(kind):
        values = [list(value.items()) for value in values if isinstance(value, Mapping)]
    try:
        return pa.array(values, type=kind)
    except (OverflowError, ValueError):
        return pa.array([_bend(value, kind) for value in values], type=kind)


def _make_decimals(
    values: Sequence[object], kind: "pa.Decimal128Type[Any, Any]"
) -> "pa.Array[Any]":
    limit = 10.0 ** (kind.precision - kind.scale)
    numbers = [
        float(value)
        if isinstance(value, int | float) and math.isfinite(value) and abs(value) < limit
        else None
        for value in values
    ]
    return pa.array(numbers, type=FLOAT).cast(kind, safe=False)


def _bend(value: object, kind: pa.DataType) -> object:
    match value:
        case str():
            return value.encode("utf-8", "replace").decode("utf-8")
        case int() if kind in (INTEGER, TIME):
            return min(max(value, _INT64_MIN), _INT64_MAX)
        case float() if kind in (INTEGER, TIME):
            return _bend(int(value), kind) if math.isfinite(value) else None
        case tuple():
            return tuple(_bend(item, _kind_of_items(kind)) for item in value)
        case list():
            return [_bend(item, _kind_of_items(kind)) for item in value]
        case _:
            return value


def _kind_of_items(kind: pa.DataType) -> pa.DataType:
    """Return what a list holds; a map's keys and values are text whatever the kind says."""
    return kind.value_type if isinstance(kind, pa.ListType) else kind
