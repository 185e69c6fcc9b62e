# pyright: reportUnknownMemberType=false


from longpole_dashboards.components.panel import age, attributes, fit_height, legend, panel
from longpole_dashboards.figures.figure import Figure
from support.dashboard_components import words


def test_a_panel_shows_its_title_and_body() -> None:
    shown = panel("MFU", [legend([("gen", "#ffffff", "61 %")])], hint="What it is", aside="drag")
    assert words(shown).split() == ["MFU", "drag", "gen", "61", "%"]


def test_ages_are_left_to_the_browser_and_unknown_ones_are_absent() -> None:
    assert getattr(age(1500), "data-since-ms") == "1500"
    assert words(age(None)) == "–"


def test_attributes_are_text() -> None:
    assert attributes(data_usual_s=None, aria_label="x") == {"data-usual-s": "", "aria-label": "x"}


def test_a_height_moves_to_the_place_of_the_figure() -> None:
    tall = Figure()
    tall.update_layout(height=321.4)
    figure, style = fit_height(tall)
    assert style == {"height": "321px"}
    assert "height" not in figure.layout
    assert fit_height(Figure())[1] == {"height": "160px"}
