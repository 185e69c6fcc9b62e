"""Marks over a run's stage shares: where an attempt began, and where the verdict changed."""

from collections.abc import Sequence
from itertools import pairwise

from longpole_dashboards.figures.bars import StepBar
from longpole_dashboards.figures.figure import Figure
from longpole_dashboards.figures.share_parts import Axis
from longpole_dashboards.formats import Zone
from longpole_dashboards.theme import ROLES, ThemeName, verdict_colour
from longpole_dashboards.verdicts import verdict_badge
from longpole_server.model.annotations import VerdictChange

# Part of the chart's width that the name of a verdict takes.
_LABEL_WIDTH = 0.15
_LABEL_HEIGHT_PX = 22
# Of a verdict that changes all the time the newest changes are marked.
_MAX_CHANGES = 60


def mark_attempts(
    figure: Figure, bars: Sequence[StepBar], axis: Axis, zone: Zone, theme: ThemeName
) -> None:
    """Draw a dotted line with the attempt's number before its first bar."""
    for before, bar in pairwise(bars):
        if before.attempt == bar.attempt:
            continue
        at = _left_end(bar, axis, zone)
        line = {"color": ROLES[theme].text, "width": 1, "dash": "dot"}
        figure.add_shape(type="line", x0=at, x1=at, yref="paper", y0=0, y1=1, line=line)
        figure.add_annotation(
            text=f"attempt {bar.attempt}",
            x=at,
            y=1,
            yref="paper",
            xanchor="left",
            yanchor="top",
            showarrow=False,
            font={"size": 10, "color": ROLES[theme].text},
            bgcolor=ROLES[theme].surface,
            borderpad=2,
        )


def mark_changes(
    figure: Figure,
    changes: Sequence[VerdictChange],
    bars: Sequence[StepBar],
    axis: Axis,
    zone: Zone,
    theme: ThemeName,
) -> None:
    """Draw a line with the new verdict's name before the bar in which the verdict changed."""
    labelled: int | None = None
    # The first verdict of a run changes nothing.
    changed = [change for change in changes if change.previous is not None]
    for change in changed[-_MAX_CHANGES:]:
        place = next(
            (at for at, bar in enumerate(bars) if bar.first_step <= change.step <= bar.last_step),
            None,
        )
        if place is None:
            continue
        at = _left_end(bars[place], axis, zone)
        line = {"color": ROLES[theme].text, "width": 1}
        figure.add_shape(type="line", x0=at, x1=at, yref="paper", y0=0, y1=1, line=line)
        before, after = verdict_badge(change.previous), verdict_badge(change.verdict)
        has_room = labelled is None or place - labelled >= len(bars) * _LABEL_WIDTH
        labelled = place if has_room else labelled
        figure.add_annotation(
            text=after if has_room else "◆",
            hovertext=f"from step {change.step}: {after}; before: {before}",
            x=at,
            y=1,
            yref="paper",
            xanchor="left" if place < len(bars) * (1 - _LABEL_WIDTH) else "right",
            yanchor="bottom",
            showarrow=False,
            font={"size": 10, "color": ROLES[theme].text},
            bgcolor=ROLES[theme].surface,
            bordercolor=verdict_colour(change.verdict),
            borderpad=2,
        )
    if labelled is not None:
        figure.update_layout(margin={"t": _LABEL_HEIGHT_PX})


def _left_end(bar: StepBar, axis: Axis, zone: Zone) -> object:
    return bar.first_step - 0.5 if axis == "step" else zone.local(bar.start_ns)
