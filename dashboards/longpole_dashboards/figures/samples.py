"""Samples of a step: how long they were, what the tail costs, and where one of them spent time."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import plotly.graph_objects as go

from longpole_dashboards.figures.plotted import plotted
from longpole_dashboards.figures.template import message_figure, template, wrap
from longpole_dashboards.formats import NS_PER_S, format_count, format_duration
from longpole_dashboards.glossary import not_reported
from longpole_dashboards.theme import PART_COLOURS, ROLES, ThemeName, translucent
from longpole_server.model.trajectory import TrajectoryDetail
from longpole_server.service import TrajectoryDistribution

SAMPLE_FIELDS = ("time", "tokens", "tool", "score")
TAIL_QUANTILE = 0.95
_BINS = 48


def distribution(found: TrajectoryDistribution, *, field: str, theme: ThemeName) -> go.Figure:
    """Draw how the samples spread, their slowest 5 % shaded, with median, 95th and longest.

    `field` is one of `SAMPLE_FIELDS`.
    """
    values = _column(found, field)
    values = values[np.isfinite(values)]
    if not len(values):
        return message_figure(wrap(not_reported("trajectories"), 40), theme)
    roles = ROLES[theme]
    counts, edges = np.histogram(values, bins=min(_BINS, max(8, len(values) // 4)))
    middles = (edges[:-1] + edges[1:]) / 2
    tail_from = float(np.quantile(values, TAIL_QUANTILE))
    show = format_count if field == "tokens" else format_duration
    figure = go.Figure(
        go.Bar(
            x=middles,
            y=counts,
            width=(edges[1] - edges[0]) * 0.9,
            customdata=plotted([[show(a), show(b)] for a, b in pairwise(edges)]),
            marker={
                "color": [
                    roles.warn if middle >= tail_from else translucent(roles.accent, 0.8)
                    for middle in middles
                ]
            },
            hovertemplate="%{customdata[0]} to %{customdata[1]}<br>%{y} samples<extra></extra>",
        )
    )
    marks = (
        ("median", float(np.median(values))),
        ("95 %", tail_from),
        ("max", float(values.max())),
    )
    figure.update_layout(
        template=template(theme),
        uirevision=field,
        margin={"t": 30, "l": 36},
        bargap=0.05,
        xaxis={
            "ticksuffix": "" if field == "tokens" else " s",
            "tickformat": "~s" if field == "tokens" else "",
            "rangemode": "tozero",
        },
        yaxis={"nticks": 4, "fixedrange": True},
        shapes=[
            {
                "type": "rect",
                "x0": tail_from,
                "x1": float(edges[-1]),
                "y0": 0,
                "y1": 1,
                "yref": "paper",
                "line": {"width": 0},
                "fillcolor": translucent(roles.warn, 0.12),
                "layer": "below",
            },
            *(
                {
                    "type": "line",
                    "x0": value,
                    "x1": value,
                    "y0": 0,
                    "y1": 1,
                    "yref": "paper",
                    "line": {"width": 1, "dash": "dot", "color": roles.faint},
                }
                for _, value in marks[:2]
            ),
        ],
        annotations=[
            {
                "text": f"{label}<br><b>{show(value)}</b>",
                "x": value,
                "y": 1,
                "yref": "paper",
                "yanchor": "bottom",
                "xanchor": "right" if label == "max" else "center",
                "showarrow": False,
                "font": {"size": 10.5, "color": roles.muted},
            }
            for label, value in marks
        ],
    )
    return figure


def _column(
    found: TrajectoryDistribution, field: str
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    columns = {
        "time": found.durations_s,
        "tokens": found.output_tokens,
        "tool": found.tool_s,
        "score": found.score_s,
    }
    return np.array(columns[field], dtype=np.float64)


def sample_waterfall(detail: TrajectoryDetail, *, theme: ThemeName) -> go.Figure:
    """Draw where one sample's time went, its parts in order, over its group's siblings."""
    own = detail.trajectory
    roles = ROLES[theme]
    figure = go.Figure()
    for kind in dict.fromkeys(part.kind for part in detail.spans):
        parts = [part for part in detail.spans if part.kind == kind]
        figure.add_trace(
            go.Bar(
                orientation="h",
                base=[(part.start_ns - own.start_ns) / NS_PER_S for part in parts],
                x=[(part.end_ns - part.start_ns) / NS_PER_S for part in parts],
                y=[0] * len(parts),
                width=0.84,
                name=kind,
                customdata=plotted(
                    [
                        [
                            part.name if part.turn is None else f"{part.name}, turn {part.turn}",
                            format_duration((part.end_ns - part.start_ns) / NS_PER_S),
                        ]
                        for part in parts
                    ]
                ),
                marker={
                    "color": PART_COLOURS.get(kind, roles.faint),
                    "line": {"width": 1, "color": roles.surface},
                },
                hovertemplate=f"<b>{kind}</b>  %{{customdata[1]}}<br>%{{customdata[0]}}"
                "<extra></extra>",
            )
        )
    if not detail.spans:
        figure.add_trace(_whole([(own.trajectory_id, 0.0, own.duration_s)], roles.accent, 0))
    siblings = sorted(detail.siblings, key=lambda sibling: -sibling.duration_s)[:15]
    if siblings:
        bars = [
            (s.trajectory_id, (s.start_ns - own.start_ns) / NS_PER_S, s.duration_s)
            for s in siblings
        ]
        figure.add_trace(_whole(bars, translucent(roles.faint, 0.6), 1))
    count = 1 + len(siblings)
    figure.update_layout(
        template=template(theme),
        barmode="overlay",
        height=64 + 16 * count,
        uirevision=own.trajectory_id,
        margin={"l": 66, "r": 14, "t": 6, "b": 26},
        xaxis={"ticksuffix": " s", "showgrid": True},
        yaxis={
            "tickmode": "array",
            "tickvals": [0, *([(1 + len(siblings)) / 2] if siblings else [])],
            "ticktext": ["<b>sample</b>", *(["siblings"] if siblings else [])],
            "range": [count - 0.4, -0.6],
            "showgrid": False,
            "fixedrange": True,
        },
    )
    return figure


def _whole(bars: Sequence[tuple[str, float, float]], colour: str, first_row: int) -> go.Bar:
    return go.Bar(
        orientation="h",
        base=[start for _, start, _ in bars],
        x=[length for _, _, length in bars],
        y=[first_row + index for index in range(len(bars))],
        width=0.7,
        customdata=plotted([[name, format_duration(length)] for name, _, length in bars]),
        marker={"color": colour},
        hovertemplate="sample <b>%{customdata[0]}</b>  %{customdata[1]}<extra></extra>",
    )
