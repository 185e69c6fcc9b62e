"""Reads components in tests as a person reads the page."""

# pyright: reportMissingTypeStubs=false

from collections.abc import Iterator
from typing import Any

from dash.development.base_component import Component


def words(node: object) -> str:
    """Return everything a component says, in reading order."""
    return " ".join(_texts(node))


def find_all(node: object, class_name: str) -> list[Component]:
    """Return the components whose class list holds `class_name`."""
    return [
        found
        for found in _components(node)
        if class_name in str(getattr(found, "className", "")).split()
    ]


def _components(node: object) -> Iterator[Component]:
    if isinstance(node, Component):
        yield node
        yield from _components(getattr(node, "children", None))
    elif isinstance(node, list | tuple):
        items: list[Any] = list(node)  # pyright: ignore[reportUnknownArgumentType]
        for item in items:
            yield from _components(item)


def _texts(node: object) -> Iterator[str]:
    if node is None:
        return
    if isinstance(node, Component):
        yield from _texts(getattr(node, "children", None))
    elif isinstance(node, list | tuple):
        items: list[Any] = list(node)  # pyright: ignore[reportUnknownArgumentType]
        for item in items:
            yield from _texts(item)
    else:
        yield str(node)
