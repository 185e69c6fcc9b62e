"""The stage windows of other processes than the loop's: bars, or a picture of very many."""

from collections.abc import Sequence
from typing import Any

from longpole_dashboards.figures.figure import Figure, bar_trace
from longpole_dashboards.figures.stage_raster import (
    MAX_ROWS,
    needs_raster,
    raster_trace,
    rasterise,
)
from longpole_dashboards.figures.timeline_rows import StepView, offset_s, segments
from longpole_dashboards.formats import format_duration
from longpole_dashboards.theme import ThemeName, stage_colour, stage_label, translucent
from longpole_server.model.step import StageLane

LANE_PX = 16.0
_ESTIMATE_SHADE = 0.45
_MIN_RASTER_PX, _MAX_RASTER_PX = 96.0, 320.0


def _describe_lane(lane: StageLane) -> str:
    told = ", estimated from the title of its process" if lane.is_estimate else ""
    return f"{lane.role} on {lane.host}{told}"


def lane_names(lanes: Sequence[StageLane]) -> list[str]:
    """Return the processes of lanes, in the order they appear."""
    return list(dict.fromkeys(f"{lane.role} {lane.host}/{lane.pid}" for lane in lanes))


def lanes_px(lanes: Sequence[StageLane]) -> float:
    """Return how high the rows of other processes are."""
    count = len(lane_names(lanes))
    if needs_raster(lanes, count):
        return max(_MIN_RASTER_PX, min(_MAX_RASTER_PX, 2.0 * count))
    return LANE_PX * count


def draw_lanes(figure: Figure, view: StepView, yaxis: str, theme: ThemeName) -> dict[str, Any]:
    """Draw the stage windows of other processes, one row each; very many as a picture."""
    lanes = view.detail.lanes
    names = lane_names(lanes)
    row_of = {name: row for row, name in enumerate(names)}
    rows = [row_of[f"{lane.role} {lane.host}/{lane.pid}"] for lane in lanes]
    if needs_raster(lanes, len(names)):
        return _draw_picture(figure, view, rows, names, yaxis, theme)
    for stage in dict.fromkeys(lane.stage for lane in lanes):
        own = [lane for lane in lanes if lane.stage == stage]
        label = stage_label(stage)
        figure.add_trace(
            bar_trace(
                **segments(view, [(lane.start_ns, lane.end_ns) for lane in own]),
                y=[row_of[f"{lane.role} {lane.host}/{lane.pid}"] for lane in own],
                width=0.8,
                yaxis=yaxis,
                customdata=[
                    [
                        _describe_lane(lane),
                        format_duration((lane.end_ns - lane.start_ns) / 1e9),
                    ]
                    for lane in own
                ],
                marker={
                    "color": [
                        translucent(stage_colour(stage), _ESTIMATE_SHADE)
                        if lane.is_estimate
                        else stage_colour(stage)
                        for lane in own
                    ]
                },
                hovertemplate=f"<b>{label}</b>  %{{customdata[1]}}<br>%{{customdata[0]}}"
                "<extra></extra>",
            )
        )
    return {
        "tickmode": "array",
        "tickvals": list(range(len(names))),
        "ticktext": [name.split("/")[0] for name in names],
        "range": [len(names) - 0.5, -0.5],
        "showgrid": False,
    }


def _draw_picture(
    figure: Figure,
    view: StepView,
    rows: Sequence[int],
    names: Sequence[str],
    yaxis: str,
    theme: ThemeName,
) -> dict[str, Any]:
    lanes = view.detail.lanes
    size = max(1, -(-len(names) // MAX_ROWS))
    used = list(dict.fromkeys(lane.stage for lane in lanes))
    span_ns = view.shown_ns
    codes = rasterise(lanes, [row // size for row in rows], used, span_ns)
    span_s = (offset_s(view, span_ns[0]), offset_s(view, span_ns[1]))
    figure.add_trace(raster_trace(codes, used, names[::size], span_s, yaxis, theme))
    roles = sorted({lane.role for lane in lanes})
    return {
        "type": "category",
        "tickmode": "array",
        "tickvals": [(len(codes) - 1) / 2],
        "ticktext": [f"{len(names):,} processes<br>{', '.join(roles)}"],
        "range": [len(codes) - 0.5, -0.5],
        "showgrid": False,
    }
