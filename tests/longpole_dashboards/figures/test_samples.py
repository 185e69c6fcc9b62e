# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

import math
from dataclasses import replace
from typing import Any

import pytest

from longpole_dashboards.figures.samples import (
    distribution,
    running_samples,
    sample_waterfall,
)
from longpole_dashboards.theme import ROLES
from longpole_server.service import TrajectoryDistribution
from support.dashboard_fake_service import LIVE_RUN, FakeService
from support.plotly_figures import check_figure

VALUES = tuple(float(v) for v in range(1, 101))
SPREAD = TrajectoryDistribution(
    count=100,
    durations_s=VALUES,
    output_tokens=tuple(v * 100 for v in VALUES),
    tool_s=(math.nan,) * 100,
    score_s=(math.nan,) * 50 + (2.0,) * 50,
    stop_at=((0.8, 12.0),),
)
NOW_NS = 1_760_000_000 * 10**9


def draw(field: str) -> Any:
    return check_figure(distribution(SPREAD, field=field, theme="dark"))


def test_every_sample_is_counted_once() -> None:
    assert sum(draw("time").data[0].y) == 100


def test_the_slowest_samples_are_shaded() -> None:
    figure = draw("time")
    bar = figure.data[0]
    warned = [
        count
        for count, colour in zip(bar.y, bar.marker.color, strict=True)
        if colour == ROLES["dark"].warn
    ]
    assert 1 <= sum(warned) <= 8
    shade = figure.layout.shapes[0]
    assert shade.x0 == pytest.approx(95.05)


def test_median_and_longest_are_named() -> None:
    texts = " ".join(annotation.text for annotation in draw("time").layout.annotations)
    assert "50.5 s" in texts
    assert "1 min 40 s" in texts
    tokens = " ".join(annotation.text for annotation in draw("tokens").layout.annotations)
    assert "10.0 k" in tokens


def test_unknown_values_are_left_out_not_counted_as_zero() -> None:
    assert sum(draw("score").data[0].y) == 50


def test_a_field_nobody_reported_names_its_source() -> None:
    figure = draw("tool")
    assert not figure.data
    assert "longpole.trajectory()" in figure.layout.annotations[0].text.replace("<br>", " ")


def test_the_parts_of_a_sample_add_up_to_its_time() -> None:
    service = FakeService(NOW_NS)
    slowest = service.list_trajectories(LIVE_RUN, 20, limit=1)[0]
    detail = service.get_trajectory(LIVE_RUN, slowest.trajectory_id)
    figure: Any = check_figure(sample_waterfall(detail, theme="dark"))
    own = [t for t in figure.data if t.name in ("generate", "tool", "score", "queue")]
    assert sum(sum(trace.x) for trace in own) == pytest.approx(slowest.duration_s, rel=1e-6)
    engine = [t for t in figure.data if t.name in ("prefill", "decode")]
    siblings = next(trace for trace in figure.data if trace not in [*own, *engine])
    assert len(siblings.x) == 7


def test_a_sample_without_parts_is_one_bar() -> None:
    service = FakeService(NOW_NS)
    slowest = service.list_trajectories(LIVE_RUN, 20, limit=1)[0]
    detail = service.get_trajectory(LIVE_RUN, slowest.trajectory_id)
    figure: Any = check_figure(
        sample_waterfall(replace(detail, spans=(), siblings=()), theme="dark")
    )
    assert list(figure.data[0].x) == [slowest.duration_s]


RUNNING = replace(
    SPREAD,
    stop_at=((0.8, 30.0), (0.9, 20.0), (0.95, 0.0)),
    running=((0.0, 100), (10.0, 40), (50.0, 1), (60.0, 0), (80.0, 0)),
)


def test_the_curve_of_running_samples_shows_the_empty_slots_above_it() -> None:
    figure: Any = check_figure(running_samples(RUNNING, theme="dark"))
    top, curve = figure.data
    assert list(top.y) == [100, 100]
    assert list(curve.x) == [0, 10, 50, 60, 80]
    assert list(curve.customdata) == ["0 %", "60 %", "99 %", "100 %", "100 %"]
    assert [shape.x0 for shape in figure.layout.shapes] == [30, 40]
    assert "80 %" in figure.layout.annotations[0].text


def test_labels_of_stops_leave_each_other_room() -> None:
    close = replace(RUNNING, stop_at=((0.8, 30.0), (0.9, 29.0), (0.95, 10.0)))
    figure: Any = check_figure(running_samples(close, theme="light"))
    assert len(figure.layout.shapes) == 3
    assert [note.x for note in figure.layout.annotations] == [30, 50]


def test_nothing_ran() -> None:
    figure = check_figure(running_samples(replace(RUNNING, running=()), theme="dark"))
    assert not figure.data
