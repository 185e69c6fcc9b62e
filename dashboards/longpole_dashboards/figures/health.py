"""Health metrics of a training as small charts side by side, with their healthy bands."""

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

from longpole.conventions import metrics
from longpole_dashboards.figures.figure import Figure, scatter_trace
from longpole_dashboards.figures.template import step_axis, template
from longpole_dashboards.figures.thinning import keep_extremes
from longpole_dashboards.formats import Zone, format_count, format_ratio
from longpole_dashboards.theme import ROLES, ThemeName, translucent
from longpole_server.service import MetricSeries

_MAX_NAME = 24


def health(
    series: Mapping[str, MetricSeries],
    *,
    theme: ThemeName,
    axis: str = "step",
    zone: Zone | None = None,
) -> Figure:
    """Draw one small chart per health metric, in the order given, with its healthy band."""
    roles = ROLES[theme]
    figure = Figure()
    count = max(1, len(series))
    gutter = 0.04
    width = (1 - gutter * (count - 1)) / count
    ends = _ends(series)
    for index, (name, found) in enumerate(series.items()):
        left = index * (width + gutter)
        suffix = "" if index == 0 else str(index + 1)
        places = keep_extremes([value for _, _, value in found.points])
        points = [found.points[at] for at in places]
        values = [value for _, _, value in points]
        steps = np.array([step for step, _, _ in points], dtype=np.int32)
        times = (zone or Zone()).local_moments(
            np.array([ts_ns for _, ts_ns, _ in points], dtype=np.int64)
        )
        figure.update_layout(
            {
                f"xaxis{suffix}": {
                    "domain": [left, left + width],
                    "anchor": f"y{suffix}",
                    **(
                        {
                            "type": "date",
                            "tickformat": "%H:%M",
                            "hoverformat": "%H:%M:%S",
                            "nticks": 4,
                        }
                        if axis == "time"
                        else step_axis(*ends, 4)
                    ),
                    "matches": "x" if index else None,
                    "visible": bool(points),
                },
                f"yaxis{suffix}": {
                    "domain": [0, 0.72],
                    "anchor": f"x{suffix}",
                    "nticks": 4,
                    "fixedrange": True,
                    "visible": bool(points),
                    "range": _range(values),
                    "tickformat": _tick_format(name, values),
                },
            }
        )
        figure.add_trace(
            scatter_trace(
                x=times if axis == "time" else steps,
                customdata=[[step] for step, _, _ in points],
                y=np.array(values, dtype=np.float64),
                mode="lines",
                line={"width": 1.5, "color": roles.accent},
                xaxis=f"x{suffix}",
                yaxis=f"y{suffix}",
                hovertemplate=f"step %{{customdata[0]}}: {_hover_value(name)}<extra></extra>",
            )
        )
        _caption(figure, name, values, left, theme)
        if values:
            _name_unit(figure, name, left, theme)
            _band(figure, name, values, suffix, theme)
        else:
            figure.add_annotation(
                text="not reported",
                xref="paper",
                yref="paper",
                x=left + width / 2,
                y=0.36,
                showarrow=False,
                font={"size": 11, "color": roles.faint},
            )
    figure.update_layout(template=template(theme), uirevision="health", margin={"l": 38, "r": 8})
    return figure


def _ends(series: Mapping[str, MetricSeries]) -> tuple[int, int]:
    # Points come in the order of their steps.
    reported = [found.points for found in series.values() if found.points]
    return (
        min((points[0][0] for points in reported), default=0),
        max((points[-1][0] for points in reported), default=0),
    )


def _caption(
    figure: Figure, name: str, values: Sequence[float], left: float, theme: ThemeName
) -> None:
    shown = f"<b>{_format_level(name, values[-1])}</b>{_unit(name)}" if values else ""
    for text, y, size, colour in (
        (_name(name), 1.0, 11, ROLES[theme].muted),
        (shown, 0.885, 13, ROLES[theme].text),
    ):
        figure.add_annotation(
            text=text,
            xref="paper",
            yref="paper",
            x=left,
            y=y,
            xanchor="left",
            yanchor="top",
            showarrow=False,
            font={"size": size, "color": colour},
        )


def _unit(name: str) -> str:
    """Return a metric's unit behind a space; nothing where it has none or nobody told it."""
    kind = metrics.METRICS.get(name)
    return "" if kind is None or kind.unit == "1" else f" {kind.unit}"


def _name_unit(figure: Figure, name: str, left: float, theme: ThemeName) -> None:
    """Write the unit on top of a chart's axis: beside its numbers there is no room for it."""
    unit = _unit(name).strip()
    if not unit:
        return
    figure.add_annotation(
        text=unit,
        xref="paper",
        yref="paper",
        x=left,
        y=0.73,
        xanchor="right",
        yanchor="bottom",
        xshift=-3,
        showarrow=False,
        font={"size": 9, "color": ROLES[theme].faint},
    )


def _tick_format(name: str, values: Sequence[float]) -> str:
    if _is_share(name):
        return ".2~%"
    return "~s" if values and max(values) >= 1000 else ""


def _hover_value(name: str) -> str:
    """Return how a point's value is written, as Plotly reads it."""
    return "%{y:.3~%}" if _is_share(name) else f"%{{y:.4~g}}{_unit(name)}"


def _is_share(name: str) -> bool:
    return name.endswith(("_ratio", "_fraction"))


def _name(name: str) -> str:
    """Return a metric as people call it; of a trainer's own the end, where it differs."""
    kind = metrics.METRICS.get(name)
    if kind is not None:
        return kind.label
    return escape(name if len(name) <= _MAX_NAME else f"…{name[1 - _MAX_NAME :]}")


def _format_level(name: str, value: float) -> str:
    if _is_share(name):
        return format_ratio(value, 1)
    return format_count(value) if abs(value) >= 1000 else f"{value:.3g}"


def _band(
    figure: Figure, name: str, values: Sequence[float], suffix: str, theme: ThemeName
) -> None:
    kind = metrics.METRICS.get(name)
    healthy = kind.healthy if kind is not None else None
    if healthy is None:
        return
    low, high = _range(values)
    bottom = low if healthy[0] is None else healthy[0]
    top = high if healthy[1] is None else healthy[1]
    figure.add_shape(
        type="rect",
        xref=f"x{suffix} domain",
        yref=f"y{suffix}",
        x0=0,
        x1=1,
        y0=max(bottom, low),
        y1=min(top, high),
        line={"width": 0},
        layer="below",
        fillcolor=translucent(ROLES[theme].good, 0.08),
    )


def _range(values: Sequence[float]) -> list[float]:
    if not values:
        return [0, 1]
    low, high = min(values), max(values)
    low = 0.0 if 0 <= low < 0.6 * high else low
    padding = (high - low or abs(high) or 1.0) * 0.12
    return [low if low == 0 else low - padding, high + padding]
