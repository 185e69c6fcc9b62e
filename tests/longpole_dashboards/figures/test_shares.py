# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from typing import Any

import pytest

from longpole_dashboards.figures.shares import Axis, Unit, stage_shares
from longpole_dashboards.formats import Zone
from longpole_server.model.step import Step
from support.dashboard_steps import S, make_open_stage, make_step


def draw(steps: list[Step], unit: Unit = "seconds", axis: Axis = "step", **more: Any) -> Any:
    return stage_shares(steps, unit=unit, axis=axis, zone=Zone(), theme="dark", **more)


def heights(figure: Any, step: int) -> dict[str, float]:
    """Return the drawn parts of one step's bar, on the main axis."""
    found = {}
    for trace in figure.data:
        if trace.yaxis in (None, "y"):
            for detail, height in zip(trace.customdata, trace.y, strict=True):
                if detail[0] == step and height is not None:
                    found[trace.name] = height
    return found


def test_parts_add_up_to_the_step() -> None:
    figure = draw([make_step(4, {"gen": 61.0, "ref": 5.5}, unattributed_s=0.5)])
    parts = heights(figure, 4)
    assert parts == {"gen": 61.0, "ref": 5.5, "unattributed": 0.5}
    assert sum(parts.values()) == pytest.approx(67.0)


def test_percent_parts_add_up_to_a_hundred() -> None:
    figure = draw([make_step(4, {"gen": 61.0, "ref": 5.5})], unit="percent")
    assert sum(heights(figure, 4).values()) == pytest.approx(100.0)


def test_missing_stays_missing() -> None:
    figure = draw([make_step(1, {"gen": 60.0, "reward": 3.0}), make_step(2, {"gen": 60.0})])
    assert "reward" in heights(figure, 1)
    assert "reward" not in heights(figure, 2)


def test_time_between_steps_stands_apart() -> None:
    figure = draw([make_step(10, outside={"testing": 21.0}), make_step(11)])
    apart = [trace for trace in figure.data if trace.yaxis == "y2"]
    assert [trace.name for trace in apart] == ["validation, between steps"]
    assert list(apart[0].y) == [21.0, None]
    assert sum(heights(figure, 10).values()) == pytest.approx(81.0)
    assert "yaxis2" not in draw([make_step(11)]).layout


def test_the_open_step_is_pale() -> None:
    running = make_step(2, {"gen": 10.0}, is_open=True)
    figure = draw([make_step(1), running])
    assert list(figure.data[0].marker.opacity) == [1.0, 0.45]


def test_a_hang_does_not_flatten_the_other_steps_and_says_how_long() -> None:
    steps = [make_step(n) for n in range(1, 9)]
    running = make_step(9, {"gen": 60.0}, is_open=True)
    open_stage = make_open_stage(9, "update_weights", running.start_ns + 60 * S)
    figure = draw([*steps, running], open_stage=open_stage, now_ns=running.start_ns + 1860 * S)
    assert figure.layout.yaxis.range[1] < 200
    assert "▲ 31 min" in [annotation.text for annotation in figure.layout.annotations]


def test_attempts_are_marked_once_each() -> None:
    steps = [make_step(n, attempt=1 if n < 4 else 2) for n in range(1, 8)]
    figure = draw(steps)
    assert [shape.x0 for shape in figure.layout.shapes] == [3.5]
    assert "attempt 2" in [annotation.text for annotation in figure.layout.annotations]


def test_on_the_clock_bars_are_as_wide_as_their_steps() -> None:
    figure = draw([make_step(1), make_step(2)], axis="time")
    assert list(figure.data[0].width) == pytest.approx([81_000.0, 81_000.0])
    assert figure.layout.xaxis.type == "date"


def test_ten_thousand_steps_are_a_few_hundred_bars() -> None:
    figure = draw([make_step(n) for n in range(1, 10_001)])
    assert len(figure.data[0].x) <= 241
    assert len(figure.layout.shapes or ()) == 0


def test_zoom_survives_new_steps_but_not_another_unit() -> None:
    before, after = draw([make_step(1)]), draw([make_step(1), make_step(2)])
    assert before.layout.uirevision == after.layout.uirevision
    assert before.layout.uirevision != draw([make_step(1)], unit="percent").layout.uirevision
