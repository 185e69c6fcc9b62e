"""Stage windows of many processes as a picture: thousands of bars would stop the browser."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longpole_dashboards.figures.bands import Band
from longpole_dashboards.figures.figure import Trace, heatmap_trace
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
    width_ns = max(1, span_ns[1] - span_ns[0])
    by_length = sorted(
        zip(lanes, rows, strict=True), key=lambda each: each[0].start_ns - each[0].end_ns
    )
    for lane, row in by_length:
        first = (lane.start_ns - span_ns[0]) * NUM_COLUMNS // width_ns
        last = max(first + 1, (lane.end_ns - span_ns[0]) * NUM_COLUMNS // width_ns)
        codes[row, max(0, first) : max(0, last)] = code_of[lane.stage]
    return codes


def rasterise_row(
    bands: Sequence[Band], names: Sequence[str], span_ns: tuple[int, int]
) -> NDArray[np.uint8]:
    """Return a code for every column of one row of bands: the stage that takes most of it.

    As in `rasterise`, 0 is for nothing. Windows of one process follow each other, so one that is
    longer than a column always has one of its own.
    """
    edges = np.linspace(span_ns[0], span_ns[1], NUM_COLUMNS + 1)
    covered = np.zeros((len(names) + 1, NUM_COLUMNS))
    for code, name in enumerate(names, start=1):
        own = sorted((band.start_ns, band.end_ns) for band in bands if band.stage == name)
        if not own:
            continue
        ends = np.maximum.accumulate(np.array([end for _, end in own], dtype=np.float64))
        starts = np.array([start for start, _ in own], dtype=np.float64)
        # Where windows of one stage overlap they count once.
        starts[1:] = np.maximum(starts[1:], ends[:-1])
        spent = np.cumsum(np.maximum(0.0, ends - starts))
        moments = np.stack([starts, np.maximum(starts, ends)], axis=1).ravel()
        so_far = np.stack([np.concatenate([[0.0], spent[:-1]]), spent], axis=1).ravel()
        covered[code] = np.diff(np.interp(edges, moments, so_far))
    return covered.argmax(axis=0).astype(np.uint8)


def raster_colours(names: Sequence[str], theme: ThemeName) -> dict[str, Any]:
    """Return the properties of a trace that turn codes into the colours of stages."""
    colours = [ROLES[theme].surface, *(stage_colour(name) for name in names)]
    edges = [at / len(colours) for at in range(len(colours) + 1)]
    return {
        "zmin": -0.5,
        "zmax": len(colours) - 0.5,
        "showscale": False,
        "colorscale": [
            stop
            for at, colour in enumerate(colours)
            for stop in ((edges[at], colour), (edges[at + 1], colour))
        ],
    }


def raster_trace(
    codes: NDArray[np.uint8],
    names: Sequence[str],
    labels: Sequence[str],
    span_s: tuple[float, float],
    yaxis: str,
    theme: ThemeName,
) -> Trace:
    """Return the picture as a trace over `span_s`, seconds from the start."""
    column_s = (span_s[1] - span_s[0]) / NUM_COLUMNS
    return heatmap_trace(
        name="lanes",
        z=codes,
        x0=span_s[0] + column_s / 2,
        dx=column_s,
        y=list(labels),
        yaxis=yaxis,
        **raster_colours(names, theme),
        hovertemplate="%{y}<br>%{x:.2f} s<extra></extra>",
    )
