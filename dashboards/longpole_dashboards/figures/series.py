"""Numbers per step as lines: throughput, step time and MFU."""

from collections.abc import Sequence
from statistics import median
from typing import Any

from longpole_dashboards.figures.figure import Figure, bar_trace, scatter_trace
from longpole_dashboards.figures.template import message_figure, step_axis, template, wrap
from longpole_dashboards.figures.thinning import keep_extremes, keep_greatest
from longpole_dashboards.formats import Zone, format_duration
from longpole_dashboards.glossary import not_reported
from longpole_dashboards.theme import ROLES, ThemeName, translucent
from longpole_server.model.step import Step

HEALTHY_MFU = 0.35
MFU_SERIES = (
    ("mfu_actor", "actor update"),
    ("mfu_infer", "log probabilities"),
    ("mfu_step", "whole step"),
)


# More markers than this are a band.
_MAX_MARKERS = 120
_BAR_SHARE = 0.86


def _describe_length(step: Step, size: int) -> str:
    taken = format_duration(step.duration_s)
    return taken if size == 1 else f"{taken}, the slowest of {size} steps"


def _x(steps: Sequence[Step], axis: str, zone: Zone) -> list[object]:
    if axis == "time":
        return [zone.local(step.end_ns or step.start_ns) for step in steps]
    return [step.step for step in steps]


def _x_axis(steps: Sequence[Step], axis: str, num_ticks: int) -> dict[str, Any]:
    if axis == "time":
        return {"type": "date", "tickformat": "%H:%M", "hoverformat": "%H:%M:%S"}
    return step_axis(steps[0].step, steps[-1].step, num_ticks)


def throughput(steps: Sequence[Step], *, axis: str, zone: Zone, theme: ThemeName) -> Figure:
    """Draw tokens/s/GPU over seconds a step, both over the run's own median."""
    closed = [step for step in steps if step.duration_s is not None]
    if not closed:
        return message_figure("The first step has not ended yet.", theme)
    roles = ROLES[theme]
    rates = [step.throughput_tokens_per_s_per_gpu for step in closed]
    durations = [step.duration_s or 0.0 for step in closed]
    places = keep_extremes(rates)
    lined = [closed[at] for at in places]
    slowest, size = keep_greatest(durations)
    barred = [closed[at] for at in slowest]
    figure = Figure()
    figure.add_trace(
        scatter_trace(
            x=_x(lined, axis, zone),
            y=[rates[at] for at in places],
            mode="lines+markers" if len(places) <= _MAX_MARKERS else "lines",
            customdata=[[step.step] for step in lined],
            line={"width": 1.6, "color": roles.accent},
            marker={"size": 4, "color": roles.accent},
            fill="tozeroy",
            fillcolor=translucent(roles.accent, 0.10),
            hovertemplate="step %{customdata[0]}<br>%{y:,.0f} tokens/s/GPU<extra></extra>",
        )
    )
    figure.add_trace(
        bar_trace(
            x=_x(barred, axis, zone),
            y=[durations[at] for at in slowest],
            width=size * _BAR_SHARE if size > 1 and axis == "step" else None,
            customdata=[[s.step, _describe_length(s, size)] for s in barred],
            marker={"color": translucent(roles.second, 0.75)},
            yaxis="y2",
            hovertemplate="step %{customdata[0]}<br>%{customdata[1]}<extra></extra>",
        )
    )
    known = [rate for rate in rates if rate is not None]
    shapes = [_median_line(median(durations), "y2", roles.second)]
    if known:
        shapes.append(_median_line(median(known), "y", roles.accent))
    figure.update_layout(
        template=template(theme),
        uirevision=f"throughput-{axis}",
        margin={"t": 18},
        xaxis=_x_axis(closed, axis, 12) | {"anchor": "y2"},
        yaxis={"domain": [0.44, 1], "rangemode": "tozero", "nticks": 5, "fixedrange": True},
        yaxis2={
            "domain": [0, 0.28],
            "ticksuffix": " s",
            "nticks": 3,
            "rangemode": "tozero",
            "fixedrange": True,
        },
        shapes=shapes,
        annotations=[
            corner_label("tokens/s/GPU", 1.0, roles.faint),
            corner_label("step time", 0.28, roles.faint),
        ],
    )
    if not known:
        figure.add_annotation(
            text=wrap(not_reported("throughput"), 44),
            xref="paper",
            yref="paper",
            x=0.5,
            y=0.72,
            showarrow=False,
            font={"color": roles.faint, "size": 12},
        )
    return figure


def mfu(steps: Sequence[Step], *, axis: str, zone: Zone, theme: ThemeName) -> Figure:
    """Draw the MFU figures that are kept apart, with the healthy band of dense training."""
    closed = [step for step in steps if step.duration_s is not None]
    known = {
        name: [getattr(step, name) for step in closed]
        for name, _ in MFU_SERIES
        if any(getattr(step, name) is not None for step in closed)
    }
    if not known:
        return message_figure(wrap(not_reported("mfu"), 44), theme)
    roles = ROLES[theme]
    figure = Figure()
    for name, label in MFU_SERIES:
        if name not in known:
            continue
        colour = mfu_colours(theme)[name]
        places = keep_extremes(known[name])
        shown = [closed[at] for at in places]
        percent = [None if known[name][at] is None else known[name][at] * 100 for at in places]
        figure.add_trace(
            scatter_trace(
                x=_x(shown, axis, zone),
                y=percent,
                mode="lines",
                name=label,
                customdata=[[step.step] for step in shown],
                line={"width": 1.6, "color": colour},
                hovertemplate=f"{label}<br>step %{{customdata[0]}}: %{{y:.1f}} %<extra></extra>",
            )
        )
    figure.add_shape(
        type="rect",
        xref="paper",
        x0=0,
        x1=1,
        y0=HEALTHY_MFU * 100,
        y1=100,
        line={"width": 0},
        fillcolor=translucent(roles.good, 0.07),
    )
    figure.add_annotation(
        text="healthy for a dense update",
        x=1,
        xref="paper",
        y=1,
        yref="paper",
        xanchor="right",
        yanchor="top",
        showarrow=False,
        font={"size": 10, "color": roles.faint},
    )
    top = max(v for values in known.values() for v in values if v is not None) * 100
    figure.update_layout(
        template=template(theme),
        uirevision=f"mfu-{axis}",
        xaxis=_x_axis(closed, axis, 6),
        yaxis={"ticksuffix": " %", "range": [0, max(50, top * 1.15)], "fixedrange": True},
    )
    return figure


def mfu_colours(theme: ThemeName) -> dict[str, str]:
    """Return the colour of each MFU figure."""
    roles = ROLES[theme]
    colours = (roles.accent, roles.second, roles.good)
    return {name: colour for (name, _), colour in zip(MFU_SERIES, colours, strict=True)}


def _median_line(value: float, axis: str, colour: str) -> dict[str, Any]:
    return {
        "type": "line",
        "xref": "paper",
        "x0": 0,
        "x1": 1,
        "yref": axis,
        "y0": value,
        "y1": value,
        "line": {"color": translucent(colour, 0.55), "width": 1, "dash": "dot"},
    }


def corner_label(text: str, y: float, colour: str) -> dict[str, Any]:
    """Return an annotation at the left edge; `y` is a fraction of the figure's height."""
    return {
        "text": text,
        "xref": "paper",
        "yref": "paper",
        "x": 0,
        "y": y,
        "xanchor": "left",
        "yanchor": "bottom",
        "showarrow": False,
        "font": {"size": 10, "color": colour},
    }
