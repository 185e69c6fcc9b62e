# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from dataclasses import replace
from typing import Any

from longpole_dashboards.figures.sample_lanes import MAX_SIBLINGS, GroupView, sample_lanes
from support.dashboard_fake_service import LIVE_RUN, FakeService
from support.plotly_figures import check_figure

SERVICE = FakeService(1_760_000_000 * 10**9)
SAMPLE = "0020-003-2"


def make_view(**changes: Any) -> GroupView:
    detail = SERVICE.get_trajectory(LIVE_RUN, SAMPLE)
    members = (detail.trajectory, *detail.siblings)
    parts = {**SERVICE.get_sibling_parts(LIVE_RUN, SAMPLE), SAMPLE: detail.spans}
    step = SERVICE.list_steps(LIVE_RUN, 20, 20)[0]
    return replace(GroupView(detail.trajectory, members, parts, step), **changes)


def ticks(figure: Any) -> list[str]:
    return list(figure.layout.yaxis.ticktext)


def test_lanes_turns_and_the_group_share_one_axis() -> None:
    figure: Any = check_figure(sample_lanes(make_view(), theme="dark"))
    shown = ticks(figure)
    lanes = ["step", "turns", "generate", "prefill", "decode", "tool", "score", "queue"]
    assert shown[: len(lanes)] == lanes
    assert f"<b>{SAMPLE}</b>" in shown
    assert len(shown) == len(lanes) + 8
    assert "step" in figure.layout.xaxis.title.text


def test_every_part_of_every_sibling_is_drawn_once() -> None:
    view = make_view()
    figure: Any = check_figure(sample_lanes(view, theme="light"))
    first_row = figure.layout.yaxis.tickvals[8]
    drawn = sum(row >= first_row for trace in figure.data if trace.type == "bar" for row in trace.y)
    inside = {"prefill", "decode"}
    assert drawn == sum(p.kind not in inside for parts in view.parts.values() for p in parts)


def test_a_sample_without_parts_is_drawn_in_one_piece() -> None:
    view = make_view(parts={})
    figure: Any = check_figure(sample_lanes(view, theme="dark"))
    assert ticks(figure)[:2] == ["step", "sample"]
    assert all("parts not reported" in str(t.customdata) for t in figure.data[-3:-1])


def test_without_a_step_the_axis_begins_with_the_group() -> None:
    view = make_view(step=None)
    assert view.origin_ns == min(member.start_ns for member in view.members)
    figure: Any = check_figure(sample_lanes(view, theme="dark"))
    assert "group" in figure.layout.xaxis.title.text
    assert "step" not in ticks(figure)


def test_samples_that_began_before_their_step_are_not_cut_off() -> None:
    view = make_view()
    early = replace(view.sample, start_ns=view.sample.start_ns - 10**12)
    moved = replace(view, sample=early, members=(early, *view.members[1:]))
    assert moved.origin_ns == early.start_ns


def test_large_groups_are_cut_and_keep_the_sample() -> None:
    view = make_view()
    many = [replace(view.members[1], trajectory_id=f"s{n}") for n in range(100)]
    figure: Any = check_figure(
        sample_lanes(replace(view, members=(*many, view.sample)), theme="dark")
    )
    assert f"<b>{SAMPLE}</b>" in ticks(figure)
    assert len(ticks(figure)) == 8 + MAX_SIBLINGS


def test_long_names_keep_their_end() -> None:
    view = make_view()
    named = replace(view.sample, trajectory_id="a-very-long-name-of-a-sample-17")
    figure: Any = check_figure(
        sample_lanes(replace(view, sample=named, members=(named,)), theme="dark")
    )
    assert ticks(figure)[-1] == "<b>…-of-a-sample-17</b>"
