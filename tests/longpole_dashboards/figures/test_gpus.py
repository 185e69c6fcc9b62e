# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from typing import Any

import numpy as np
import pytest

from longpole_dashboards.figures.gpus import MAX_LANES, arrange, gpu_heatmap
from longpole_dashboards.formats import Zone
from longpole_server.model.gpu import GpuHeatmap, RunGpu
from longpole_server.model.run import OpenStage
from longpole_server.model.step import Step
from support.dashboard_steps import START_NS, S, make_open_stage, make_step
from support.plotly_figures import check_figure


def make_lane(host: str, index: int, role: str = "hybrid") -> RunGpu:
    return RunGpu("run", 1, host, f"GPU-{host}-{index}", index, role, START_NS, None, "pid")


def make_heat(lanes: list[RunGpu], values: Any, field: str = "sm_active_ratio") -> GpuHeatmap:
    return GpuHeatmap(field, tuple(lanes), START_NS, S, np.array(values, dtype=np.float32))


def draw(heat: GpuHeatmap, steps: list[Step], open_stage: OpenStage | None, now_s: int) -> Any:
    now_ns = START_NS + now_s * S
    return check_figure(
        gpu_heatmap(
            heat,
            steps,
            open_stage,
            now_ns=now_ns,
            span_ns=(START_NS, now_ns),
            zone=Zone(),
            theme="dark",
        )
    )


def test_lanes_are_grouped_by_node_and_role_with_room_between() -> None:
    lanes = [make_lane("b", 0), make_lane("a", 1, "rollout"), make_lane("a", 0, "trainer")]
    rows = arrange(make_heat(lanes, [[0.3], [0.2], [0.1]]))
    assert [name.strip() for name in rows.names] == [
        "a · GPU 1",
        "",
        "a · GPU 0",
        "",
        "b · GPU 0",
    ]
    assert rows.values[:, 0] == pytest.approx([20.0, np.nan, 10.0, np.nan, 30.0], nan_ok=True)
    assert rows.group_names == ("a<br>rollout", "a<br>trainer", "b<br>hybrid")
    assert len(set(rows.names)) == len(rows.names)


def test_what_was_not_measured_stays_empty() -> None:
    rows = arrange(make_heat([make_lane("a", 0)], [[0.5, np.nan, 0.0]]))
    assert np.isnan(rows.values[0, 1])
    assert rows.values[0, 2] == 0.0


@pytest.mark.parametrize(
    ("field", "value", "shown", "unit"),
    [
        ("sm_active_ratio", 0.5, 50.0, "%"),
        ("power_watts", 640.0, 640.0, "W"),
        ("memory_used_bytes", 2.0**31, 2.0, "GiB"),
    ],
)
def test_units(field: str, value: float, shown: float, unit: str) -> None:
    rows = arrange(make_heat([make_lane("a", 0)], [[value]], field))
    assert rows.values[0, 0] == pytest.approx(shown)
    assert rows.unit == unit


def test_a_thousand_gpus_are_cut_to_what_can_be_drawn() -> None:
    lanes = [make_lane(f"n{i // 8:03d}", i % 8) for i in range(1024)]
    rows = arrange(make_heat(lanes, np.zeros((1024, 4))))
    drawn = [name for name in rows.names if name.strip()]
    assert len(drawn) == MAX_LANES
    assert rows.values.dtype == np.float32


def test_stage_bands_stand_over_the_same_time() -> None:
    step = make_step(1, {"gen": 60.0, "update_actor": 20.0}, start_ns=START_NS)
    figure = draw(make_heat([make_lane("a", 0)], [[0.5] * 81]), [step], None, 81)
    gen = next(trace for trace in figure.data if trace.name == "gen")
    assert gen.x[0] == pytest.approx(60_000)
    assert gen.customdata[0][0] == 1
    assert gen.xaxis == figure.data[-1].xaxis


def test_the_open_stage_reaches_to_the_present() -> None:
    running = make_step(2, {}, is_open=True, start_ns=START_NS)
    open_stage = make_open_stage(2, "gen", START_NS + 5 * S)
    figure = draw(make_heat([make_lane("a", 0)], [[0.5] * 30]), [running], open_stage, 30)
    gen = next(trace for trace in figure.data if trace.name == "gen")
    assert gen.x[0] == pytest.approx(25_000)
    assert "so far" in gen.customdata[0][2]


def test_without_gpus_the_bands_remain() -> None:
    step = make_step(1, start_ns=START_NS)
    figure = draw(make_heat([], np.empty((0, 5))), [step], None, 81)
    assert {trace.type for trace in figure.data} == {"bar"}
    assert figure.layout.yaxis.visible is False


def test_no_shapes_are_drawn_for_bands() -> None:
    steps = [make_step(n, start_ns=START_NS + n * 82 * S) for n in range(300)]
    figure = draw(make_heat([make_lane("a", 0)], [[0.5] * 10]), steps, None, 300 * 82)
    assert not figure.layout.shapes
    assert [trace.type for trace in figure.data] == ["heatmap", "bar", "heatmap"]
