"""Stats: one number each, for pages without a history to compare with."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

from dataclasses import dataclass
from typing import Literal

from dash import html
from dash.development.base_component import Component

from longpole_dashboards.components.panel import hinted

Tone = Literal["", "good", "warn", "bad"]


@dataclass(frozen=True, slots=True)
class Stat:
    """One number, ready to be read. `note` stands below it; `tone` colours a number that is bad."""

    label: str
    value: str
    note: str = ""
    unit: str = ""
    hint: str = ""
    tone: Tone = ""


def stat(shown: Stat) -> Component:
    """Return a stat as a component."""
    return html.Div(
        [
            hinted(shown.label, shown.hint, "lp-tile-label"),
            html.Div(
                [html.Span(shown.value), html.Small(shown.unit)],
                className=f"lp-tile-value lp-tone-{shown.tone}" if shown.tone else "lp-tile-value",
            ),
            html.Div(shown.note, className="lp-tile-foot"),
        ],
        className="lp-tile",
    )
