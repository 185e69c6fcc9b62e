# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from dataclasses import replace
from typing import Any

from longpole_dashboards.figures.figure import Figure
from longpole_dashboards.figures.replica_rows import draw_replicas, list_replicas
from longpole_dashboards.figures.timeline_rows import StepView
from support.dashboard_fake_service import LIVE_RUN, FakeService
from support.plotly_figures import check_figure

NOW_NS = 1_760_000_000 * 10**9


def make_view() -> StepView:
    service = FakeService(NOW_NS)
    detail = service.get_step(LIVE_RUN, 20)
    samples = service.list_trajectories(LIVE_RUN, 20, limit=10_000)
    return StepView(detail, None, samples, None, NOW_NS)


def test_every_replica_has_a_row_and_ends_with_none_running() -> None:
    view, figure = make_view(), Figure()
    replicas = list_replicas(view.trajectories)
    axis = draw_replicas(figure, view, replicas, "y", "dark")
    traces: Any = check_figure(figure).data
    (trace,) = traces
    assert trace.z.shape[0] == 4
    assert trace.z.sum(axis=0).max() == 256
    assert trace.z[:, -1].tolist() == [0, 0, 0, 0]
    assert axis["ticktext"] == ["samples on<br>4 replicas"]


def test_the_last_sample_of_a_replica_is_told_from_none() -> None:
    view, figure = make_view(), Figure()
    draw_replicas(figure, view, list_replicas(view.trajectories), "y", "dark")
    traces: Any = check_figure(figure).data
    stops = [at for at, _ in traces[0].colorscale]
    # One of so many has left the darkest colours behind.
    assert stops[0] == 0
    assert stops[1] < 1 / traces[0].zmax
    assert stops[-1] == 1


def test_one_replica_needs_no_rows() -> None:
    samples = [replace(t, replica="only") for t in make_view().trajectories]
    assert list_replicas(samples) == []
    assert list_replicas([replace(t, replica=None) for t in samples]) == []
