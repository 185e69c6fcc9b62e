"""What to say when something could not be shown."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

from dash import html
from dash.development.base_component import Component


def error_notice(message: str, hint: str = "") -> Component:
    """Return a banner: what happened, and what to do about it."""
    return html.Div(
        [html.Strong(message), html.Span(f" {hint}" if hint else "")],
        className="lp-notice",
        role="alert",
    )


def empty_state(title: str, *lines: Component | str) -> Component:
    """Return a designed empty place: a title and what to do to fill it."""
    return html.Div([html.H2(title), *lines], className="lp-empty")


def absent(text: str) -> Component:
    """Return the words for a value that nobody reported."""
    return html.Div(text, className="lp-absent")
