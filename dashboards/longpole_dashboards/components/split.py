"""A sum and its parts as bars: what a sample's seconds were spent on."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

from collections.abc import Sequence
from dataclasses import dataclass

from dash import html
from dash.development.base_component import Component

from longpole_dashboards.formats import format_duration, format_ratio


@dataclass(frozen=True, slots=True)
class Share:
    """One part of a sum. `seconds` is None where nobody reported it."""

    label: str
    colour: str
    seconds: float | None
    is_rest: bool = False


def split(total_s: float, shares: Sequence[Share]) -> Component:
    """Return the parts of `total_s` as one bar, and below it one row each."""
    known = [share for share in shares if share.seconds]
    whole = html.Div(
        [
            html.I(
                className="lp-hatched" if share.is_rest else "",
                style={
                    "width": f"{_percent(share.seconds, total_s):.2f}%",
                    "background": share.colour,
                },
                title=f"{share.label} {format_duration(share.seconds)}",
            )
            for share in known
        ],
        className="lp-split-bar",
    )
    rows = [
        html.Div(
            [
                html.I(className="lp-stage-dot", style={"background": share.colour}),
                html.Span(share.label),
                html.Div(
                    html.I(
                        style={
                            "width": f"{_percent(share.seconds, total_s):.2f}%",
                            "background": share.colour,
                        }
                    ),
                    className="lp-saved",
                ),
                html.B(format_duration(share.seconds)),
                html.Span(
                    "not reported"
                    if share.seconds is None
                    else format_ratio(share.seconds / total_s if total_s else None, 1)
                ),
            ],
            className="lp-split-row",
        )
        for share in shares
    ]
    return html.Div([whole, *rows], className="lp-split")


def _percent(seconds: float | None, total_s: float) -> float:
    return min(100.0, 100.0 * (seconds or 0.0) / total_s) if total_s else 0.0
