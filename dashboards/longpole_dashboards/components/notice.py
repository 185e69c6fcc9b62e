"""What to say when something could not be shown."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

from dash import dcc, html
from dash.development.base_component import Component

from longpole_dashboards.addresses import RUNS_PATH, run_address

# Of what stands in the place of what nobody reported.
ABSENT_CLASS = "lp-absent"


def error_notice(message: str, hint: str = "") -> Component:
    """Return a banner: what happened, and what to do about it."""
    return html.Div(
        [html.Strong(message), html.Span(f" {hint}" if hint else "")],
        className="lp-notice",
        role="alert",
    )


def missing_notice(message: str, hint: str = "", run_id: str | None = None) -> Component:
    """Return what a page shows instead of its panels when its subject does not exist.

    Args:
        message: What is not there.
        hint: What to do about it.
        run_id: The run in which it was looked for, if that is there.
    """
    links = [dcc.Link("All runs", href=RUNS_PATH, className="lp-link")]
    if run_id is not None:
        link = dcc.Link(f"Run {run_id}", href=run_address(run_id), className="lp-link")
        links.insert(0, link)
    # Which route lists what there is helps programs; people have the link.
    advice = html.P(hint) if hint and "/api/" not in hint else ""
    return html.Div(
        empty_state(
            message[:1].upper() + message[1:], advice, html.P(links, className="lp-empty-links")
        ),
        className="lp-notice-missing",
        role="alert",
    )


def empty_state(title: str, *lines: Component | str) -> Component:
    """Return a designed empty place: a title and what to do to fill it."""
    return html.Div([html.H2(title), *lines], className="lp-empty")


def absent(text: str) -> Component:
    """Return the words for a value that nobody reported."""
    return html.Div(text, className=ABSENT_CLASS)
