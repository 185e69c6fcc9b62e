# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from typing import Any

from longpole_dashboards.figures.quantiles import quantiles
from longpole_server.model.comparison import Quantiles, SampleDistribution
from support.plotly_figures import check_figure

BEFORE = Quantiles(100, 10.0, 20.0, 40.0, 80.0)
AFTER = Quantiles(90, 5.0, 20.0, 44.0, 60.0)


def test_both_sides_stand_on_one_axis_a_figure() -> None:
    found = [
        SampleDistribution("duration_s", "s", BEFORE, AFTER),
        SampleDistribution("output_tokens", "tokens", BEFORE, AFTER),
    ]
    figure: Any = check_figure(quantiles(found, theme="dark"))
    assert [list(trace.x) for trace in figure.data[:2]] == [
        [10.0, 20.0, 40.0, 80.0],
        [5.0, 20.0, 44.0, 60.0],
    ]
    assert "median −50 %, 99 % +10 %" in figure.layout.annotations[0].text
    assert figure.layout.xaxis2.tickformat == "~s"


def test_without_samples_on_one_side_their_source_is_named() -> None:
    nothing = Quantiles(0, None, None, None, None)
    found = [SampleDistribution("duration_s", "s", BEFORE, nothing)]
    figure: Any = check_figure(quantiles(found, theme="light"))
    assert "longpole.trajectory()" in figure.layout.annotations[0].text
