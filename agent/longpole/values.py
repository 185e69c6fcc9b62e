"""What counts as a number, a step and an attribute value in a trainer's hands."""

import numbers
import operator
from collections.abc import Sequence
from decimal import Decimal
from typing import SupportsIndex, TypeAlias, cast

AttributeValue: TypeAlias = str | bool | int | float | Sequence[str]


def to_number(value: object) -> int | float | None:
    """Return `value` as a plain number, or None when it is none.

    NumPy scalars and tensors of one element are numbers through `.item()`; True is 1.
    """
    if value is None or isinstance(value, str):
        return None
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    try:
        item = getattr(value, "item", None)
        if callable(item):
            content = item()
            if isinstance(content, float):
                return content
            return int(content) if isinstance(content, int) else None
        if isinstance(value, numbers.Real | Decimal):
            return float(value)
    except Exception:  # noqa: BLE001 - foreign `.item()` may raise anything
        return None
    return None


def to_iteration(value: object) -> int | None:
    """Return the number of a step, or None when `value` is not a whole number."""
    if value is None:
        return None
    try:
        return operator.index(cast("SupportsIndex", value))
    except Exception:  # noqa: BLE001 - a foreign `__index__` may raise anything
        number = to_number(value)
    if isinstance(number, float):
        return int(number) if number.is_integer() else None
    return number
