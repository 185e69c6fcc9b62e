"""One GPU over time: clock, power, temperature and activity as lines on one axis."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from longpole_dashboards.figures.figure import Figure, address_zoom, scatter_trace
from longpole_dashboards.figures.gpus import tick_format
from longpole_dashboards.figures.template import message_figure, template, wrap
from longpole_dashboards.formats import Zone
from longpole_dashboards.glossary import not_reported
from longpole_dashboards.theme import ROLES, ThemeName, translucent
from longpole_server.model.gpu import GpuHeatmap


@dataclass(frozen=True, slots=True)
class _Line:
    """The first reported of `fields`, in `unit` by `scale`; its axis reaches `top` at least."""

    label: str
    fields: tuple[str, ...]
    unit: str
    scale: float
    top: float


_LINES = (
    _Line("SM clock", ("sm_clock_hz",), "MHz", 1e-6, 0.0),
    _Line("power", ("power_watts",), "W", 1.0, 0.0),
    _Line("temperature", ("temperature_celsius",), "°C", 1.0, 90.0),
    _Line("activity", ("sm_active_ratio", "utilization_ratio"), "%", 100.0, 100.0),
    _Line("memory", ("memory_used_bytes",), "GiB", 1 / 2**30, 0.0),
)
_LINE_PX, _SPACE_PX, _MARGIN = 62.0, 9.0, {"l": 96, "r": 56, "t": 6, "b": 24}


def gpu_series(
    series: Mapping[str, GpuHeatmap], span_ns: tuple[int, int], *, zone: Zone, theme: ThemeName
) -> Figure:
    """Draw every line that is reported, a strip each, below each other."""
    lines = [(line, found) for line in _LINES if (found := _choose(line, series)) is not None]
    if not lines:
        return message_figure(wrap(not_reported("gpus", "This GPU, in this time"), 60), theme)
    figure = Figure()
    roles = ROLES[theme]
    plot_px = len(lines) * (_LINE_PX + _SPACE_PX) - _SPACE_PX
    for number, (line, heatmap) in enumerate(lines):
        middle_ns = heatmap.start_ns + heatmap.bin_ns // 2
        values = heatmap.values[0] * line.scale
        name = "y" if number == 0 else f"y{number + 1}"
        figure.add_trace(
            scatter_trace(
                x=[zone.local(middle_ns + at * heatmap.bin_ns) for at in range(len(values))],
                y=values.astype(np.float32),
                yaxis=name,
                name=line.label,
                mode="lines",
                line={"width": 1.4, "color": roles.accent},
                fill="tozeroy",
                fillcolor=translucent(roles.accent, 0.10),
                hovertemplate=f"{line.label} %{{y:,.0f}} {line.unit}<extra></extra>",
            )
        )
        top_px = plot_px - number * (_LINE_PX + _SPACE_PX)
        figure.update_layout(
            {
                name.replace("y", "yaxis"): _axis(line, float(np.nanmax(values)))
                | {"domain": [max(0.0, top_px - _LINE_PX) / plot_px, top_px / plot_px]}
            }
        )
    figure.update_layout(
        template=template(theme),
        height=plot_px + _MARGIN["t"] + _MARGIN["b"],
        margin=_MARGIN,
        hovermode="x",
        meta=address_zoom("time"),
        xaxis={
            "type": "date",
            "range": [zone.local(span_ns[0]), zone.local(span_ns[1])],
            "tickformat": tick_format(span_ns),
            "hoverformat": "%H:%M:%S",
            "showspikes": True,
            "spikemode": "across",
            "spikesnap": "cursor",
            "anchor": "y" if len(lines) == 1 else f"y{len(lines)}",
        },
    )
    return figure


def _choose(line: _Line, series: Mapping[str, GpuHeatmap]) -> GpuHeatmap | None:
    found = [series[name] for name in line.fields if name in series]
    return next((each for each in found if np.isfinite(each.values).any()), None)


def _axis(line: _Line, most: float) -> dict[str, Any]:
    return {
        "range": [0, max(line.top, most * 1.08) or 1.0],
        "nticks": 3,
        "fixedrange": True,
        "title": {"text": f"{line.label}<br>{line.unit}", "standoff": 4},
    }
