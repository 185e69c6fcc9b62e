"""Numbers out of nested objects, by flat name."""

import math
from collections.abc import Iterator, Mapping
from typing import cast

from longpole_server.importers.logged import LogSummary

# Validation values may be objects; nobody nests deeper than a few.
_MAX_DEPTH = 8


def read_scalars(data: Mapping[str, object], summary: LogSummary) -> dict[str, float]:
    """Return the finite numbers; names of nested objects are joined with `/`.

    Null is not reported; texts and lists are no scalars; what is not finite is counted.
    """
    scalars: dict[str, float] = {}
    for name, value in _flatten(data):
        if math.isfinite(value):
            scalars[name] = value
        else:
            summary.count_not_finite(name)
    return scalars


def _flatten(
    data: Mapping[str, object], prefix: str = "", depth: int = 0
) -> Iterator[tuple[str, float]]:
    for key, value in data.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            if depth < _MAX_DEPTH:
                yield from _flatten(cast("Mapping[str, object]", value), f"{name}/", depth + 1)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            try:
                yield name, float(value)
            except OverflowError:
                yield name, math.inf
