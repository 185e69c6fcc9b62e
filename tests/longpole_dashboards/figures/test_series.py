# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from typing import Any

import pytest

from longpole_dashboards.figures.series import mfu, throughput
from longpole_dashboards.formats import Zone
from longpole_server.model.step import Step
from support.dashboard_steps import make_step
from support.plotly_figures import check_figure


def chart(draw: Any, steps: list[Step], axis: str = "step") -> Any:
    return check_figure(draw(steps, axis=axis, zone=Zone(), theme="dark"))


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
