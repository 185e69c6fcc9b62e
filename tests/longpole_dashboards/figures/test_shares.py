# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from dataclasses import replace
from typing import Any

import pytest

from longpole_dashboards.figures.share_parts import Axis, Unit
from longpole_dashboards.figures.shares import stage_shares
from longpole_dashboards.formats import Zone
from longpole_server.model.annotations import VerdictChange
from longpole_server.model.step import Step
from support.dashboard_steps import S, make_open_stage, make_step
from support.plotly_figures import check_figure


def draw(steps: list[Step], unit: Unit = "seconds", axis: Axis = "step", **more: Any) -> Any:
    return check_figure(
        stage_shares(steps, unit=unit, axis=axis, zone=Zone(), theme="dark", **more)
    )


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


def test_a_step_that_stalled_stands_out_among_ten_thousand() -> None:
    steps = [make_step(n) for n in range(1, 10_001)]
    steps[4_710] = make_step(4_711, {"gen": 61.0, "reward": 60.0})
    figure = draw(steps)
    marks = next(trace for trace in figure.data if trace.name == "longest")
    at = max(range(len(marks.y)), key=lambda index: marks.y[index])
    assert marks.y[at] == pytest.approx(122.0)
    assert tuple(marks.customdata[at]) == (4_711, "2 min 2 s", "reward")
    assert figure.layout.yaxis.range[1] > 122.0
    assert abs(marks.x[at] - 4_711) < 30


def test_a_step_far_longer_than_the_others_does_not_flatten_them() -> None:
    steps = [make_step(n) for n in range(1, 1_001)]
    steps[500] = make_step(501, {"gen": 8_000.0})
    figure = draw(steps)
    marks = next(trace for trace in figure.data if trace.name == "beyond the axis")
    assert list(marks.x) == [503.0]
    assert max(marks.y) < figure.layout.yaxis.range[1]
    assert "▲ 2 h 13 min" in [annotation.text for annotation in figure.layout.annotations]


def test_zoom_survives_new_steps_but_not_another_unit() -> None:
    before, after = draw([make_step(1)]), draw([make_step(1), make_step(2)])
    assert before.layout.uirevision == after.layout.uirevision
    assert before.layout.uirevision != draw([make_step(1)], unit="percent").layout.uirevision


CHANGES = (
    VerdictChange(1, "update.inefficient", None),
    VerdictChange(12, "rollout.long_tail", "update.inefficient"),
    VerdictChange(90, "balanced", "rollout.long_tail"),
)


def marks(figure: Any) -> list[tuple[str, float]]:
    return [(mark.text, mark.x) for mark in figure.layout.annotations if mark.hovertext]


def test_a_line_stands_where_the_verdict_changed() -> None:
    figure = draw([make_step(number) for number in range(1, 41)], changes=CHANGES)
    assert marks(figure) == [("long tail", 11.5)]
    assert [line.x0 for line in figure.layout.shapes] == [11.5]
    assert figure.layout.annotations[0].hovertext == (
        "from step 12: long tail; before: update inefficient"
    )
    assert figure.layout.margin.t > 20


def test_marks_in_time_and_beside_attempts() -> None:
    steps = [make_step(number, attempt=1 if number < 12 else 2) for number in range(1, 41)]
    figure = draw(steps, axis="time", changes=CHANGES)
    assert len(figure.layout.shapes) == 2
    assert {mark.text for mark in figure.layout.annotations} >= {"attempt 2", "long tail"}


def test_names_that_have_no_room_are_signs() -> None:
    steps = [make_step(number) for number in range(1, 41)]
    close = [VerdictChange(at, "balanced", "rollout.tool") for at in (10, 12, 30, 39)]
    figure = draw(steps, changes=close)
    assert [text for text, _ in marks(figure)] == ["balanced", "◆", "balanced", "balanced"]
    assert [mark.xanchor for mark in figure.layout.annotations] == ["left"] * 3 + ["right"]


def test_without_a_change_nothing_is_marked() -> None:
    figure = draw([make_step(1)], changes=CHANGES[:1])
    assert not figure.layout.shapes
    assert figure.layout.margin.t is None


def test_a_change_within_a_thinned_bar() -> None:
    steps = [make_step(number) for number in range(1, 1001)]
    assert marks(draw(steps, changes=CHANGES))[0] == ("long tail", 10.5)


def areas(figure: Any) -> dict[str, Any]:
    scatter = [trace for trace in figure.data if trace.type == "scatter"]
    return {trace.name: trace for trace in scatter if trace.stackgroup == "inside"}


def test_of_many_steps_a_stage_is_one_area_with_the_corners_of_bars() -> None:
    figure = draw([make_step(n, {"gen": 60.0 + n, "ref": 5.0}) for n in range(1, 121)])
    gen = areas(figure)["gen"]
    assert gen.line.shape == "hvh"
    # It changes halfway between two places: at the ends of steps 1, 2, ... 120.
    halves = [(a + b) / 2 for a, b in zip(gen.x[:-1], gen.x[1:], strict=True)]
    assert halves == [n + 0.5 for n in range(121)]
    assert list(gen.y) == [None, *(60.0 + n for n in range(1, 121)), None]
    assert list(gen.customdata[5][:2]) == [5, "65.0 s"]
    assert not [trace for trace in figure.data if trace.type == "bar"]


def test_an_area_falls_to_nothing_where_a_run_stood_still() -> None:
    steps = [make_step(n) for n in range(1, 121)]
    later = [replace_start(make_step(n), 36_000 * S) for n in range(121, 131)]
    gen = areas(draw([*steps, *later], axis="time"))["gen"]
    around = gen.y.index(None, 1)
    assert list(gen.y[around - 1 : around + 3]) == [
        steps[119].stages[0].exclusive_s,
        None,
        None,
        60.0,
    ]


def replace_start(step: Step, shift_ns: int) -> Step:
    return replace(step, start_ns=step.start_ns + shift_ns, end_ns=(step.end_ns or 0) + shift_ns)


def test_the_open_step_is_a_bar_beside_areas() -> None:
    running = make_step(121, {"gen": 10.0}, is_open=True)
    figure = draw([*(make_step(n) for n in range(1, 121)), running])
    (bar,) = [trace for trace in figure.data if trace.type == "bar"]
    assert list(bar.x) == [121]
    assert list(bar.marker.opacity) == [0.45]
    assert len(areas(figure)["gen"].x) == 122


def test_time_between_many_steps_is_an_area_of_its_own() -> None:
    figure = draw(
        [make_step(n, outside={"testing": 21.0} if n == 60 else {}) for n in range(1, 121)]
    )
    (apart,) = [trace for trace in figure.data if trace.stackgroup == "outside"]
    assert (apart.name, apart.yaxis) == ("validation, between steps", "y2")
    assert [value for value in apart.y if value is not None] == [21.0]


def test_many_percents_add_up_to_a_hundred() -> None:
    figure = draw([make_step(n, {"gen": 60.0, "ref": 5.5}) for n in range(1, 121)], unit="percent")
    assert sum(trace.y[7] for trace in areas(figure).values()) == pytest.approx(100.0)


def test_the_box_of_a_place_names_its_steps() -> None:
    figure = draw([make_step(n) for n in range(1, 1_001)])
    (names,) = [trace for trace in figure.data if trace.name == "names"]
    assert names.customdata[0][1] == "steps 1–5, mean"
    assert figure.layout.xaxis.unifiedhovertitle.text == "<b>around step %{x:.0f}</b>"
    clock = draw([make_step(1), make_step(2)], axis="time")
    assert clock.layout.xaxis.unifiedhovertitle.text == "<b>%{x|%H:%M:%S}</b>"
    assert [detail[1] for detail in clock.data[-1].customdata] == ["step 1", "step 2"]
