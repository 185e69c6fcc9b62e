# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from typing import Any

import pytest

from longpole_dashboards.figures.alert_marks import mark_alerts
from longpole_dashboards.figures.figure import Figure
from longpole_dashboards.formats import Zone
from longpole_dashboards.theme import ROLES
from support.dashboard_fake_service import LIVE_RUN, FakeService
from support.plotly_figures import check_figure

SERVICE = FakeService(1_760_000_000 * 10**9)
STEPS = SERVICE.list_steps(LIVE_RUN)
ALERTS = SERVICE.alerts.list_alerts(run_id=LIVE_RUN)


def draw(asked: tuple[int, int] | None = None, axis: str = "step") -> Any:
    figure = Figure()
    mark_alerts(
        figure,
        ALERTS,
        {"gpu.throttled": "GPU throttled"},
        asked=asked,
        steps=STEPS,
        axis=axis,
        zone=Zone(),
        theme="dark",
    )
    return check_figure(figure)


@pytest.mark.parametrize("axis", ["step", "time"])
def test_a_sign_stands_where_each_alert_began(axis: str) -> None:
    marks = draw(axis=axis).layout.annotations
    assert [mark.text for mark in marks] == ["◆", "◆"]
    assert {"GPU throttled" in mark.hovertext for mark in marks} == {True, False}
    if axis == "step":
        assert {mark.x for mark in marks} == {17, 29}
    assert marks[0].font.color == ROLES["dark"].warn


@pytest.mark.parametrize("axis", ["step", "time"])
def test_the_steps_that_an_address_points_at_are_shaded(axis: str) -> None:
    [shade] = draw((14, 17), axis).layout.shapes
    if axis == "step":
        assert (shade.x0, shade.x1) == (13.5, 17.5)
    assert not draw((900, 901), axis).layout.shapes
