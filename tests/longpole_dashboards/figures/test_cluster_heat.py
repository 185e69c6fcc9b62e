# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from typing import Any

import numpy as np
import pytest

from longpole_dashboards.figures.cluster_heat import average_nodes, cluster_heat
from longpole_dashboards.formats import Zone
from longpole_server.model.gpu import GpuHeatmap, RunGpu
from support.plotly_figures import check_figure

S = 10**9


def make_heatmap(num_nodes: int, field: str = "utilization_ratio") -> GpuHeatmap:
    lanes = tuple(
        RunGpu("r", 0, f"n{node:03d}", f"GPU-{node}-{index}", index, "hybrid", 0, None, "pid")
        for node in range(num_nodes)
        for index in range(8)
    )
    values = np.full((len(lanes), 4), 0.5, dtype=np.float32)
    values[0] = np.nan
    values[1, 1] = 0.1
    values[:8, 3] = np.nan
    return GpuHeatmap(field, lanes, 0, S, values)


def test_a_node_is_the_mean_of_what_its_gpus_report() -> None:
    found = average_nodes(make_heatmap(2))
    assert [lane.host for lane in found.lanes] == ["n000", "n001"]
    assert found.values[0, 0] == pytest.approx(0.5)
    assert found.values[0, 1] == pytest.approx((6 * 0.5 + 0.1) / 7)
    assert np.isnan(found.values[0, 3])
    assert found.values[1, 3] == pytest.approx(0.5)


@pytest.mark.parametrize(("num_nodes", "num_rows"), [(2, 17), (128, 128), (300, 256)])
def test_rows_are_gpus_or_nodes_of_a_large_cluster(num_nodes: int, num_rows: int) -> None:
    figure: Any = check_figure(
        cluster_heat(make_heatmap(num_nodes), (0, 4 * S), zone=Zone(), theme="dark")
    )
    assert len(figure.data[0].y) == num_rows
    assert figure.data[0].z.dtype == np.float32
    assert np.nanmax(figure.data[0].z) == pytest.approx(50.0)
    assert figure.layout.height < 500


def test_bytes_of_a_large_cluster_are_gibibytes() -> None:
    found = make_heatmap(128, "memory_used_bytes")
    found.values[:] = 2.0 * 2**30
    figure: Any = check_figure(cluster_heat(found, (0, 4 * S), zone=Zone(), theme="light"))
    assert np.nanmax(figure.data[0].z) == pytest.approx(2.0)


def test_without_gpus_their_source_is_named() -> None:
    empty = GpuHeatmap("utilization_ratio", (), 0, S, np.empty((0, 4), np.float32))
    figure: Any = check_figure(cluster_heat(empty, (0, 4 * S), zone=Zone(), theme="dark"))
    assert "agent" in figure.layout.annotations[0].text


def test_a_time_of_which_nobody_reported_says_so() -> None:
    found = make_heatmap(2)
    found.values[:] = np.nan
    figure: Any = check_figure(cluster_heat(found, (0, 4 * S), zone=Zone(), theme="dark"))
    assert "No GPU reported its utilisation" in figure.layout.annotations[0].text
