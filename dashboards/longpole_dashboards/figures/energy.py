"""Energy a step, stacked by stage, and what a token costs."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from longpole_dashboards.figures.bars import order_stages
from longpole_dashboards.figures.figure import Figure, Trace, bar_trace, scatter_trace
from longpole_dashboards.figures.series import corner_label
from longpole_dashboards.figures.template import message_figure, step_axis, template, wrap
from longpole_dashboards.formats import Zone, format_energy
from longpole_dashboards.glossary import not_reported
from longpole_dashboards.theme import ROLES, ThemeName, stage_colour, stage_label
from longpole_server.model.energy import StepEnergy

_J_PER_WH = 3600.0
_WHOLE = "whole step"
# What a token costs stands above the bars.
_BARS_SHARE, _LINE_FROM = 0.64, 0.78


def energy_steps(steps: Sequence[StepEnergy], *, axis: str, zone: Zone, theme: ThemeName) -> Figure:
    """Draw them; steps whose energy nobody tells are left out. Hatched: an estimate."""
    known = [step for step in steps if step.energy_joules is not None]
    if not known:
        return message_figure(wrap(not_reported("energy", "Energy"), 60), theme)
    roles = ROLES[theme]
    parts = [_by_stage(step) for step in known]
    scale, unit = _choose_unit([step.energy_joules or 0.0 for step in known])
    names = {name for part in parts for name in part}
    figure = Figure()
    for name in [*order_stages(names - {_WHOLE}), *([_WHOLE] if _WHOLE in names else [])]:
        label = _WHOLE if name == _WHOLE else stage_label(name)
        figure.add_trace(
            bar_trace(
                **_positions(known, axis, zone),
                y=[part[name] / scale if name in part else None for part in parts],
                name=label,
                customdata=[
                    [step.step, f"step {step.step}", _say(step, part.get(name))]
                    for step, part in zip(known, parts, strict=True)
                ],
                marker={
                    "color": roles.muted if name == _WHOLE else stage_colour(name),
                    "line": {"width": 0},
                    "pattern": {
                        "shape": ["/" if step.is_estimated else "" for step in known],
                        "size": 4,
                        "solidity": 0.25,
                        "fgcolor": roles.surface,
                        "fillmode": "overlay",
                    },
                },
                hovertemplate=f"<b>{label}</b>  %{{customdata[2]}}<br>%{{customdata[1]}}"
                "<extra></extra>",
            )
        )
    figure.add_trace(_cost_line(known, axis, zone, theme))
    figure.update_layout(
        template=template(theme),
        barmode="stack",
        uirevision=f"energy-{axis}",
        margin={"l": 58, "r": 12, "t": 14, "b": 26},
        xaxis=_x_axis(known, axis) | {"anchor": "y"},
        yaxis={
            "ticksuffix": f" {unit}",
            "rangemode": "tozero",
            "fixedrange": True,
            "nticks": 4,
            "domain": [0.0, _BARS_SHARE],
        },
        yaxis2={
            "ticksuffix": " J",
            "rangemode": "tozero",
            "fixedrange": True,
            "nticks": 3,
            "domain": [_LINE_FROM, 1.0],
        },
        annotations=[
            corner_label("energy a step", _BARS_SHARE, roles.muted),
            corner_label("J a token", 1.0, roles.second),
        ],
    )
    return figure


def _by_stage(step: StepEnergy) -> Mapping[str, float]:
    """Return joules by stage that add up to the step's; overlapping ones give way in proportion."""
    found: defaultdict[str, float] = defaultdict(float)
    total = step.energy_joules or 0.0
    if any(part.energy_joules is None for part in step.stages):
        return {_WHOLE: total}
    for part in step.stages:
        found[part.stage] += part.energy_joules or 0.0
    told = sum(found.values())
    if not told:
        return {_WHOLE: total}
    factor = min(1.0, total / told)
    return {name: joules * factor for name, joules in found.items()}


def _choose_unit(joules: Sequence[float]) -> tuple[float, str]:
    most = max(joules) / _J_PER_WH
    return (_J_PER_WH * 1e3, "kWh") if most >= 1e3 else (_J_PER_WH, "Wh")


def _say(step: StepEnergy, joules: float | None) -> str:
    sign = "≈ " if step.is_estimated else ""
    return f"{sign}{format_energy(joules)} of {format_energy(step.energy_joules)}"


def _cost_line(steps: Sequence[StepEnergy], axis: str, zone: Zone, theme: ThemeName) -> Trace:
    colour = ROLES[theme].second
    return scatter_trace(
        x=_middles(steps, axis, zone),
        y=[step.joules_per_token for step in steps],
        yaxis="y2",
        mode="lines+markers" if len(steps) <= 40 else "lines",
        line={"width": 1.6, "color": colour},
        marker={"size": 4, "color": colour},
        customdata=[[step.step] for step in steps],
        hovertemplate="step %{customdata[0]}<br>%{y:.3g} J a token<extra></extra>",
    )


def _positions(steps: Sequence[StepEnergy], axis: str, zone: Zone) -> dict[str, Any]:
    if axis == "step":
        return {"x": [step.step for step in steps]}
    return {
        "x": [zone.local(step.start_ns) for step in steps],
        "width": [max(1.0, step.duration_s * 1000) for step in steps],
        "offset": 0,
    }


def _middles(steps: Sequence[StepEnergy], axis: str, zone: Zone) -> list[object]:
    if axis == "step":
        return [step.step for step in steps]
    return [zone.local((step.start_ns + step.end_ns) // 2) for step in steps]


def _x_axis(steps: Sequence[StepEnergy], axis: str) -> dict[str, Any]:
    if axis == "time":
        return {"type": "date", "tickformat": "%H:%M", "hoverformat": "%H:%M:%S"}
    first, last = steps[0].step, steps[-1].step
    # As wide as its bars: marks of the line would widen it.
    return {"range": [first - 0.6, last + 0.6]} | step_axis(first, last)
