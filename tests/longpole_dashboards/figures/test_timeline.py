# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from longpole_dashboards.figures.timeline import step_timeline
from longpole_dashboards.figures.timeline_rows import SLOWEST_LANES, StepView, fit_label
from longpole_server.model.step import StageLane, SyncPhase
from longpole_server.model.trajectory import Trajectory
from support.dashboard_fake_service import BARE_RUN, LIVE_RUN, FakeService
from support.dashboard_steps import S
from support.plotly_figures import check_figure

NOW_NS = 1_760_000_000 * S


def make_view(run_id: str = LIVE_RUN, step: int = 29, **changes: Any) -> StepView:
    service = FakeService(NOW_NS)
    detail = service.get_step(run_id, step)
    end_ns = detail.step.end_ns or NOW_NS
    view = StepView(
        detail=detail,
        heatmap=service.get_gpu_heatmap(
            run_id, "sm_active_ratio", detail.step.start_ns, end_ns, 200
        ),
        trajectories=service.list_trajectories(run_id, step, limit=10_000),
        open_stage=service.get_run(run_id).summary.open_stage,
        now_ns=NOW_NS,
    )
    return replace(view, **changes)


def draw(view: StepView) -> Any:
    return check_figure(step_timeline(view, theme="dark"))


def labels(figure: Any) -> list[str]:
    axes = [figure.layout[name] for name in figure.layout if name.startswith("yaxis")]
    return [text for axis in axes for text in (axis.ticktext or ())]


def sample_bars(figure: Any) -> Any:
    return next(trace for trace in figure.data if trace.meta == "sample")


def test_stages_are_as_long_as_they_took() -> None:
    view = make_view()
    figure = draw(view)
    drawn = sum(sum(trace.x) for trace in figure.data if trace.yaxis == "y")
    covered = sum(stage.exclusive_s for stage in view.step.stages)
    assert drawn == pytest.approx(covered)


def test_the_tail_is_shaded_up_to_the_last_sample() -> None:
    view = make_view()
    (shade,) = draw(view).layout.shapes
    ends = sorted(t.end_ns for t in view.trajectories)
    assert shade.x1 == pytest.approx((ends[-1] - view.step.start_ns) / S)
    assert shade.x0 == pytest.approx((ends[243] - view.step.start_ns) / S)
    assert "the last 12 of 256 samples" in draw(view).layout.annotations[0].text


def test_samples_running_rise_to_all_and_fall_to_none() -> None:
    figure = draw(make_view())
    running = next(trace for trace in figure.data if trace.type == "scatter")
    assert max(running.y) <= 256
    assert max(running.y) > 200
    assert running.y[-1] == 0


def test_the_slowest_samples_have_bars_and_the_chosen_one_stands_out() -> None:
    view = make_view()
    chosen = view.trajectories[4].trajectory_id
    bars = sample_bars(draw(replace(view, selected=chosen)))
    assert [detail[0] for detail in bars.customdata][4] == chosen
    assert len(set(bars.marker.color)) == 2
    assert bars.marker.color[4] != bars.marker.color[0]


def test_a_chosen_sample_that_is_not_slow_gets_the_last_bar() -> None:
    view = make_view()
    chosen: Trajectory = view.trajectories[200]
    bars = sample_bars(draw(replace(view, selected=chosen.trajectory_id)))
    assert len(bars.customdata) == SLOWEST_LANES
    assert bars.customdata[-1][0] == chosen.trajectory_id


def test_idle_gaps_say_their_gpu_seconds() -> None:
    view = make_view()
    figure = draw(view)
    gaps = next(t for t in figure.data if t.text and "GPU·s" in str(t.text[0]))
    assert list(gaps.text) == [f"{gap.gpu_seconds:.0f} GPU·s" for gap in view.detail.gaps]


def test_gpu_seconds_of_gaps_side_by_side_do_not_lie_on_each_other() -> None:
    view = make_view()
    begin, length = view.step.start_ns, view.end_ns - view.step.start_ns
    ends = [(0.1, 0.5), (0.5, 0.51), (0.52, 0.53), (0.8, 0.81)]
    gaps = [
        replace(
            view.detail.gaps[0],
            start_ns=begin + int(start * length),
            end_ns=begin + int(end * length),
        )
        for start, end in ends
    ]
    figure = draw(replace(view, detail=replace(view.detail, gaps=tuple(gaps))))
    drawn = next(t for t in figure.data if t.text and "GPU·s" in str(t.text[0]))
    assert list(drawn.textposition) == ["inside", "none", "outside", "outside"]


def test_a_stage_is_named_in_two_lines_where_one_has_no_room() -> None:
    assert fit_label("update weights", 0.2) == "update weights"
    assert fit_label("update weights", 0.06) == "update<br>weights"
    assert fit_label("update weights", 0.03) == ""
    assert fit_label("ref", 0.03) == "ref"


def test_rows_without_data_are_left_out() -> None:
    figure = draw(make_view(BARE_RUN, 5))
    assert labels(figure) == ["stages"]


def test_other_processes_are_lanes_of_their_own() -> None:
    view = make_view()
    lane = StageLane("gen", "rollout", "node-a2", 7, view.step.start_ns, view.step.start_ns + S)
    detail = replace(view.detail, lanes=(lane, replace(lane, pid=8)))
    assert "rollout node-a2" in labels(draw(replace(view, detail=detail)))


def test_a_lane_that_is_an_estimate_says_so() -> None:
    view = make_view()
    lane = StageLane("gen", "worker", "node-a2", 7, view.step.start_ns, view.step.start_ns + S)
    guessed = replace(lane, pid=8, is_estimate=True)
    figure = draw(replace(view, detail=replace(view.detail, lanes=(lane, guessed))))
    (bar,) = (
        trace
        for trace in figure.data
        if trace.customdata is not None and "worker on node-a2" in str(trace.customdata)
    )
    assert ["estimated" in text[0] for text in bar.customdata] == [False, True]
    assert bar.marker.color[0] != bar.marker.color[1]


def test_the_open_step_ends_now() -> None:
    view = make_view(step=31)
    figure = draw(view)
    assert view.step.duration_s is None
    assert figure.layout.xaxis.range[1] == pytest.approx(
        (NOW_NS - view.step.start_ns) / S, rel=0.01
    )
    assert not figure.layout.shapes


def test_rows_do_not_overlap() -> None:
    figure = draw(make_view())
    axes = [figure.layout[name] for name in figure.layout if name.startswith("yaxis")]
    domains = sorted(tuple(axis.domain) for axis in axes)
    assert all(low[1] < high[0] for low, high in pairwise(domains))
    assert domains[0][0] >= 0


def test_a_part_of_a_step_is_drawn_more_finely() -> None:
    whole = make_view()
    start_ns = whole.step.start_ns
    part = replace(whole, chosen_ns=(start_ns + 20 * S, start_ns + 30 * S))
    before, figure = draw(whole), draw(part)
    assert tuple(figure.layout.xaxis.range) == (20.0, 30.0)
    assert figure.layout.uirevision != before.layout.uirevision
    coarse, fine = (next(t for t in each.data if t.name == "replicas") for each in (before, figure))
    assert fine.dx < coarse.dx / 5
    assert fine.x0 == pytest.approx(20.0 + fine.dx / 2)
    for trace in figure.data:
        if trace.yaxis == "y":
            assert all(
                20.0 <= base <= base + x <= 30.0
                for base, x in zip(trace.base, trace.x, strict=True)
            )


def test_samples_that_run_in_a_part_are_those_of_the_whole() -> None:
    whole = make_view()
    start_ns = whole.step.start_ns
    part = replace(whole, chosen_ns=(start_ns + 20 * S, start_ns + 30 * S))
    full, some = (next(t for t in draw(v).data if t.type == "scatter") for v in (whole, part))
    of_whole = dict(zip(full.x, full.y, strict=True))
    assert all(of_whole[x] == y for x, y in zip(some.x, some.y, strict=True))
    # The line reaches both edges.
    assert min(some.x) <= 20.0 and max(some.x) >= 30.0


def test_many_processes_in_a_part_lie_where_they_lay() -> None:
    view = make_view()
    start_ns = view.step.start_ns
    lanes = tuple(
        StageLane("gen", "rollout", "n", pid, start_ns + 22 * S, start_ns + 24 * S)
        for pid in range(200)
    )
    part = replace(
        view,
        detail=replace(view.detail, lanes=lanes),
        chosen_ns=(start_ns + 20 * S, start_ns + 30 * S),
    )
    picture = next(t for t in draw(part).data if t.name == "lanes")
    columns = [at for at, code in enumerate(picture.z[0]) if code]
    assert picture.x0 + picture.dx * columns[0] == pytest.approx(22.0, abs=0.02)
    assert picture.x0 + picture.dx * columns[-1] == pytest.approx(24.0, abs=0.02)


def test_a_weight_sync_after_the_step_makes_no_empty_row() -> None:
    view = make_view()
    end_ns = view.end_ns
    after = (SyncPhase("transfer", end_ns + S, end_ns + 2 * S),)
    assert "sync phases" not in labels(
        draw(replace(view, detail=replace(view.detail, sync_phases=after)))
    )
    inside = (SyncPhase("transfer", end_ns - 2 * S, end_ns - S), *after)
    assert "sync phases" in labels(
        draw(replace(view, detail=replace(view.detail, sync_phases=inside)))
    )
