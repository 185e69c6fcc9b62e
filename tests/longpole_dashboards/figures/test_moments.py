# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from longpole_dashboards.figures.figure import Figure, scatter_trace
from longpole_dashboards.figures.moments import MAX_MARKS, Moment, mark_moments, mark_time_axis
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


SYNCS = [Moment(at, "▴", f"weight sync in step {at}", "#b667a8") for at in range(1, 13)]


def test_what_comes_with_every_step_is_a_mark_on_the_axis_that_says_when_and_how_long() -> None:
    figure = Figure(scatter_trace(x=[1, 30], y=[1, 2]))
    figure.update_layout(xaxis={"type": "linear", "title": {"text": "time"}})
    mark_time_axis(figure, SYNCS)
    figure = check_figure(figure)
    assert figure.layout.xaxis.minor.tickvals == tuple(range(1, 13))
    assert figure.layout.xaxis.title.text == "time"
    assert [sign.hovertext for sign in figure.layout.annotations][:1] == ["weight sync in step 1"]


def test_marks_too_close_to_be_told_apart_are_left_out() -> None:
    figure = Figure()
    figure.update_layout(xaxis={"type": "linear"})
    mark_time_axis(figure, SYNCS * (MAX_MARKS // len(SYNCS) + 1))
    assert "minor" not in figure.layout["xaxis"]
    mark_time_axis(figure, SYNCS * 3)
    shown = check_figure(figure).layout
    assert len(shown.xaxis.minor.tickvals) == 36
    assert not shown.annotations


def test_nothing_happened() -> None:
    figure = Figure()
    mark_moments(figure, [])
    assert not figure.layout["shapes"]
