"""Samples of a step: how long they were, what the tail costs, and where one of them spent time."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from longpole_dashboards.figures.figure import Figure, Trace, bar_trace, scatter_trace
from longpole_dashboards.figures.template import message_figure, template, wrap
from longpole_dashboards.formats import NS_PER_S, format_count, format_duration, format_ratio
from longpole_dashboards.glossary import not_reported
from longpole_dashboards.theme import PART_COLOURS, ROLES, ThemeName, translucent
from longpole_server.model.trajectory import TrajectoryDetail
from longpole_server.service import TrajectoryDistribution

RUNNING = "running"
SAMPLE_FIELDS = ("time", "tokens", "tool", "score", RUNNING)
TAIL_QUANTILE = 0.95
_BINS = 48
# Room that the label of a mark takes, as a part of the figure.
_LABEL_RATIO = 0.11


def distribution(found: TrajectoryDistribution, *, field: str, theme: ThemeName) -> Figure:
    """Draw how the samples spread, their slowest 5 % shaded, with median, 95th and longest.

    `field` is one of `SAMPLE_FIELDS` but `RUNNING`.
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
    figure = Figure(
        bar_trace(
            x=middles,
            y=counts,
            width=(edges[1] - edges[0]) * 0.9,
            customdata=[[show(a), show(b)] for a, b in pairwise(edges)],
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


def running_samples(found: TrajectoryDistribution, *, theme: ThemeName) -> Figure:
    """Draw how many samples run over gen; what lies above the curve is empty slots."""
    if not found.running:
        return message_figure(wrap(not_reported("trajectories"), 40), theme)
    roles = ROLES[theme]
    seconds = [second for second, _ in found.running]
    counts = [count for _, count in found.running]
    most = max(counts)
    figure = Figure(
        scatter_trace(
            x=[seconds[0], seconds[-1]],
            y=[most, most],
            mode="lines",
            line={"width": 0},
            hoverinfo="skip",
        ),
        scatter_trace(
            x=seconds,
            y=counts,
            customdata=[format_ratio(1 - count / most) for count in counts],
            mode="lines",
            line={"width": 1.6, "color": roles.accent, "shape": "hv"},
            fill="tonexty",
            fillcolor=translucent(roles.warn, 0.14),
            hovertemplate="after %{x:.1f} s<br><b>%{y}</b> samples run, "
            "%{customdata} of the slots are empty<extra></extra>",
        ),
    )
    end_s = _last_end(found)
    marks = [(ratio, end_s - saved_s) for ratio, saved_s in found.stop_at if saved_s > 0]
    figure.update_layout(
        template=template(theme),
        uirevision=RUNNING,
        showlegend=False,
        margin={"t": 30, "l": 36},
        xaxis={"ticksuffix": " s", "rangemode": "tozero", "range": [0, seconds[-1]]},
        yaxis={"nticks": 4, "fixedrange": True, "range": [0, most * 1.04]},
        shapes=[
            {
                "type": "line",
                "x0": at_s,
                "x1": at_s,
                "y0": 0,
                "y1": 1,
                "yref": "paper",
                "line": {"width": 1, "dash": "dot", "color": roles.faint},
            }
            for _, at_s in marks
        ],
        annotations=[
            {
                "text": f"<b>{format_ratio(ratio)}</b><br>{format_duration(at_s)}",
                "x": at_s,
                "y": 1,
                "yref": "paper",
                "yanchor": "bottom",
                "showarrow": False,
                "font": {"size": 10.5, "color": roles.muted},
            }
            for ratio, at_s in _apart(marks, seconds[-1])
        ],
    )
    return figure


def _last_end(found: TrajectoryDistribution) -> float:
    """Return when the last sample ended, in seconds of gen."""
    for (_, count), (second, _) in reversed(list(pairwise(found.running))):
        if count > 0:
            return second
    return found.running[-1][0]


def _apart(marks: Sequence[tuple[float, float]], length_s: float) -> list[tuple[float, float]]:
    """Return the marks whose labels have room beside each other."""
    kept: list[tuple[float, float]] = []
    for mark in marks:
        if not kept or mark[1] - kept[-1][1] >= _LABEL_RATIO * length_s:
            kept.append(mark)
    return kept


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


def sample_waterfall(detail: TrajectoryDetail, *, theme: ThemeName) -> Figure:
    """Draw where one sample's time went, its parts in order, over its group's siblings."""
    own = detail.trajectory
    roles = ROLES[theme]
    figure = Figure()
    for kind in dict.fromkeys(part.kind for part in detail.spans):
        parts = [part for part in detail.spans if part.kind == kind]
        figure.add_trace(
            bar_trace(
                orientation="h",
                base=[(part.start_ns - own.start_ns) / NS_PER_S for part in parts],
                x=[(part.end_ns - part.start_ns) / NS_PER_S for part in parts],
                y=[0] * len(parts),
                width=0.84,
                name=kind,
                customdata=[
                    [
                        part.name if part.turn is None else f"{part.name}, turn {part.turn}",
                        format_duration((part.end_ns - part.start_ns) / NS_PER_S),
                    ]
                    for part in parts
                ],
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


def _whole(bars: Sequence[tuple[str, float, float]], colour: str, first_row: int) -> Trace:
    return bar_trace(
        orientation="h",
        base=[start for _, start, _ in bars],
        x=[length for _, _, length in bars],
        y=[first_row + index for index in range(len(bars))],
        width=0.7,
        customdata=[[name, format_duration(length)] for name, _, length in bars],
        marker={"color": colour},
        hovertemplate="sample <b>%{customdata[0]}</b>  %{customdata[1]}<extra></extra>",
    )
