# pyright: reportUnknownMemberType=false

from longpole_dashboards.components.export import csv_button, image_button
from longpole_dashboards.components.panel import graph, panel
from support.dashboard_components import find_all, words


def test_buttons_say_what_they_save_and_from_where() -> None:
    table, chart = csv_button("nodes", "all nodes"), image_button("map", "GPUs")
    assert (getattr(table, "data-csv"), getattr(table, "data-name")) == ("nodes", "all nodes")
    assert getattr(chart, "data-svg") == "map"
    assert getattr(table, "aria-label")
    assert (words(table), words(chart)) == ("CSV", "SVG")


def test_a_panel_with_a_chart_offers_to_save_it() -> None:
    shown = panel("GPUs", [graph("map", 100)])
    assert [getattr(one, "data-svg") for one in find_all(shown, "lp-export")] == ["map"]
    assert find_all(panel("Facts", [csv_button("x", "x")]), "lp-panel-controls")
