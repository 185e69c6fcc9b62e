"""What to say when something could not be shown."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

from dash import dcc, html
from dash.development.base_component import Component

from longpole_dashboards.addresses import RUNS_PATH


def error_notice(message: str, hint: str = "") -> Component:
    """Return a banner: what happened, and what to do about it."""
    return html.Div(
        [html.Strong(message), html.Span(f" {hint}" if hint else "")],
        className="lp-notice",
        role="alert",
    )


def missing_notice(message: str, hint: str = "") -> Component:
    """Return what a page shows instead of its panels when its subject does not exist."""
    link = dcc.Link("All runs", href=RUNS_PATH, className="lp-link")
    # Which route lists what there is helps programs; people have the link.
    advice = html.P(hint) if hint and "/api/" not in hint else ""
    return html.Div(
        empty_state(message[:1].upper() + message[1:], advice, html.P(link)),
        className="lp-notice-missing",
        role="alert",
    )


def empty_state(title: str, *lines: Component | str) -> Component:
    """Return a designed empty place: a title and what to do to fill it."""
    return html.Div([html.H2(title), *lines], className="lp-empty")


def absent(text: str) -> Component:
    """Return the words for a value that nobody reported."""
    return html.Div(text, className="lp-absent")
