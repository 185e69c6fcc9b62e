# pyright: reportUnknownMemberType=false

from dash import html

from longpole_dashboards.components.export import csv_button, image_button
from longpole_dashboards.components.panel import graph, panel
from support.dashboard_components import find_all, words


def test_buttons_say_what_they_save_and_from_where() -> None:
    table, chart = csv_button("nodes", "all nodes"), image_button("map", "GPUs", "svg")
    assert (getattr(table, "data-csv"), getattr(table, "data-name")) == ("nodes", "all nodes")
    assert getattr(chart, "data-svg") == "map"
    assert getattr(table, "aria-label")
    assert (words(table), words(chart)) == ("CSV", "SVG")


def test_a_panel_with_a_chart_offers_to_save_it() -> None:
    shown = panel("GPUs", [graph("map", 100)])
    png, svg = find_all(shown, "lp-export")
    assert (getattr(png, "data-png"), getattr(svg, "data-svg")) == ("map", "map")
    assert find_all(panel("Facts", [csv_button("x", "x")]), "lp-panel-controls")


def test_a_chart_that_is_the_only_child_of_its_place_can_be_saved() -> None:
    shown = panel("Energy", [html.Div(graph("energy", 100)), html.Div()])
    assert len(find_all(shown, "lp-export")) == 2
