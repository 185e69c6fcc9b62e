"""A chart as browsers take it: traces and a layout of plain values.

Plotly's own Python classes check every number of every trace one by one, which for a run of ten
thousand steps takes longer than all that the database does. Here nothing is checked while pages
are served; the tests check every figure against Plotly's schema.
"""

import base64
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

Trace = dict[str, Any]
Layout = dict[str, Any]

# What numpy calls the types of numbers that Plotly reads as they lie in memory.
_TYPED = {
    "int8": "i1",
    "uint8": "u1",
    "int16": "i2",
    "uint16": "u2",
    "int32": "i4",
    "uint32": "u4",
    "float32": "f4",
    "float64": "f8",
}
_LISTS = ("shapes", "annotations")
# Plotly takes texts for markup, links and sizes included. What is ours is this; any other `<` was
# written by who named a stage, a node or a sample.
_NOT_OURS = re.compile(r"<(?!/?(?:b|extra)>|br>|/span>|span style='color:[^'<>;]*'>)")
_NUMBERS = frozenset((int, float, bool, type(None)))


def bar_trace(**properties: object) -> Trace:
    """Return a trace of bars."""
    return {"type": "bar", **properties}


def scatter_trace(**properties: object) -> Trace:
    """Return a trace of lines, marks or words."""
    return {"type": "scatter", **properties}


def heatmap_trace(**properties: object) -> Trace:
    """Return a trace of cells."""
    return {"type": "heatmap", **properties}


def address_zoom(axis: str) -> dict[str, str]:
    """Return the `meta` of a chart whose zoom is part of the address: nothing else keeps one.

    Args:
        axis: What the horizontal axis is: `step`, `time` or `seconds`.
    """
    return {"axis": axis, "zoom": "address"}


class Figure:
    """A chart that is being drawn.

    Numbers of long traces are numpy arrays of the smallest type that holds them: they reach the
    browser as they lie in memory, NaN where there is none. A property that is None is left out.

    Attributes:
        data: Traces.
        layout: Everything else, as Plotly names it; `shapes` and `annotations` are always there.
    """

    def __init__(self, *traces: Trace) -> None:
        self.data: list[Trace] = list(traces)
        self.layout: Layout = {name: list[dict[str, Any]]() for name in _LISTS}

    def add_trace(self, trace: Trace) -> None:
        """Draw a trace above what is there."""
        self.data.append(trace)

    def update_layout(self, changes: Mapping[str, Any] | None = None, **more: object) -> None:
        """Change the layout: mappings are changed within, everything else is replaced."""
        _merge(self.layout, {**(changes or {}), **more})

    def add_shape(self, **shape: object) -> None:
        """Add one shape."""
        self.layout["shapes"].append(shape)

    def add_annotation(self, **annotation: object) -> None:
        """Add one text."""
        self.layout["annotations"].append(annotation)

    @property
    def margin_top_px(self) -> float:
        """The space above the chart, 0 while nobody asked for any."""
        return self.layout.get("margin", {}).get("t", 0)

    def to_plotly_json(self) -> dict[str, Any]:
        """Return it as JSON can hold it; Dash asks for it by this name."""
        return {
            "data": [_to_plain(trace) for trace in self.data],
            "layout": _to_plain(
                {name: part for name, part in self.layout.items() if part or name not in _LISTS}
            ),
        }


def _merge(target: dict[str, Any], changes: Mapping[str, Any]) -> None:
    for name, value in changes.items():
        known = target.get(name)
        if isinstance(value, Mapping) and isinstance(known, dict):
            _merge(cast("dict[str, Any]", known), cast("Mapping[str, Any]", value))
        elif isinstance(value, Mapping):
            # A copy: what two figures are given must not become what they share.
            own: dict[str, Any] = {}
            _merge(own, cast("Mapping[str, Any]", value))
            target[name] = own
        else:
            target[name] = value


def _to_plain(value: Any) -> Any:  # noqa: ANN401 - whatever a layout holds
    # Nearly all of a figure, some ten thousand values: looked up, not asked class by class.
    kind = cast("type[object]", type(value))
    if kind in _NUMBERS:
        return value
    if kind is list or kind is tuple:
        parts = cast("Sequence[Any]", value)
        return [part if type(part) in _NUMBERS else _to_plain(part) for part in parts]
    if isinstance(value, str):
        return _NOT_OURS.sub("&lt;", value) if "<" in value else value
    if isinstance(value, int | float):
        return value
    if isinstance(value, Mapping):
        named = cast("Mapping[str, Any]", value)
        return {name: _to_plain(part) for name, part in named.items() if part is not None}
    if isinstance(value, Sequence):
        return [_to_plain(part) for part in cast("Sequence[Any]", value)]
    if isinstance(value, np.ndarray):
        return _to_typed(cast("NDArray[Any]", value))
    if isinstance(value, np.generic):
        return cast("np.generic[Any]", value).item()
    return value.isoformat() if isinstance(value, datetime) else value


def _to_typed(values: NDArray[Any]) -> object:
    """Return an array as Plotly reads it without looking at each number."""
    if values.dtype.kind == "M":
        # Plotly takes a number on an axis of the clock for UTC, and adds the browser's zone to it.
        return np.datetime_as_string(values).tolist()
    if values.dtype.kind in "OU":
        return _to_plain(values.tolist())
    kind = _TYPED.get(str(values.dtype))
    if kind is None or not values.size:
        return values.tolist()
    found = {"dtype": kind, "bdata": base64.b64encode(values.tobytes()).decode()}
    if values.ndim > 1:
        found["shape"] = ", ".join(str(size) for size in values.shape)
    return found
