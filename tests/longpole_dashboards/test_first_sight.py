# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

import json
from typing import Any

import pytest
from dash import dcc, html, no_update
from plotly.io.json import to_json_plotly  # pyright: ignore[reportMissingImports]

from longpole_dashboards.addresses import Query
from longpole_dashboards.first_sight import LATER, Page, Visit, fill, put_off, write_json
from longpole_dashboards.pages import alerts, cluster, compare, run, runs, sample, step
from longpole_dashboards.refresh import (
    Panel,
    PanelGroup,
    Rendered,
    group_stores,
    group_targets,
    notice_slot,
)

GROUP = PanelGroup[None](
    "g",
    "/",
    lambda _reader, _view: None,
    (Panel((("a", "children"), ("b", "style")), lambda _: 0, lambda _: ()),),
)


def find(page: html.Div, place: str) -> Any:
    return page[place]


def make_page() -> html.Div:
    places = [html.Div(id="a"), html.Div(html.Div(id="b"))]
    return html.Div([*group_stores("g"), notice_slot("g"), *places])


def test_an_address_is_told_as_the_browser_has_it() -> None:
    visit = Visit.parse(
        {
            "href": "http://here/run?id=a%2Fb&steps=all#x",
            "theme": "light",
            "zone": "Europe/Berlin",
            "offset_min": "-90",
        }
    )
    assert visit is not None
    assert (visit.pathname, visit.search, visit.fragment) == ("/run", "?id=a%2Fb&steps=all", "#x")
    assert visit.theme == "light"
    assert visit.zone == {"name": "Europe/Berlin", "offset_min": -90}


@pytest.mark.parametrize(
    "href", ["", "/run", "javascript:1", "http://[", "http://x/" + "a" * 9_000]
)
def test_what_is_no_address_is_none(href: str) -> None:
    assert Visit.parse({"href": href}) is None


def test_what_a_browser_says_wrongly_is_left_out() -> None:
    visit = Visit.parse({"href": "http://x", "theme": "pink", "offset_min": "soon"})
    assert visit is not None
    assert (visit.pathname, visit.theme, visit.zone) == ("/", "dark", {"name": ""})


def test_an_answer_is_put_where_its_callback_would_put_it() -> None:
    page = make_page()
    fill(page, GROUP, Rendered(["words", no_update], {"0": "key"}, "notice"), "v1")
    assert find(page, "a").children == "words"
    assert not hasattr(find(page, "b"), "style")
    assert find(page, "g-notice").children == "notice"
    assert find(page, "g-answer").data == {"version": "v1", "keys": {"0": "key"}}


def test_what_is_below_waits() -> None:
    page = make_page()
    put_off(page, GROUP)
    assert find(page, "g-pulse").data["version"] == LATER


@pytest.mark.parametrize("page", [alerts, cluster, compare, run, runs, sample, step])
def test_every_page_has_a_place_for_all_that_its_groups_fill(page: Page) -> None:
    body: Any = page.layout(Query.parse("?run=r&id=i&step=1"))
    for group in (*page.FIRST_GROUPS, *page.LATER_GROUPS):
        for place, _ in (*group_targets(group), (f"{group.name}-answer", "data")):
            assert body[place] is not None


def test_a_frame_is_written_as_dash_writes_it() -> None:
    figure = {"data": [{"type": "bar", "y": [1.5, None]}], "layout": {"title": "a < b"}}
    frame = html.Div([dcc.Graph(id="g", figure=figure), dcc.Store(id="s", data={1: "x"}), "€"])
    assert json.loads(write_json(frame)) == json.loads(to_json_plotly(frame))


def test_what_is_no_value_of_json_is_named() -> None:
    with pytest.raises(TypeError, match="object"):
        write_json(html.Div(style={"width": object()}))


def test_of_what_is_not_there_no_panel_is_seen_before_the_browser_looks() -> None:
    page = make_page()
    fill(page, GROUP, Rendered([no_update, no_update], {}, "no such step"), "v1")
    assert b"data-missing" not in write_json(page)
    missing = Rendered([no_update, no_update], {}, "no such step", is_missing=True)
    fill(page, GROUP, missing, "v1")
    assert b'"data-missing":"yes"' in write_json(page)
