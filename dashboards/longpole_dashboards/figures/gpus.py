"""GPU heat-map: GPUs by time, grouped by node and role, under the stage bands of the run."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longpole.conventions import gpus
from longpole_dashboards.figures.bands import stage_bands
from longpole_dashboards.figures.figure import Figure, Trace, address_zoom, heatmap_trace
from longpole_dashboards.figures.folding import Extreme, fold_rows
from longpole_dashboards.figures.run_rows import draw_bands, draw_steps
from longpole_dashboards.figures.template import template
from longpole_dashboards.formats import NS_PER_MS, Zone
from longpole_dashboards.theme import ROLES, ThemeName
from longpole_server.model.gpu import GpuHeatmap
from longpole_server.model.run import OpenStage
from longpole_server.model.step import Step

# Columns of a GPU sample that a viewer may choose, the first by default.
HEAT_FIELDS = (
    "sm_active_ratio",
    "utilization_ratio",
    "tensor_active_ratio",
    "dram_active_ratio",
    "power_watts",
    "memory_used_bytes",
)
FIELD_LABELS = {metric.column: metric.label for metric in gpus.GPU_METRICS}
# Of more GPUs, a row is several neighbours.
MAX_LANES = 256
_GROUP_LABELS = 24
_LANE_PX, _MAX_LANES_PX = 13.0, 460.0
_BAND_PX, _SPACE_PX = 17.0, 5.0
# Signs of what happened stand above.
_MARGIN_PX = (16.0, 24.0)
# Of every chart of the clock, so that one moment is at one place on all of them.
LEFT_PX, RIGHT_PX = 78, 76
# Shorter spans have more than one tick a minute.
_SECONDS_BELOW_NS = 8 * 60 * 10**9


@dataclass(frozen=True, slots=True)
class HeatRows:
    """A heat-map ready to be drawn: groups of lanes with an empty row between them.

    Attributes:
        values: float32 (rows, bins): percent, watts or GiB; NaN where nothing was measured.
        names: One per row, all different; blank for the rows between groups.
        group_at, group_names: Middle row and name of every group.
        unit: Unit of the values as it stands on labels.
        top: Upper end of the colour scale.
    """

    values: NDArray[np.float32]
    names: tuple[str, ...]
    group_at: tuple[float, ...]
    group_names: tuple[str, ...]
    unit: str
    top: float


def kept_extreme(field: str) -> Extreme:
    """Return which of several GPUs a row shows: of activity the least, of a load the most."""
    return "least" if field.endswith("_ratio") else "most"


def arrange(heatmap: GpuHeatmap) -> HeatRows:
    """Group the lanes by node and role, scale the values to what labels say."""
    if len(heatmap.lanes) > MAX_LANES:
        return _arrange_folded(heatmap)
    scale, unit, top = _scale(heatmap)
    order = sorted(
        range(len(heatmap.lanes)),
        key=lambda i: (heatmap.lanes[i].host, heatmap.lanes[i].role, heatmap.lanes[i].gpu_index),
    )
    rows: list[NDArray[np.float32]] = []
    names: list[str] = []
    groups: dict[tuple[str, str], list[int]] = {}
    empty = np.full(heatmap.values.shape[1], np.nan, dtype=np.float32)
    for index in order:
        lane = heatmap.lanes[index]
        group = (lane.host, lane.role)
        if group not in groups and rows:
            rows.append(empty)
            names.append(" " * len(groups))
        groups.setdefault(group, []).append(len(rows))
        rows.append((heatmap.values[index] * scale).astype(np.float32))
        names.append(f"{lane.host} · GPU {lane.gpu_index}")
    return HeatRows(
        values=np.stack(rows) if rows else np.empty((0, heatmap.values.shape[1]), np.float32),
        names=tuple(names),
        group_at=tuple((at[0] + at[-1]) / 2 for at in groups.values()),
        group_names=tuple(f"{host}<br>{role}" for host, role in groups),
        unit=unit,
        top=top,
    )


def _arrange_folded(heatmap: GpuHeatmap) -> HeatRows:
    """Put neighbouring GPUs into one row: so many that a node does not begin within a row."""
    scale, unit, top = _scale(heatmap)
    order = sorted(
        range(len(heatmap.lanes)),
        key=lambda i: (heatmap.lanes[i].role, heatmap.lanes[i].host, heatmap.lanes[i].gpu_index),
    )
    scaled = (heatmap.values[order] * scale).astype(np.float32)
    values, size = fold_rows(scaled, MAX_LANES, kept_extreme(heatmap.field))
    firsts = [heatmap.lanes[at] for at in order[::size]]
    hosts = list(dict.fromkeys(lane.host for lane in firsts))
    every = max(1, len(hosts) // _GROUP_LABELS)
    rows_of = {host: [at for at, lane in enumerate(firsts) if lane.host == host] for host in hosts}
    shown = hosts[::every]
    return HeatRows(
        values=values,
        names=tuple(
            f"{lane.host} · GPU {lane.gpu_index} to {lane.gpu_index + size - 1}" for lane in firsts
        ),
        group_at=tuple((rows_of[host][0] + rows_of[host][-1]) / 2 for host in shown),
        group_names=tuple(shown),
        unit=unit,
        top=top,
    )


def _scale(heatmap: GpuHeatmap) -> tuple[float, str, float]:
    if heatmap.field.endswith("_ratio"):
        return 100.0, "%", 100.0
    peak = float(np.nanmax(heatmap.values)) if np.isfinite(heatmap.values).any() else 1.0
    if heatmap.field.endswith("_bytes"):
        return 1 / 2**30, "GiB", max(1.0, peak / 2**30)
    return 1.0, "W" if heatmap.field.endswith("_watts") else "", max(1.0, peak)


def heat_trace(
    rows: HeatRows, x: dict[str, Any], yaxis: str, theme: ThemeName, domain: Sequence[float]
) -> Trace:
    """Return the heat-map trace; `x` is its position (`x0`, `dx`), `domain` that of its axis."""
    roles = ROLES[theme]
    last = len(roles.heat) - 1
    text_unit = f" {rows.unit}" if rows.unit else ""
    return heatmap_trace(
        name="gpus",
        z=rows.values,
        **x,
        yaxis=yaxis,
        ygap=1 if len(rows.names) <= 64 else 0,
        zmin=0,
        zmax=rows.top,
        colorscale=[(at / last, stop) for at, stop in enumerate(roles.heat)],
        y=rows.names,
        hoverongaps=False,
        colorbar={
            "ticksuffix": text_unit,
            "nticks": 3,
            "thickness": 6,
            "outlinewidth": 0,
            "xpad": 6,
            "tickfont": {"size": 10, "color": roles.faint},
            "y": (domain[0] + domain[1]) / 2,
            "len": (domain[1] - domain[0]) * 1.06,
        },
        hovertemplate=f"%{{y}}<br>%{{x}}<br>%{{z:.0f}}{text_unit}<extra></extra>",
    )


def lane_axis(rows: HeatRows) -> dict[str, Any]:
    """Return the vertical axis of a heat-map: one label per group of lanes, first lane on top."""
    return {
        "type": "category",
        "tickmode": "array",
        "tickvals": list(rows.group_at),
        "ticktext": list(rows.group_names),
        "range": [len(rows.names) - 0.5, -0.5],
        "showgrid": False,
        "fixedrange": True,
    }


def gpu_heatmap(
    heatmap: GpuHeatmap,
    steps: Sequence[Step],
    open_stage: OpenStage | None,
    *,
    now_ns: int,
    span_ns: tuple[int, int],
    zone: Zone,
    theme: ThemeName,
) -> Figure:
    """Draw the GPUs of a run over `span_ns` below the steps and stages of the same time."""
    rows = arrange(heatmap)
    figure = Figure()
    bands = [
        band
        for band in stage_bands(_steps_near(steps, span_ns), open_stage, now_ns)
        if band.end_ns > span_ns[0] and band.start_ns < span_ns[1]
    ]
    for trace in draw_bands(bands, span_ns, zone, theme, "y2"):
        figure.add_trace(trace)
    figure.add_trace(draw_steps(steps, now_ns, span_ns, zone, theme, "y3"))
    height_px, tops = _row_tops(len(rows.names))
    if rows.names:
        position: dict[str, Any] = {
            "x0": zone.local(heatmap.start_ns + heatmap.bin_ns // 2).isoformat(),
            "dx": heatmap.bin_ns / NS_PER_MS,
        }
        figure.add_trace(heat_trace(rows, position, "y", theme, tops[2]))
    figure.update_layout(
        template=template(theme),
        barmode="overlay",
        uirevision=f"{heatmap.field}-{span_ns}",
        meta=address_zoom("time"),
        height=height_px,
        margin={
            "l": LEFT_PX,
            "r": RIGHT_PX,
            "t": _MARGIN_PX[0],
            "b": _MARGIN_PX[1],
            "autoexpand": False,
        },
        xaxis={
            "type": "date",
            "range": [zone.local(span_ns[0]), zone.local(span_ns[1])],
            "tickformat": tick_format(span_ns),
            "hoverformat": "%H:%M:%S",
            "showspikes": True,
            "spikemode": "across",
            "spikesnap": "cursor",
            "anchor": "y" if rows.names else "y2",
        },
        yaxis=lane_axis(rows) | {"domain": tops[2], "visible": bool(rows.names)},
        yaxis2=_label_axis("stage") | {"domain": tops[1]},
        yaxis3=_label_axis("step") | {"domain": tops[0]},
    )
    return figure


def _steps_near(steps: Sequence[Step], span_ns: tuple[int, int]) -> Sequence[Step]:
    """Return the steps whose stages may touch a span, those after a step's end included."""
    first = bisect_left(steps, span_ns[0], key=lambda step: step.start_ns)
    last = bisect_left(steps, span_ns[1], key=lambda step: step.start_ns)
    return steps[max(0, first - 1) : last]


def tick_format(span_ns: tuple[int, int]) -> str:
    """Return how the clock stands on the axis of a span."""
    return "%H:%M:%S" if span_ns[1] - span_ns[0] < _SECONDS_BELOW_NS else "%H:%M"


def _row_tops(num_lanes: int) -> tuple[float, list[list[float]]]:
    """Return the figure's height in pixels and the domains of steps, stages and lanes."""
    lanes_px = min(_MAX_LANES_PX, _LANE_PX * num_lanes)
    plot_px = 2 * (_BAND_PX + _SPACE_PX) + lanes_px
    stage_top = plot_px - _BAND_PX - _SPACE_PX
    lanes_top = stage_top - _BAND_PX - _SPACE_PX
    pixels = (
        (stage_top + _SPACE_PX, plot_px),
        (lanes_top + _SPACE_PX, stage_top),
        (0.0, lanes_top if num_lanes else 1.0),
    )
    domains = [[bottom / plot_px, top / plot_px] for bottom, top in pixels]
    return plot_px + sum(_MARGIN_PX), domains


def _label_axis(label: str) -> dict[str, Any]:
    return {
        "tickmode": "array",
        "tickvals": [0],
        "ticktext": [label],
        "range": [-0.5, 0.5],
        "showgrid": False,
        "fixedrange": True,
    }
