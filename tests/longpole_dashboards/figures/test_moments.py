# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from longpole_dashboards.figures.figure import Figure, scatter_trace
from longpole_dashboards.figures.moments import Moment, mark_moments
from support.plotly_figures import check_figure

MOMENTS = [
    Moment(11.5, "↻", "attempt 2 begins", "#ffffff"),
    Moment(11.5, "◆", "KV cache too small, firing", "#f0b13c"),
    Moment(20, "▪", "checkpoint in step 20", "#a1acba"),
]


def test_what_happened_at_one_place_shares_a_sign() -> None:
    figure = Figure(scatter_trace(x=[1, 30], y=[1, 2]))
    figure.update_layout(xaxis={"type": "linear"})
    mark_moments(figure, MOMENTS)
    figure = check_figure(figure)
    first, second = figure.layout.annotations
    assert first.hovertext == "attempt 2 begins<br>KV cache too small, firing"
    assert second.text == "▪"
    assert [shape.x0 for shape in figure.layout.shapes] == [11.5, 20]
    assert (figure.layout.margin.t or 0) >= 18


def test_charts_side_by_side_are_all_marked() -> None:
    figure = Figure()
    figure.update_layout(xaxis={"domain": [0, 0.4]}, xaxis2={"domain": [0.6, 1]})
    mark_moments(figure, MOMENTS[:1])
    assert {shape.xref for shape in check_figure(figure).layout.shapes} == {"x", "x2"}


def test_nothing_happened() -> None:
    figure = Figure()
    mark_moments(figure, [])
    assert not figure.layout["shapes"]
