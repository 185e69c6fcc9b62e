# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import plotly.graph_objects as go

from longpole_dashboards.figures.moments import Moment, mark_moments

MOMENTS = [
    Moment(11.5, "↻", "attempt 2 begins", "#ffffff"),
    Moment(11.5, "◆", "KV cache too small, firing", "#f0b13c"),
    Moment(20, "▪", "checkpoint in step 20", "#a1acba"),
]


def test_what_happened_at_one_place_shares_a_sign() -> None:
    figure = go.Figure(go.Scatter(x=[1, 30], y=[1, 2]))
    figure.update_layout(xaxis={"type": "linear"})
    mark_moments(figure, MOMENTS)
    first, second = figure.layout.annotations
    assert first.hovertext == "attempt 2 begins<br>KV cache too small, firing"
    assert second.text == "▪"
    assert [shape.x0 for shape in figure.layout.shapes] == [11.5, 20]
    assert (figure.layout.margin.t or 0) >= 18


def test_charts_side_by_side_are_all_marked() -> None:
    figure = go.Figure()
    figure.update_layout(xaxis={"domain": [0, 0.4]}, xaxis2={"domain": [0.6, 1]})
    mark_moments(figure, MOMENTS[:1])
    assert {shape.xref for shape in figure.layout.shapes} == {"x", "x2"}


def test_nothing_happened() -> None:
    figure = go.Figure()
    mark_moments(figure, [])
    assert not figure.layout.shapes
