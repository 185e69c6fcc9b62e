"""Plain elements in one piece: what only shows something is one component, not hundreds.

Every component of Dash looks at the state of the whole page whenever anything on it changes, so a
page of a thousand small ones spends its time on that. What no callback reads or fills is put
together here into one component, whose elements the browser makes by itself
(`assets/plain.js`).
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from dash import Dash, dcc, html
from dash.development.base_component import Component

# [element, attributes, content ...], a text, or nothing. The element "" has no box of its own.
Node = list[Any] | str | None
_HTML = str(html.Div().to_plotly_json()["namespace"])
# These are not what they are called.
_RENAMED = {"mapel": "map", "objectel": "object"}
# A link that changes the address without loading anything anew.
_LINK = "link"
_LINK_PROPS = frozenset({"children", "href", "id", "className", "title", "style"})


_NONE: list[str] = []
_CHILDREN = ["children"]
_PROPS = ["content"]


class Plain(Component):
    """Elements in one piece. `content` is a node as the browser's part reads it."""

    _children_props = _NONE
    _base_nodes = _CHILDREN
    _namespace = "longpole_components"
    _type = "Plain"
    _prop_names = _PROPS
    _valid_wildcard_attributes = _NONE
    available_properties = _PROPS
    available_wildcard_properties = _NONE

    def __init__(self, content: Node) -> None:
        super().__init__(content=content)


class WiredIds:
    """The ids that callbacks read or fill, known once all callbacks are registered."""

    def __init__(self, app: Dash) -> None:
        self._app = app
        self._found: frozenset[str] = frozenset()

    def find(self) -> Collection[str]:
        """Return them; not before the first request."""
        if not self._found:
            ids = set[str]()
            for name, callback in self._app.callback_map.items():
                ids.update(part.rpartition(".")[0] for part in name.strip(".").split("..."))
                ids.update(str(each["id"]) for each in (*callback["inputs"], *callback["state"]))
            self._found = frozenset(ids)
        return self._found


def flatten(value: Any, wired: Collection[str] = ()) -> Any:  # noqa: ANN401 - any children
    """Return children of a component with everything that only shows something in one piece.

    Args:
        value: A component, text, or a list of them; anything else is returned as it is.
        wired: Ids that callbacks read or fill: these stay components.
    """
    # An empty list may as well be the rows of a table: it holds nothing to put together.
    if not isinstance(value, Component | list | tuple) or value == []:
        return value
    node = _fold(value, wired)
    if not isinstance(node, _Foreign):
        return Plain(node)
    if isinstance(value, Component):
        return _flatten_within(value, wired)
    return _flatten_list(cast("Sequence[Any]", value), wired)


def to_values(value: Any) -> Any:  # noqa: ANN401 - any children
    """Return what `flatten` returned as the values that JSON is written of.

    Dash would find components among them by looking at every value, on the event loop.
    """
    if isinstance(value, Component):
        document = cast("dict[str, Any]", value.to_plotly_json())
        if not isinstance(value, Plain):
            props = cast("dict[str, Any]", document["props"])
            document["props"] = {name: to_values(part) for name, part in props.items()}
        return document
    if isinstance(value, list | tuple):
        return [to_values(part) for part in cast("Sequence[Any]", value)]
    return value


class _Foreign:
    """Marks what holds something that must stay a component."""


_FOREIGN = _Foreign()


def _flatten_within(component: Component, wired: Collection[str]) -> Component:
    children = getattr(component, "children", None)
    if isinstance(children, Component | list | tuple):
        component.children = flatten(children, wired)
    return component


def _flatten_list(values: Sequence[Any], wired: Collection[str]) -> list[Any]:
    """Return a list in which neighbours that only show something are one component."""
    found = list[Any]()
    run = list[Node]()

    def close() -> None:
        if run:
            found.append(Plain(["", {}, *run]))
            run.clear()

    for value in values:
        node = _fold(value, wired)
        if isinstance(node, _Foreign):
            close()
            found.append(flatten(value, wired))
        elif node is not None:
            run.append(node)
    close()
    return found


def _fold(value: object, wired: Collection[str]) -> Node | _Foreign:
    """Return a value as a node, unless something in it must stay a component."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, list | tuple):
        return _fold_element("", {}, list(cast("Sequence[Any]", value)), wired)
    if isinstance(value, dcc.Link):
        return _fold_link(value, wired)
    if isinstance(value, Component) and getattr(value, "_namespace", "") == _HTML:
        props = _read_props(value)
        kind = str(getattr(value, "_type", "")).lower()
        return _fold_element(_RENAMED.get(kind, kind), props, props.get("children"), wired)
    return _FOREIGN


def _read_props(component: Component) -> dict[str, Any]:
    return cast("dict[str, Any]", component.to_plotly_json()["props"])


def _fold_link(link: Component, wired: Collection[str]) -> Node | _Foreign:
    props = _read_props(link)
    if not props.keys() <= _LINK_PROPS:
        return _FOREIGN
    return _fold_element(_LINK, props, props.get("children"), wired)


def _fold_element(
    kind: str, props: Mapping[str, Any], children: object, wired: Collection[str]
) -> Node | _Foreign:
    if not isinstance(props.get("id", ""), str) or props.get("id") in wired:
        return _FOREIGN
    own = {name: value for name, value in props.items() if name != "children"}
    node: list[Any] = [kind, own]
    several = isinstance(children, list | tuple)
    for child in cast("Sequence[object]", children) if several else (children,):
        part = _fold(child, wired)
        if isinstance(part, _Foreign):
            return _FOREIGN
        if part is not None:
            node.append(part)
    return node
