"""Stage shares: what the seconds of every step were spent on, one stacked bar a step."""

from collections.abc import Sequence
from typing import Any

from longpole_dashboards.figures.bars import StepBar, make_bars
from longpole_dashboards.figures.figure import Figure
from longpole_dashboards.figures.share_longest import is_thinned, mark_longest, name_bars
from longpole_dashboards.figures.share_marks import mark_attempts, mark_changes
from longpole_dashboards.figures.share_parts import Axis, Unit, parts_as_areas, parts_of_bars
from longpole_dashboards.figures.template import step_axis, template
from longpole_dashboards.formats import Zone, format_duration
from longpole_dashboards.theme import ROLES, ThemeName
from longpole_server.model.annotations import VerdictChange
from longpole_server.model.run import OpenStage
from longpole_server.model.step import Step

MAX_BARS = 240
# Of more than this many bars the parts are areas.
MAX_BARS_APART = 80
# An open step may be drawn this many times as tall as the longest closed one.
_HANG_HEIGHT = 2.0
_MAX_CUT_LABELS = 4


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
) -> Figure:
    """Draw the ledger of each step; validation and checkpoints between steps stand apart below.

    A thin line stands where the verdict changed and stayed.

    The parts of a bar add up to the step's seconds (100 percent). A stage that a step did not
    report has no part there. A bar of several steps is their mean; a mark above it is the longest
    of them, in the colour of the stage that made it so. `customdata` starts with the step that a
    click opens: of several the longest.
    """
    bars = make_bars(steps, MAX_BARS, open_stage, now_ns)
    figure = Figure()
    closed = [bar for bar in bars if not bar.is_open]
    apart = bars
    if len(closed) > MAX_BARS_APART:
        for area in parts_as_areas(closed, unit, axis, zone, theme):
            figure.add_trace(area)
        apart = [bar for bar in bars if bar.is_open]
    for part in parts_of_bars(apart, unit, axis, zone, theme):
        figure.add_trace(part)
    has_outside = any(bar.outside for bar in bars)
    _lay_out(figure, bars, unit, axis, zone, has_outside, theme)
    if unit == "seconds" and is_thinned(bars):
        for mark in mark_longest(bars, _top_s(bars), axis, zone):
            figure.add_trace(mark)
    if axis == "time" or is_thinned(bars):
        figure.add_trace(name_bars(bars, axis, zone))
    mark_attempts(figure, bars, axis, zone, theme)
    mark_changes(figure, changes, bars, axis, zone, theme)
    return figure


def _hover_title(bars: Sequence[StepBar], axis: Axis) -> str:
    if axis == "time":
        return "<b>%{x|%H:%M:%S}</b>"
    return "<b>around step %{x:.0f}</b>" if is_thinned(bars) else "<b>step %{x}</b>"


def _lay_out(
    figure: Figure,
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
            "unifiedhovertitle": {"text": _hover_title(bars, axis)},
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
    tallest = max((max(sum(bar.seconds.values()), bar.longest_s) for bar in bars), default=1.0)
    return min(tallest, _HANG_HEIGHT * max(closed)) * 1.04 if closed else tallest * 1.04


def _cut_off(
    bars: Sequence[StepBar], top_s: float, axis: Axis, zone: Zone, theme: ThemeName
) -> list[dict[str, Any]]:
    """Say how long what the axis cuts off took: the longest of it, where there is much."""
    cut = [(max(bar.longest_s, sum(bar.seconds.values())), bar) for bar in bars]
    cut = sorted(((s, bar) for s, bar in cut if s > top_s), key=lambda each: -each[0])
    return [
        {
            "text": f"▲ {format_duration(seconds)}",
            "x": bar.first_step if axis == "step" else zone.local(bar.start_ns),
            "y": top_s,
            "yanchor": "top",
            "xanchor": "right",
            "xshift": -6,
            "showarrow": False,
            "font": {"size": 11, "color": ROLES[theme].bad},
            "bgcolor": ROLES[theme].surface,
        }
        for seconds, bar in cut[:_MAX_CUT_LABELS]
    ]
