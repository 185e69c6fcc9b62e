# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import json
from typing import Any

import dash_mantine_components as dmc
import orjson
import pytest
from dash import dcc, html
from dash.development.base_component import Component
from hypothesis import given
from hypothesis import strategies as st
from plotly.io.json import to_json_plotly  # pyright: ignore[reportMissingImports]

from longpole_dashboards.components.attributes import attributes
from longpole_dashboards.components.plain import Plain, flatten, to_values


def content(value: object) -> Any:
    found = flatten(value)
    assert isinstance(found, Plain)
    return getattr(found, "content", None)


def children(component: Component) -> list[Any]:
    return getattr(component, "children", [])


def test_what_only_shows_something_becomes_one_piece() -> None:
    shown = html.Div(
        [html.B("3"), " of ", 8, None, html.Td(colSpan=2, **attributes(data_value=7))],
        className="lp-fact",
        style={"--age": 0.5},
    )
    assert content(shown) == [
        "div",
        {"className": "lp-fact", "style": {"--age": 0.5}},
        ["b", {}, "3"],
        " of ",
        "8",
        ["td", {"colSpan": 2, "data-value": "7"}],
    ]


def test_a_link_stays_one_that_loads_nothing_anew() -> None:
    link = dcc.Link("Step 3", href="/step?step=3", className="lp-link", id="step-following")
    assert content(link) == [
        "link",
        {"href": "/step?step=3", "className": "lp-link", "id": "step-following"},
        "Step 3",
    ]
    elsewhere = dcc.Link("docs", href="/docs", target="_blank")
    assert flatten(elsewhere) is elsewhere


def test_what_callbacks_read_or_fill_stays_a_component() -> None:
    wired = html.Button("Save", id="save")
    shown = html.Div([html.B("a"), html.I("b"), wired, html.B("c")])
    assert flatten(shown, {"save"}) is shown
    before, kept, after = children(shown)
    assert getattr(before, "content", None) == ["", {}, ["b", {}, "a"], ["i", {}, "b"]]
    assert kept is wired
    assert getattr(after, "content", None) == ["", {}, ["b", {}, "c"]]


def test_within_a_component_of_others_what_is_plain_is_one_piece() -> None:
    drawer = dmc.Drawer([html.B("a"), dcc.Store(id="s")], id="d")
    assert flatten(drawer) is drawer
    plain, store = children(drawer)
    assert getattr(plain, "content", None) == ["", {}, ["b", {}, "a"]]
    assert isinstance(store, dcc.Store)


@pytest.mark.parametrize("value", ["text", None, 3, {"display": "none"}])
def test_other_values_stay_as_they_are(value: object) -> None:
    assert flatten(value) is value


TREES: st.SearchStrategy[Any] = st.recursive(
    st.text(max_size=3) | st.none() | st.integers(0, 9) | st.builds(dcc.Store, id=st.just("s")),
    lambda inner: st.builds(html.Div, st.lists(inner, max_size=3)) | st.lists(inner, max_size=3),
    max_leaves=12,
)


def read(value: Any) -> list[str]:
    """Return texts and stores in the order in which they are shown."""
    if isinstance(value, Plain):
        return read_node(getattr(value, "content", None))
    if isinstance(value, dcc.Store):
        return ["store"]
    if isinstance(value, Component):
        return read(getattr(value, "children", None))
    if isinstance(value, list | tuple):
        return [text for part in value for text in read(part)]
    return [] if value is None else [str(value)]


def read_node(node: Any) -> list[str]:
    if isinstance(node, list):
        return [text for part in node[2:] for text in read_node(part)]
    return [] if node is None else [node]


@given(TREES)
def test_nothing_is_lost_and_the_order_stays(tree: Any) -> None:
    before = read(tree)
    once = flatten(tree)
    assert read(once) == before
    assert read(flatten(once)) == before


def test_what_leaves_the_server_has_no_component_left() -> None:
    shown = flatten(
        [
            dmc.Select(id="wired", data=[{"value": "a", "label": "b"}], value="a"),
            html.Div([html.B("x"), dcc.Store(id="kept", data=[1])], id="outer"),
            html.Span("plain"),
        ],
        {"wired", "outer", "kept"},
    )
    assert orjson.loads(orjson.dumps(to_values(shown))) == json.loads(to_json_plotly(shown))
    assert to_values("words") == "words"


def test_a_table_without_rows_gets_a_list_of_none() -> None:
    assert flatten([]) == []
