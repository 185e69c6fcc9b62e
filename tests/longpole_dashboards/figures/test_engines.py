# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from typing import Any

import numpy as np

from longpole_dashboards.figures.engines import MAX_ROWS, engine_lanes
from longpole_dashboards.formats import Zone
from longpole_server.model.engines import EngineLanes
from support.plotly_figures import check_figure

S = 1_000_000_000
START_NS = 1_760_000_000 * S


def make_lanes(replicas: int, bins: int = 30) -> EngineLanes:
    shape = (replicas, bins)
    kv = np.full(shape, 0.5, dtype=np.float32)
    kv[-1, 3] = 0.98
    kv[:, 7] = np.nan
    running = np.full(shape, 10, dtype=np.float32)
    running[:, 7] = np.nan
    preempted = np.zeros(shape, dtype=np.float32)
    preempted[0, 4] = 3
    names = tuple(f"replica-{at:03}" for at in range(replicas))
    return EngineLanes(
        names, START_NS, 2 * S, kv, running, np.zeros(shape, dtype=np.float32), preempted
    )


def draw(lanes: EngineLanes) -> dict[str, Any]:
    span_ns = (lanes.start_ns, lanes.start_ns + lanes.bin_ns * 30)
    figure = check_figure(engine_lanes(lanes, span_ns, zone=Zone(), theme="dark"))
    traces: Any = figure.data
    return {str(trace.name): trace for trace in traces}


def test_requests_of_all_engines_add_up_and_missing_is_not_zero() -> None:
    drawn = draw(make_lanes(3))
    assert drawn["run"].y[0] == 30
    assert np.isnan(drawn["run"].y[7])
    assert drawn["preempted"].customdata == (3,)


def test_the_fullest_cache_shows_among_many_replicas() -> None:
    drawn = draw(make_lanes(500))
    assert drawn["kv"].z.shape[0] <= MAX_ROWS
    assert np.nanmax(drawn["kv"].z) == np.float32(98)


def test_without_preemptions_none_is_drawn() -> None:
    lanes = make_lanes(2)
    lanes.preemptions[:] = 0
    assert "preempted" not in draw(lanes)


def test_a_cache_in_little_use_is_told_from_an_empty_one() -> None:
    lanes = make_lanes(2)
    lanes.kv_usage_ratio[:] = 0.031
    lanes.kv_usage_ratio[0, 3] = 0.0
    span_ns = (lanes.start_ns, lanes.start_ns + lanes.bin_ns * 30)
    figure = check_figure(engine_lanes(lanes, span_ns, zone=Zone(), theme="dark"))
    traces: Any = figure.data
    (kv,) = [trace for trace in traces if trace.name == "kv"]
    layout: Any = figure.layout
    assert kv.zmax == 5
    assert layout.yaxis2.ticktext == ("KV cache<br>0 to 5 %",)


def test_the_colours_of_a_full_cache_end_where_it_is_full() -> None:
    assert draw(make_lanes(2))["kv"].zmax == 100
