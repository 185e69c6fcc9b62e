"""Stage shares: what the seconds of every step were spent on, one stacked bar a step."""

from collections.abc import Sequence
from typing import Any, Literal

from longpole.conventions import stages
from longpole_dashboards.figures.bars import StepBar, make_bars, order_stages
from longpole_dashboards.figures.figure import Figure, Trace, bar_trace, scatter_trace
from longpole_dashboards.figures.share_marks import Axis, mark_attempts, mark_changes
from longpole_dashboards.figures.template import step_axis, template
from longpole_dashboards.formats import NS_PER_S, Zone, format_duration, format_ratio
from longpole_dashboards.theme import ROLES, ThemeName, stage_colour, stage_label
from longpole_server.model.annotations import VerdictChange
from longpole_server.model.run import OpenStage
from longpole_server.model.step import Step

Unit = Literal["seconds", "percent"]
MAX_BARS = 240
_OPEN_OPACITY = 0.45
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
    for stage in order_stages({name for bar in bars for name in bar.seconds}):
        figure.add_trace(_part(stage, bars, unit, axis, zone, theme))
    outside = order_stages({name for bar in bars for name in bar.outside})
    for stage in outside:
        figure.add_trace(_outside(stage, bars, axis, zone))
    _lay_out(figure, bars, unit, axis, zone, bool(outside), theme)
    if unit == "seconds" and any(bar.last_step > bar.first_step for bar in bars):
        figure.add_trace(_longest(bars, _top_s(bars), axis, zone))
    mark_attempts(figure, bars, axis, zone, theme)
    mark_changes(figure, changes, bars, axis, zone, theme)
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
) -> Trace:
    heights: list[float | None] = []
    details: list[tuple[object, ...]] = []
    for bar in bars:
        seconds = bar.seconds.get(stage)
        total = bar.duration_s if bar.duration_s is not None else sum(bar.seconds.values())
        share = seconds / total if seconds is not None and total else None
        heights.append(seconds if unit == "seconds" or share is None else share * 100)
        details.append(
            (bar.longest_step, bar.label, format_duration(seconds), format_ratio(share, 1))
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
    return bar_trace(
        **_positions(bars, axis, zone),
        y=heights,
        name=stage_label(stage),
        customdata=details,
        marker=marker,
        hovertemplate="%{customdata[2]}  ·  %{customdata[3]}",
    )


def _outside(stage: str, bars: Sequence[StepBar], axis: Axis, zone: Zone) -> Trace:
    label = stage_label(stage)
    return bar_trace(
        **_positions(bars, axis, zone),
        y=[bar.outside.get(stage) for bar in bars],
        name=f"{label}, between steps",
        customdata=[
            (bar.first_step, bar.label, format_duration(bar.outside.get(stage))) for bar in bars
        ],
        marker={"color": stage_colour(stage)},
        yaxis="y2",
        hovertemplate="%{customdata[2]}",
    )


def _longest(bars: Sequence[StepBar], top_s: float, axis: Axis, zone: Zone) -> Trace:
    """Mark the longest step of every bar that stands for several."""
    shown = [bar for bar in bars if bar.last_step > bar.first_step]
    return scatter_trace(
        x=[_middle(bar, axis, zone) for bar in shown],
        # One that is longer than the axis stands at its end.
        y=[min(bar.longest_s, top_s * 0.985) for bar in shown],
        mode="markers",
        name="longest",
        marker={
            "symbol": ["triangle-up" if bar.longest_s > top_s else "line-ew-open" for bar in shown],
            "size": 5,
            "color": [stage_colour(bar.longest_stage) for bar in shown],
            "line": {"width": 2},
        },
        customdata=[
            (
                bar.longest_step,
                format_duration(bar.longest_s),
                stage_label(bar.longest_stage),
            )
            for bar in shown
        ],
        hovertemplate="%{customdata[1]}  ·  step %{customdata[0]}, most of it more "
        "%{customdata[2]}",
    )


def _middle(bar: StepBar, axis: Axis, zone: Zone) -> object:
    if axis == "step":
        return (bar.first_step + bar.last_step) / 2
    return zone.local(bar.start_ns + int(bar.length_s / 2 * NS_PER_S))


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
