"""Stage windows of many processes as a picture: thousands of bars would stop the browser."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from longpole_dashboards.figures.plotted import plotted
from longpole_dashboards.theme import ROLES, ThemeName, stage_colour
from longpole_server.model.step import StageLane

# Above either of these, lanes are a picture.
MAX_BARS, MAX_BAR_ROWS = 1_500, 48
MAX_ROWS, NUM_COLUMNS = 160, 1_200


def needs_raster(lanes: Sequence[StageLane], num_rows: int) -> bool:
    """Tell whether bars would be too many."""
    return len(lanes) > MAX_BARS or num_rows > MAX_BAR_ROWS


def rasterise(
    lanes: Sequence[StageLane], rows: Sequence[int], names: Sequence[str], span_ns: tuple[int, int]
) -> NDArray[np.uint8]:
    """Return a code for every row and column: 0 for nothing, else 1 + the stage's place in `names`.

    Longer windows lie below shorter ones, and none is narrower than a column, so that nothing
    disappears.

    Args:
        lanes: The windows.
        rows: Row of each.
        names: The stages in the order of their codes.
        span_ns: Time that the columns cover.
    """
    num_rows = max(rows, default=-1) + 1
    codes = np.zeros((num_rows, NUM_COLUMNS), dtype=np.uint8)
    code_of = {name: code for code, name in enumerate(names, start=1)}
    scale = NUM_COLUMNS / max(1, span_ns[1] - span_ns[0])
    by_length = sorted(
        zip(lanes, rows, strict=True), key=lambda each: each[0].start_ns - each[0].end_ns
    )
    for lane, row in by_length:
        first = int((lane.start_ns - span_ns[0]) * scale)
        last = max(first + 1, int((lane.end_ns - span_ns[0]) * scale))
        codes[row, max(0, first) : max(0, last)] = code_of[lane.stage]
    return codes


def raster_trace(
    codes: NDArray[np.uint8],
    names: Sequence[str],
    labels: Sequence[str],
    length_s: float,
    yaxis: str,
    theme: ThemeName,
) -> go.Heatmap:
    """Return the picture as a trace whose horizontal axis is seconds from the start."""
    colours = [ROLES[theme].surface, *(stage_colour(name) for name in names)]
    edges = [at / len(colours) for at in range(len(colours) + 1)]
    scale = [
        stop
        for at, colour in enumerate(colours)
        for stop in ((edges[at], colour), (edges[at + 1], colour))
    ]
    return go.Heatmap(
        name="lanes",
        z=plotted(codes),
        x0=length_s / NUM_COLUMNS / 2,
        dx=length_s / NUM_COLUMNS,
        y=plotted(list(labels)),
        yaxis=yaxis,
        zmin=-0.5,
        zmax=len(colours) - 0.5,
        colorscale=scale,
        showscale=False,
        hovertemplate="%{y}<br>%{x:.2f} s<extra></extra>",
    )
