"""Tiles: one number each, with its change against what is usual in this run."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from dash import html
from dash.development.base_component import Component

from longpole_dashboards.components.panel import hinted
from longpole_dashboards.components.sparkline import sparkline
from longpole_dashboards.formats import ABSENT, format_change
from longpole_dashboards.glossary import DEFINITIONS
from longpole_dashboards.theme import ROLES, ThemeName

Better = Literal["up", "down", "neither"]
# Changes smaller than this are how steps differ anyway.
QUIET_RATIO = 0.03


@dataclass(frozen=True, slots=True)
class Tile:
    """One tile.

    Attributes:
        value, unit: Ready to be read.
        history: Its values of the run's steps, oldest first, the shown one last.
        better: Which direction is good news.
        missing: What to say when there is no value.
    """

    label: str
    value: str
    unit: str
    hint: str
    history: Sequence[float | None]
    better: Better = "neither"
    missing: str = ""


def tile(shown: Tile, theme: ThemeName) -> Component:
    """Return a tile as a component."""
    ratio = change_ratio(shown.history)
    line = sparkline(shown.history[-40:], ROLES[theme].faint, filled=False)
    return html.Div(
        [
            hinted(shown.label, f"{shown.hint} {DEFINITIONS['change']}".strip(), "lp-tile-label"),
            html.Div(
                [html.Span(shown.value), html.Small(shown.unit if shown.value != ABSENT else "")],
                className="lp-tile-value",
            ),
            html.Div(
                [_change(ratio, shown.better)]
                if shown.value != ABSENT
                else [html.Span(shown.missing or "not reported", className="lp-tile-missing")],
                className="lp-tile-foot",
            ),
            html.Img(src=line, alt="", className="lp-tile-spark") if line else None,
        ],
        className="lp-tile",
    )


def change_ratio(history: Sequence[float | None]) -> float | None:
    """Return the newest value over the median of the earlier ones, minus one."""
    if len(history) < 4 or history[-1] is None:
        return None
    earlier = [value for value in history[:-1] if value is not None]
    baseline = float(np.median(earlier)) if len(earlier) >= 3 else 0.0
    return history[-1] / baseline - 1 if baseline else None


def _change(ratio: float | None, better: Better) -> Component:
    if ratio is None:
        return html.Span("no baseline yet", className="lp-change")
    quiet = abs(ratio) < QUIET_RATIO or better == "neither"
    good = (ratio > 0) == (better == "up")
    tone = "" if quiet else " lp-good" if good else " lp-bad"
    arrow = "▲" if ratio > 0 else "▼"
    return html.Span(
        [html.I("" if abs(ratio) < QUIET_RATIO else arrow), format_change(ratio), " vs median"],
        className=f"lp-change{tone}",
    )
