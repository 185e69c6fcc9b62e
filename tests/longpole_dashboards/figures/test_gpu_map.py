# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

import math
from typing import Any

import numpy as np
import pytest

from longpole_dashboards.figures.gpu_map import Cell, Scale, gpu_map
from support.plotly_figures import check_figure

PERCENT = Scale(100, "%")


def make_cells(num_nodes: int, gpus: int = 8) -> list[Cell]:
    return [
        Cell(f"node-{node:03d}", index, 50.0, "working", f"{node}/{index}")
        for node in range(num_nodes)
        for index in range(gpus)
    ]


def list_names(figure: Any) -> list[str]:
    return next(list(trace.text) for trace in figure.data if getattr(trace, "mode", "") == "text")


@pytest.mark.parametrize("num_nodes", [1, 2, 7, 24, 128])
def test_every_gpu_has_a_cell_of_its_own(num_nodes: int) -> None:
    figure: Any = check_figure(gpu_map(make_cells(num_nodes), PERCENT, selected=None, theme="dark"))
    words = [word for row in figure.data[0].text for word in row if word]
    assert sorted(words) == sorted(cell.words for cell in make_cells(num_nodes))
    assert np.isfinite(figure.data[0].z).sum() == 8 * num_nodes
    assert figure.layout.height < 600
    assert len(list_names(figure)) == num_nodes


def test_what_wants_a_look_is_marked_by_shape() -> None:
    cells = make_cells(2)
    cells[3] = Cell("node-000", 3, 10.0, "throttled", "hot")
    cells[9] = Cell("node-001", 1, math.nan, "silent", "gone")
    figure: Any = check_figure(gpu_map(cells, PERCENT, selected="node-001", theme="light"))
    marks = {trace.name: trace.marker.symbol for trace in figure.data if trace.name}
    assert marks == {"throttled": "triangle-up", "silent": "x-thin"}
    outlined = next(trace for trace in figure.data[1:] if trace.marker.symbol == "square-open")
    assert list(outlined.customdata) == ["node-001"]
    assert list_names(figure)[1] == "<b>node-001</b>"


def test_runs_are_colours_of_their_own() -> None:
    scale = Scale(0, "", ("one", "two"), ("#111111", "#222222"))
    figure: Any = check_figure(gpu_map(make_cells(1), scale, selected=None, theme="dark"))
    assert [stop for _, stop in figure.data[0].colorscale] == ["#111111"] * 2 + ["#222222"] * 2
    assert not figure.data[0].showscale


def test_long_names_keep_their_end() -> None:
    cells = [Cell("a-very-long-name-of-a-node-17", 0, 1.0, "free", "x")]
    figure: Any = check_figure(gpu_map(cells, PERCENT, selected=None, theme="dark"))
    assert list_names(figure) == ["…e-of-a-node-17"]


def test_without_gpus_their_source_is_named() -> None:
    figure: Any = check_figure(gpu_map([], PERCENT, selected=None, theme="dark"))
    assert "agent" in figure.layout.annotations[0].text
