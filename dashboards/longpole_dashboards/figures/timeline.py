"""The resource timeline of one step: everything that happened in it, on one axis of seconds."""

from dataclasses import dataclass, field
from typing import Any

from longpole_dashboards.figures.engines import (
    REQUESTS_PX,
    draw_kv,
    draw_requests,
    kv_height_px,
)
from longpole_dashboards.figures.figure import Figure, address_zoom
from longpole_dashboards.figures.gpus import arrange, heat_trace, lane_axis
from longpole_dashboards.figures.process_rows import draw_lanes, lanes_px
from longpole_dashboards.figures.replica_rows import (
    MAX_REPLICA_ROWS,
    draw_replicas,
    list_replicas,
)
from longpole_dashboards.figures.template import template
from longpole_dashboards.figures.timeline_rows import (
    SLOWEST_LANES,
    StepView,
    draw_gaps,
    draw_running,
    draw_samples,
    draw_stages,
    draw_sync,
    offset_s,
)
from longpole_dashboards.formats import NS_PER_S
from longpole_dashboards.theme import (
    ThemeName,
)

_ROW_PX = {"stages": 30, "sync": 18, "running": 64, "sample": 8, "replica": 9, "gap": 18, "gpu": 11}
_SPACE_PX = 12
_MARGIN_PX = {"t": 6, "b": 28}


@dataclass(slots=True)
class _Rows:
    """Rows from top to bottom, each with its height in pixels."""

    heights: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])

    def add(self, name: str, height_px: float) -> str:
        self.heights.append((name, height_px))
        count = len(self.heights)
        return "y" if count == 1 else f"y{count}"

    @property
    def plot_px(self) -> float:
        return sum(px for _, px in self.heights) + _SPACE_PX * (len(self.heights) - 1)

    def domains(self) -> list[tuple[float, float]]:
        top, found = 1.0, list[tuple[float, float]]()
        for _, px in self.heights:
            bottom = top - px / self.plot_px
            found.append((max(0.0, bottom), top))
            top = bottom - _SPACE_PX / self.plot_px
        return found


def step_timeline(view: StepView, *, theme: ThemeName) -> Figure:
    """Draw stages, sync phases, samples, GPUs and idle gaps of a step above each other.

    Rows for which nothing was reported are left out. Horizontal axis: seconds from the start.
    """
    figure = Figure()
    rows = _Rows()
    axes: dict[str, dict[str, Any]] = {}
    axes["stages"] = draw_stages(figure, view, rows.add("stages", _ROW_PX["stages"]), theme)
    if view.sync_phases:
        axes["sync"] = draw_sync(figure, view, rows.add("sync", _ROW_PX["sync"]), theme)
    if view.detail.lanes:
        height = lanes_px(view.detail.lanes)
        axes["lanes"] = draw_lanes(figure, view, rows.add("lanes", height), theme)
    if view.trajectories:
        axes["running"] = draw_running(figure, view, rows.add("running", _ROW_PX["running"]), theme)
        shown = min(SLOWEST_LANES, len(view.trajectories))
        height = _ROW_PX["sample"] * shown
        axes["samples"] = draw_samples(figure, view, rows.add("samples", height), theme)
    _add_replicas(figure, rows, axes, view, theme)
    if view.heatmap is not None and view.heatmap.lanes:
        lanes = arrange(view.heatmap)
        height = max(60.0, min(340.0, _ROW_PX["gpu"] * len(lanes.names)))
        position: dict[str, Any] = {
            "x0": offset_s(view, view.heatmap.start_ns + view.heatmap.bin_ns // 2),
            "dx": view.heatmap.bin_ns / NS_PER_S,
        }
        yaxis = rows.add("gpus", height)
        figure.add_trace(heat_trace(lanes, position, yaxis, theme, (0.0, 1.0)))
        axes["gpus"] = lane_axis(lanes)
    if view.detail.gaps:
        axes["gaps"] = draw_gaps(figure, view, rows.add("gaps", _ROW_PX["gap"]), theme)
    _lay_out(figure, rows, axes, view, theme)
    return figure


def _add_replicas(
    figure: Figure,
    rows: _Rows,
    axes: dict[str, dict[str, Any]],
    view: StepView,
    theme: ThemeName,
) -> None:
    """Add what every replica had to do, and what its engine reported."""
    replicas = list_replicas(view.trajectories)
    if replicas:
        height = _ROW_PX["replica"] * min(MAX_REPLICA_ROWS, len(replicas))
        yaxis = rows.add("replicas", max(24.0, height))
        axes["replicas"] = draw_replicas(figure, view, replicas, yaxis, theme)
    engines = view.engines
    if engines is not None and engines.replicas:
        first_s = offset_s(view, engines.start_ns + engines.bin_ns // 2)
        bin_s = engines.bin_ns / NS_PER_S
        yaxis = rows.add("kv", kv_height_px(engines))
        axes["kv"] = draw_kv(figure, engines, {"x0": first_s, "dx": bin_s}, yaxis, theme)
        middles = [first_s + at * bin_s for at in range(engines.running.shape[1])]
        yaxis = rows.add("requests", REQUESTS_PX)
        axes["requests"] = draw_requests(figure, engines, middles, yaxis, theme)


def _lay_out(
    figure: Figure,
    rows: _Rows,
    axes: dict[str, dict[str, Any]],
    view: StepView,
    theme: ThemeName,
) -> None:
    layout: dict[str, Any] = {}
    for index, ((name, _), (bottom, top)) in enumerate(
        zip(rows.heights, rows.domains(), strict=True)
    ):
        layout["yaxis" if index == 0 else f"yaxis{index + 1}"] = axes[name] | {
            "domain": [bottom, top],
            "fixedrange": True,
        }
        if name == "gpus":
            (gpus,) = [trace for trace in figure.data if trace.get("name") == "gpus"]
            gpus["colorbar"] |= {"y": (bottom + top) / 2, "len": (top - bottom) * 1.06}
    last = len(rows.heights)
    first_s, last_s = (offset_s(view, at) for at in view.shown_ns)
    # All of the step stands a little off the edges; a part of it is what was asked for.
    room_s = 0.0 if view.chosen_ns else (last_s - first_s) * 0.003
    shown = f"{first_s}-{last_s}" if view.chosen_ns else ""
    figure.update_layout(
        **layout,
        template=template(theme),
        barmode="overlay",
        height=rows.plot_px + sum(_MARGIN_PX.values()),
        uirevision=f"{view.step.run_id}-{view.step.step}|{shown}",
        meta=address_zoom("seconds") | {"length_s": offset_s(view, view.end_ns)},
        margin={"l": 84, "r": 54} | _MARGIN_PX,
        xaxis={
            "range": [first_s - room_s, last_s + room_s],
            "autorange": False,
            "ticksuffix": " s",
            "anchor": "y" if last == 1 else f"y{last}",
            "showspikes": True,
            "spikemode": "across",
            "spikesnap": "cursor",
            "showgrid": True,
        },
    )
