# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from typing import Any

import pytest

from longpole_dashboards.figures.series import health, mfu, throughput
from longpole_dashboards.formats import Zone
from longpole_server.model.step import Step
from longpole_server.service import MetricSeries
from support.dashboard_steps import make_step


def chart(draw: Any, steps: list[Step], axis: str = "step") -> Any:
    return draw(steps, axis=axis, zone=Zone(), theme="dark")


def texts(figure: Any) -> str:
    return " ".join(
        annotation.text.replace("<br>", " ") for annotation in figure.layout.annotations
    )


def test_a_missing_rate_is_a_gap_not_a_zero() -> None:
    figure = chart(throughput, [make_step(1), make_step(2, throughput=None), make_step(3)])
    assert list(figure.data[0].y) == [400.0, None, 400.0]


def test_without_any_rate_the_source_is_named_and_step_times_remain() -> None:
    figure = chart(throughput, [make_step(1, throughput=None)])
    assert "tokens_total of longpole.step()" in texts(figure)
    assert list(figure.data[1].y) == [81.0]


def test_the_open_step_has_no_rate_yet() -> None:
    figure = chart(throughput, [make_step(1), make_step(2, is_open=True)])
    assert list(figure.data[0].x) == [1]
    assert "not ended yet" in texts(chart(throughput, [make_step(2, is_open=True)]))


def test_mfu_is_drawn_in_percent_and_only_what_is_reported() -> None:
    figure = chart(mfu, [make_step(1, mfu_actor=0.31), make_step(2, mfu_actor=None)])
    assert [trace.name for trace in figure.data] == ["actor update"]
    assert figure.data[0].y[0] == pytest.approx(31.0)
    assert figure.data[0].y[1] is None


def test_unknown_mfu_names_its_source() -> None:
    figure = chart(mfu, [make_step(1)])
    assert not figure.data
    assert "model_config" in texts(figure)


def test_health_says_what_is_not_reported() -> None:
    figure: Any = health(
        {
            "clip_fraction": MetricSeries("clip_fraction", ((1, 10, 0.1), (2, 20, 0.62))),
            "entropy": MetricSeries("entropy", ()),
        },
        theme="dark",
    )
    assert "not reported" in texts(figure)
    assert "<b>62.0 %</b>" in texts(figure)
    assert len(figure.data[1].x or ()) == 0


def test_health_shades_the_healthy_band_within_the_chart() -> None:
    series = {"clip_fraction": MetricSeries("clip_fraction", ((1, 10, 0.1), (2, 20, 0.62)))}
    (band,) = health(series, theme="dark").layout.shapes
    assert (band.y0, band.y1) == (0.0, 0.5)
