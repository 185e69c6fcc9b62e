# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from typing import Any

from longpole_dashboards.figures.health import health
from longpole_server.service import MetricSeries
from support.plotly_figures import check_figure


def texts(figure: Any) -> str:
    return " ".join(annotation.text for annotation in figure.layout.annotations)


def test_health_says_what_is_not_reported() -> None:
    figure: Any = check_figure(
        health(
            {
                "clip_fraction": MetricSeries("clip_fraction", ((1, 10, 0.1), (2, 20, 0.62))),
                "entropy": MetricSeries("entropy", ()),
            },
            theme="dark",
        )
    )
    assert "not reported" in texts(figure)
    assert "<b>62.0 %</b>" in texts(figure)
    assert len(figure.data[1].x) == 0


def test_health_shades_the_healthy_band_within_the_chart() -> None:
    series = {"clip_fraction": MetricSeries("clip_fraction", ((1, 10, 0.1), (2, 20, 0.62)))}
    (band,) = check_figure(health(series, theme="dark")).layout.shapes
    assert (band.y0, band.y1) == (0.0, 0.5)


def test_a_metric_of_the_trainers_own_is_drawn_by_its_name() -> None:
    name = "actor/<b>pg_loss</b>"
    figure: Any = check_figure(health({name: MetricSeries(name, ((1, 10, 0.5),))}, theme="dark"))
    assert "&lt;b&gt;pg_loss" in texts(figure)


def test_every_axis_of_health_says_its_unit() -> None:
    points = ((1, 10, 0.1), (2, 20, 0.62))
    names = ("entropy", "clip_fraction", "reward_mean")
    series = {name: MetricSeries(name, points) for name in names}
    figure: Any = check_figure(health(series, theme="dark"))
    units = [each.text for each in figure.layout.annotations if each.xanchor == "right"]
    assert units == ["nats"]
    assert figure.layout.yaxis2.tickformat == ".2~%"


def test_a_share_is_told_in_percent_wherever_it_stands() -> None:
    points = ((1, 10, 0.1), (2, 20, 0.8312))
    series = {name: MetricSeries(name, points) for name in ("clip_fraction", "entropy")}
    figure: Any = check_figure(health(series, theme="dark"))
    shares, entropy = (trace.hovertemplate for trace in figure.data)
    assert "%{y:.3~%}" in shares
    assert "%{y:.4~g} nats" in entropy
