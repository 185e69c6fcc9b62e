"""Rollout engines over time: KV cache by replica, requests that run and wait, preemptions."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longpole_dashboards.figures.figure import Figure, address_zoom, heatmap_trace, scatter_trace
from longpole_dashboards.figures.folding import fold_rows
from longpole_dashboards.figures.gpus import LEFT_PX, RIGHT_PX, tick_format
from longpole_dashboards.figures.template import template
from longpole_dashboards.formats import NS_PER_MS, Zone
from longpole_dashboards.theme import ROLES, ThemeName, translucent
from longpole_server.model.engines import EngineLanes

MAX_ROWS = 64
KV_ROW_PX, REQUESTS_PX = 12.0, 56.0
# Where the colours may end: a cache in little use is as dark as one that is empty otherwise.
_KV_TOPS = (2.0, 5.0, 10.0, 25.0, 50.0, 100.0)
_SPACE_PX = 10.0
# Beside the GPU heat-map these stand on the same pixels.
_MARGIN = {"l": LEFT_PX, "r": RIGHT_PX, "t": 4, "b": 24, "autoexpand": False}


def kv_height_px(lanes: EngineLanes) -> float:
    """Return how high the rows of the replicas are."""
    return max(24.0, KV_ROW_PX * min(MAX_ROWS, len(lanes.replicas)))


def draw_kv(figure: Figure, lanes: EngineLanes, x: dict[str, Any], yaxis: str,
            theme: ThemeName) -> dict[str, Any]:  # fmt: skip
    """Draw the KV cache in use, a row a replica; of many replicas a row keeps the fullest.

    Args:
        figure: Where to draw.
        lanes: What to draw.
        x: Position of the bins: `x0` and `dx`.
        yaxis: Which vertical axis.
        theme: Its colours.

    Returns:
        That axis.
    """
    roles = ROLES[theme]
    values, size = fold_rows(lanes.kv_usage_ratio * np.float32(100), MAX_ROWS, "most")
    names = list(lanes.replicas[::size])
    if size > 1:
        names = [f"{name} and {size - 1} more" for name in names]
    last = len(roles.heat) - 1
    top = _kv_top(values)
    figure.add_trace(
        heatmap_trace(
            name="kv",
            z=values,
            **x,
            y=names,
            yaxis=yaxis,
            ygap=1 if len(names) <= MAX_ROWS // 2 else 0,
            zmin=0,
            zmax=top,
            showscale=False,
            colorscale=[(at / last, stop) for at, stop in enumerate(roles.heat)],
            hoverongaps=False,
            hovertemplate=f"%{{y}}<br>KV cache %{{z:.{1 if top <= 10 else 0}f}} %<extra></extra>",
        )
    )
    return {
        "type": "category",
        "tickmode": "array",
        "tickvals": [(len(names) - 1) / 2],
        "ticktext": [f"KV cache<br>0 to {top:.0f} %"],
        "range": [len(names) - 0.5, -0.5],
        "showgrid": False,
        "fixedrange": True,
    }


def _kv_top(values: NDArray[np.float32]) -> float:
    """Return the least end of the colours that takes in every value, in percent."""
    known = values[np.isfinite(values)]
    fullest = float(known.max()) if known.size else _KV_TOPS[-1]
    return next((top for top in _KV_TOPS if fullest <= top), _KV_TOPS[-1])


def draw_requests(figure: Figure, lanes: EngineLanes, x: Sequence[object], yaxis: str,
                  theme: ThemeName) -> dict[str, Any]:  # fmt: skip
    """Draw how many requests run and wait in all engines, and where some were preempted.

    Args:
        figure: Where to draw.
        lanes: What to draw.
        x: Middle of every bin.
        yaxis: Which vertical axis.
        theme: Its colours.

    Returns:
        That axis.
    """
    roles = ROLES[theme]
    running, waiting = _total(lanes.running), _total(lanes.waiting)
    for values, colour, words in (
        (running, roles.accent, "run"),
        (waiting, roles.warn, "wait"),
    ):
        figure.add_trace(
            scatter_trace(
                x=x,
                y=values,
                yaxis=yaxis,
                name=words,
                mode="lines",
                line={"width": 1.4, "color": colour},
                fill="tozeroy",
                fillcolor=translucent(colour, 0.14),
                hovertemplate=f"%{{y:.0f}} requests {words}<extra></extra>",
            )
        )
    preempted = _total(lanes.preemptions)
    shown = [at for at, count in enumerate(preempted.tolist()) if count > 0]
    if shown:
        top = float(np.nanmax(np.concatenate([running, waiting, [1.0]])))
        figure.add_trace(
            scatter_trace(
                x=[x[at] for at in shown],
                y=[top] * len(shown),
                yaxis=yaxis,
                name="preempted",
                mode="markers",
                customdata=preempted[shown].tolist(),
                marker={"symbol": "triangle-down", "size": 7, "color": roles.bad},
                hovertemplate="%{customdata:.0f} requests preempted<extra></extra>",
            )
        )
    return {
        "nticks": 3,
        "rangemode": "tozero",
        "fixedrange": True,
        "title": {"text": "requests", "standoff": 4},
    }


def _total(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the sum over replicas, NaN where none reported."""
    known = np.isfinite(values)
    return np.where(known.any(axis=0), np.where(known, values, 0).sum(axis=0), np.nan).astype(
        np.float32
    )


def engine_lanes(
    lanes: EngineLanes, span_ns: tuple[int, int], *, zone: Zone, theme: ThemeName
) -> Figure:
    """Draw the engines of a run over `span_ns`, on the same pixels as its GPUs."""
    figure = Figure()
    first_ns = lanes.start_ns + lanes.bin_ns // 2
    position = {"x0": zone.local(first_ns).isoformat(), "dx": lanes.bin_ns / NS_PER_MS}
    times = [zone.local(first_ns + at * lanes.bin_ns) for at in range(lanes.running.shape[1])]
    kv_axis = draw_kv(figure, lanes, position, "y2", theme)
    requests_axis = draw_requests(figure, lanes, times, "y", theme)
    kv_px = kv_height_px(lanes)
    plot_px = kv_px + _SPACE_PX + REQUESTS_PX
    figure.update_layout(
        template=template(theme),
        meta=address_zoom("time"),
        height=plot_px + _MARGIN["t"] + _MARGIN["b"],
        margin=_MARGIN,
        xaxis={
            "type": "date",
            "range": [zone.local(span_ns[0]), zone.local(span_ns[1])],
            "tickformat": tick_format(span_ns),
            "hoverformat": "%H:%M:%S",
        },
        yaxis=requests_axis | {"domain": [0, REQUESTS_PX / plot_px]},
        yaxis2=kv_axis | {"domain": [1 - kv_px / plot_px, 1]},
    )
    return figure
