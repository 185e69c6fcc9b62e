"""Stage shares: what the seconds of every step were spent on, one stacked bar a step."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal

import plotly.graph_objects as go

from longpole.conventions import stages
from longpole_dashboards.figures.bars import StepBar, make_bars, order_stages
from longpole_dashboards.figures.plotted import plotted
from longpole_dashboards.figures.template import step_axis, template
from longpole_dashboards.formats import Zone, format_duration, format_ratio
from longpole_dashboards.theme import ROLES, ThemeName, stage_colour, stage_label, verdict_colour
from longpole_dashboards.verdicts import verdict_badge
from longpole_server.model.annotations import VerdictChange
from longpole_server.model.run import OpenStage
from longpole_server.model.step import Step

Unit = Literal["seconds", "percent"]
Axis = Literal["step", "time"]
MAX_BARS = 240
_OPEN_OPACITY = 0.45
# An open step may be drawn this many times as tall as the longest closed one.
_HANG_HEIGHT = 2.0
# Part of the chart's width that the name of a verdict takes.
_LABEL_WIDTH = 0.15
_LABEL_HEIGHT_PX = 22


def stage_shares(
    steps: Sequence[Step],
    *,
    unit: Unit,
    axis: Axis,
    zone: Zone,
    theme: ThemeName,
    open_stage: OpenStage | None = None,
    now_ns: int = 0,
    changes: Sequence[VerdictChange] = (),
) -> go.Figure:
    """Draw the ledger of each step; validation and checkpoints between steps stand apart below.

    A thin line stands where the verdict changed and stayed.

    The parts of a bar add up to the step's seconds (100 percent). A stage that a step did not
    report has no part there. `customdata` of every part starts with the number of its first step.
    """
    bars = make_bars(steps, MAX_BARS, open_stage, now_ns)
    figure = go.Figure()
    for stage in order_stages({name for bar in bars for name in bar.seconds}):
        figure.add_trace(_part(stage, bars, unit, axis, zone, theme))
    outside = order_stages({name for bar in bars for name in bar.outside})
    for stage in outside:
        figure.add_trace(_outside(stage, bars, axis, zone))
    _lay_out(figure, bars, unit, axis, zone, bool(outside), theme)
    _mark_attempts(figure, bars, axis, zone, theme)
    _mark_changes(figure, changes, bars, axis, zone, theme)
    return figure


def _positions(bars: Sequence[StepBar], axis: Axis, zone: Zone) -> dict[str, Any]:
    if axis == "step":
        return {"x": [(bar.first_step + bar.last_step) / 2 for bar in bars]}
    return {
        "x": [zone.local(bar.start_ns) for bar in bars],
        "width": [max(1.0, bar.length_s * 1000) for bar in bars],
        "offset": 0,
    }


def _part(
    stage: str, bars: Sequence[StepBar], unit: Unit, axis: Axis, zone: Zone, theme: ThemeName
) -> go.Bar:
    heights: list[float | None] = []
    details: list[tuple[object, ...]] = []
    for bar in bars:
        seconds = bar.seconds.get(stage)
        total = bar.duration_s if bar.duration_s is not None else sum(bar.seconds.values())
        share = seconds / total if seconds is not None and total else None
        heights.append(seconds if unit == "seconds" or share is None else share * 100)
        details.append(
            (bar.first_step, bar.label, format_duration(seconds), format_ratio(share, 1))
        )
    marker: dict[str, Any] = {
        "color": stage_colour(stage),
        "opacity": [_OPEN_OPACITY if bar.is_open else 1.0 for bar in bars],
        "line": {"width": 0},
    }
    if stage == stages.UNATTRIBUTED:
        marker["pattern"] = {
            "shape": "/",
            "size": 4,
            "solidity": 0.25,
            "fgcolor": ROLES[theme].muted,
            "fillmode": "overlay",
        }
    return go.Bar(
        **_positions(bars, axis, zone),
        y=plotted(heights),
        name=stage_label(stage),
        customdata=plotted(details),
        marker=marker,
        hovertemplate="%{customdata[2]}  ·  %{customdata[3]}",
    )


def _outside(stage: str, bars: Sequence[StepBar], axis: Axis, zone: Zone) -> go.Bar:
    label = stage_label(stage)
    return go.Bar(
        **_positions(bars, axis, zone),
        y=plotted([bar.outside.get(stage) for bar in bars]),
        name=f"{label}, between steps",
        customdata=plotted(
            [(bar.first_step, bar.label, format_duration(bar.outside.get(stage))) for bar in bars]
        ),
        marker={"color": stage_colour(stage)},
        yaxis="y2",
        hovertemplate="%{customdata[2]}",
    )


def _lay_out(
    figure: go.Figure,
    bars: Sequence[StepBar],
    unit: Unit,
    axis: Axis,
    zone: Zone,
    has_outside: bool,
    theme: ThemeName,
) -> None:
    top_s = _top_s(bars)
    last = max((bar.last_step for bar in bars), default=0)
    first = min((bar.first_step for bar in bars), default=0)
    ticks = step_axis(first, last) if axis == "step" else {"type": "date", "tickformat": "%H:%M"}
    figure.update_layout(
        template=template(theme),
        barmode="stack",
        hovermode="x unified",
        uirevision=f"{unit}-{axis}",
        xaxis={
            **ticks,
            "showspikes": False,
            "anchor": "y2" if has_outside else "y",
            "hoverformat": "d" if axis == "step" else "%H:%M:%S",
            "unifiedhovertitle": {"text": "<b>%{customdata[1]}</b>"}
            if axis == "time"
            else {"text": "<b>step %{x}</b>"},
        },
        yaxis={
            "domain": [0.20 if has_outside else 0.0, 1.0],
            "ticksuffix": " s" if unit == "seconds" else " %",
            "range": [0, top_s] if unit == "seconds" else [0, 100.5],
            "fixedrange": True,
            "nticks": 6,
        },
    )
    if unit == "seconds":
        figure.update_layout(annotations=_cut_off(bars, top_s, axis, zone, theme))
    if has_outside:
        longest = max(sum(bar.outside.values()) for bar in bars)
        figure.update_layout(
            yaxis2={
                "domain": [0.0, 0.13],
                "range": [0, longest * 1.05],
                "ticksuffix": " s",
                "fixedrange": True,
                "nticks": 2,
                "showgrid": False,
            }
        )
        figure.add_annotation(
            text="between steps",
            xref="paper",
            yref="paper",
            x=0,
            y=0.175,
            xanchor="left",
            yanchor="middle",
            showarrow=False,
            font={"size": 10, "color": ROLES[theme].faint},
        )


def _top_s(bars: Sequence[StepBar]) -> float:
    """Return the upper end of the axis: a step that hangs must not flatten all others."""
    closed = [bar.duration_s for bar in bars if bar.duration_s is not None]
    tallest = max((sum(bar.seconds.values()) for bar in bars), default=1.0)
    return min(tallest, _HANG_HEIGHT * max(closed)) * 1.04 if closed else tallest * 1.04


def _cut_off(
    bars: Sequence[StepBar], top_s: float, axis: Axis, zone: Zone, theme: ThemeName
) -> list[dict[str, Any]]:
    return [
        {
            "text": f"▲ {format_duration(sum(bar.seconds.values()))}",
            "x": bar.first_step if axis == "step" else zone.local(bar.start_ns),
            "y": top_s,
            "yanchor": "top",
            "xanchor": "right",
            "xshift": -6,
            "showarrow": False,
            "font": {"size": 11, "color": ROLES[theme].bad},
            "bgcolor": ROLES[theme].surface,
        }
        for bar in bars
        if sum(bar.seconds.values()) > top_s
    ]


def _mark_attempts(
    figure: go.Figure, bars: Sequence[StepBar], axis: Axis, zone: Zone, theme: ThemeName
) -> None:
    shapes = list[dict[str, Any]]()
    annotations = list[Any](figure.layout.annotations)
    for before, bar in pairwise(bars):
        if before.attempt == bar.attempt:
            continue
        at = bar.first_step - 0.5 if axis == "step" else zone.local(bar.start_ns)
        line = {"color": ROLES[theme].text, "width": 1, "dash": "dot"}
        shapes.append({"type": "line", "x0": at, "x1": at, "yref": "paper", "y0": 0, "y1": 1})
        shapes[-1]["line"] = line
        annotations.append(
            {
                "text": f"attempt {bar.attempt}",
                "x": at,
                "y": 1,
                "yref": "paper",
                "xanchor": "left",
                "yanchor": "top",
                "showarrow": False,
                "font": {"size": 10, "color": ROLES[theme].text},
                "bgcolor": ROLES[theme].surface,
                "borderpad": 2,
            }
        )
    figure.update_layout(shapes=shapes, annotations=annotations)


def _mark_changes(
    figure: go.Figure,
    changes: Sequence[VerdictChange],
    bars: Sequence[StepBar],
    axis: Axis,
    zone: Zone,
    theme: ThemeName,
) -> None:
    """Draw a line with the new verdict's name before the bar in which the verdict changed."""
    shapes = list[Any](figure.layout.shapes)
    annotations = list[Any](figure.layout.annotations)
    labelled: int | None = None
    for change in changes:
        place = next(
            (at for at, bar in enumerate(bars) if bar.first_step <= change.step <= bar.last_step),
            None,
        )
        # The first verdict of a run changes nothing.
        if place is None or change.previous is None:
            continue
        bar = bars[place]
        at = bar.first_step - 0.5 if axis == "step" else zone.local(bar.start_ns)
        colour = verdict_colour(change.verdict)
        shapes.append({"type": "line", "x0": at, "x1": at, "yref": "paper", "y0": 0, "y1": 1})
        shapes[-1]["line"] = {"color": ROLES[theme].text, "width": 1}
        before, after = verdict_badge(change.previous), verdict_badge(change.verdict)
        has_room = labelled is None or place - labelled >= len(bars) * _LABEL_WIDTH
        labelled = place if has_room else labelled
        annotations.append(
            {
                "text": after if has_room else "◆",
                "hovertext": f"from step {change.step}: {after}; before: {before}",
                "x": at,
                "y": 1,
                "yref": "paper",
                "xanchor": "left" if place < len(bars) * (1 - _LABEL_WIDTH) else "right",
                "yanchor": "bottom",
                "showarrow": False,
                "font": {"size": 10, "color": ROLES[theme].text},
                "bgcolor": ROLES[theme].surface,
                "bordercolor": colour,
                "borderpad": 2,
            }
        )
    figure.update_layout(shapes=shapes, annotations=annotations)
    if labelled is not None:
        figure.update_layout(margin={"t": _LABEL_HEIGHT_PX})
