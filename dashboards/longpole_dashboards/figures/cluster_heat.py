"""One GPU field of the whole cluster over time: a row a GPU, or a row a node of a large one."""

from dataclasses import replace
from typing import Any

import numpy as np

from longpole_dashboards.figures.figure import Figure, address_zoom
from longpole_dashboards.figures.gpus import FIELD_LABELS, MAX_LANES, arrange, heat_trace, lane_axis
from longpole_dashboards.figures.template import message_figure, template, wrap
from longpole_dashboards.formats import NS_PER_MS, Zone
from longpole_dashboards.glossary import not_reported
from longpole_dashboards.theme import ROLES, ThemeName
from longpole_server.model.gpu import GpuHeatmap

_LANE_PX, _MAX_PX, _MARGIN_PX = 8.0, 420.0, (4, 24)


def average_nodes(heatmap: GpuHeatmap) -> GpuHeatmap:
    """Return a heat-map with a lane a node: the mean of what its GPUs reported."""
    hosts = [lane.host for lane in heatmap.lanes]
    firsts = [hosts.index(host) for host in sorted(set(hosts))]
    rows = np.full((len(firsts), heatmap.values.shape[1]), np.nan, dtype=np.float32)
    for row, first in enumerate(firsts):
        values = heatmap.values[[i for i, host in enumerate(hosts) if host == hosts[first]]]
        known = np.isfinite(values)
        counts = known.sum(axis=0)
        sums = np.where(known, values, 0.0).sum(axis=0)
        rows[row] = np.divide(sums, counts, out=rows[row], where=counts > 0)
    lanes = tuple(replace(heatmap.lanes[first], role="", gpu_index=0) for first in firsts)
    return replace(heatmap, lanes=lanes, values=rows)


def cluster_heat(
    heatmap: GpuHeatmap, span_ns: tuple[int, int], *, zone: Zone, theme: ThemeName
) -> Figure:
    """Draw it; of more GPUs than rows fit, a row is the mean of a node."""
    if not heatmap.lanes:
        return message_figure(wrap(not_reported("gpus", "GPUs"), 60), theme)
    shown = average_nodes(heatmap) if len(heatmap.lanes) > MAX_LANES else heatmap
    rows = arrange(shown)
    if shown is not heatmap:
        # Nodes of a large cluster stand close together, named where there is room.
        names = tuple(lane.host for lane in shown.lanes[:MAX_LANES])
        values = np.stack([shown.values[i] for i in range(len(names))]) * _factor(rows.unit)
        every = max(1, len(names) // 24)
        rows = replace(
            rows,
            values=values.astype(np.float32),
            names=names,
            group_at=tuple(float(at) for at in range(0, len(names), every)),
            group_names=names[::every],
        )
    position: dict[str, Any] = {
        "x0": zone.local(heatmap.start_ns + heatmap.bin_ns // 2).isoformat(),
        "dx": heatmap.bin_ns / NS_PER_MS,
    }
    figure = Figure(heat_trace(rows, position, "y", theme, [0, 1]))
    height_px = min(_MAX_PX, max(90.0, _LANE_PX * len(rows.names)))
    figure.update_layout(
        template=template(theme),
        height=height_px + sum(_MARGIN_PX),
        margin={"l": 96, "r": 56, "t": _MARGIN_PX[0], "b": _MARGIN_PX[1]},
        uirevision=f"{heatmap.field}-{span_ns}",
        meta=address_zoom("time"),
        xaxis={
            "type": "date",
            "range": [zone.local(span_ns[0]), zone.local(span_ns[1])],
            "tickformat": "%H:%M",
            "hoverformat": "%H:%M:%S",
            "showspikes": True,
            "spikemode": "across",
            "spikesnap": "cursor",
        },
        yaxis=lane_axis(rows),
    )
    if not np.isfinite(heatmap.values).any():
        figure.add_annotation(
            text=f"No GPU reported its {FIELD_LABELS[heatmap.field]} in this time",
            xref="paper",
            yref="paper",
            x=0.5,
            y=0.5,
            showarrow=False,
            font={"size": 12, "color": ROLES[theme].faint},
        )
    return figure


def _factor(unit: str) -> float:
    return {"%": 100.0, "GiB": 1 / 2**30}.get(unit, 1.0)
