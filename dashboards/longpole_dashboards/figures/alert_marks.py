"""Alerts as marks on a chart of steps: where each began, and the steps an address points at."""

from collections.abc import Mapping, Sequence
from typing import Any

from longpole_dashboards.figures.figure import Figure
from longpole_dashboards.formats import Zone
from longpole_dashboards.theme import ROLES, Roles, ThemeName, translucent
from longpole_server.model.alert import Alert
from longpole_server.model.step import Step

# Signs stand above what else is written over a chart.
_ABOVE_PX, _ROOM_PX = 11, 16
_SIGNS = {"critical": "▲", "warning": "◆", "info": "●"}


def mark_alerts(
    figure: Figure,
    alerts: Sequence[Alert],
    titles: Mapping[str, str],
    *,
    asked: tuple[int, int] | None,
    steps: Sequence[Step],
    axis: str,
    zone: Zone,
    theme: ThemeName,
) -> None:
    """Add a sign above the step at which each alert began, and shade the steps `asked` for."""
    roles = ROLES[theme]
    shown = {step.step: step for step in steps}
    if asked is not None:
        _shade(figure, asked, shown, axis, zone, roles)
    by_step: dict[int, list[Alert]] = {}
    for alert in alerts:
        if alert.first_step in shown:
            by_step.setdefault(alert.first_step or 0, []).append(alert)
    for number, found in by_step.items():
        step = shown[number]
        at = number if axis == "step" else zone.local(step.start_ns)
        worst = min(found, key=lambda alert: list(_SIGNS).index(alert.severity))
        words = [
            f"{_SIGNS[alert.severity]} <b>{titles.get(alert.rule, alert.rule)}</b>, {alert.state}"
            f"<br>{alert.summary}"
            for alert in found
        ]
        figure.add_annotation(
            text=_SIGNS[worst.severity],
            hovertext="<br>".join(words),
            x=at,
            y=1,
            yref="paper",
            yanchor="bottom",
            yshift=_ABOVE_PX,
            showarrow=False,
            captureevents=True,
            font={"size": 11, "color": _colour(worst, roles)},
        )
    if by_step or asked is not None:
        figure.update_layout(margin={"t": figure.margin_top_px + _ROOM_PX})


def _colour(alert: Alert, roles: Roles) -> str:
    if alert.state == "resolved":
        return roles.faint
    return {"critical": roles.bad, "warning": roles.warn}.get(alert.severity, roles.muted)


def _shade(
    figure: Figure,
    asked: tuple[int, int],
    shown: Mapping[int, Step],
    axis: str,
    zone: Zone,
    roles: Roles,
) -> None:
    inside = [shown[number] for number in range(asked[0], asked[1] + 1) if number in shown]
    if not inside:
        return
    ends: tuple[Any, Any]
    if axis == "step":
        ends = (inside[0].step - 0.5, inside[-1].step + 0.5)
    else:
        last = inside[-1]
        ends = (zone.local(inside[0].start_ns), zone.local(last.end_ns or last.start_ns))
    figure.add_shape(
        type="rect",
        xref="x",
        yref="paper",
        x0=ends[0],
        x1=ends[1],
        y0=0,
        y1=1,
        line={"width": 1, "color": translucent(roles.accent, 0.6)},
        fillcolor=translucent(roles.accent, 0.10),
        layer="below",
    )
