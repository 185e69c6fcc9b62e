"""Panels: a title, its definition, controls, and a body. Every chart stands in one."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

from collections.abc import Sequence

import dash_mantine_components as dmc
from dash import dcc, html
from dash.development.base_component import Component

_BLANK_FIGURE = {
    "data": [],
    "layout": {
        "xaxis": {"visible": False},
        "yaxis": {"visible": False},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
    },
}
_GRAPH_CONFIG = {
    "displaylogo": False,
    "responsive": True,
    "showAxisDragHandles": False,
    "doubleClick": "autosize",
    "modeBarButtons": [["toImage", "resetScale2d"]],
}


def panel(
    title: str,
    body: Component | Sequence[Component],
    *,
    hint: str = "",
    controls: Sequence[Component] = (),
    aside: Component | str | None = None,
    class_name: str = "",
) -> Component:
    """Return a panel; `hint` is the definition behind its title, `aside` stands beside it."""
    children = [body] if isinstance(body, Component) else list(body)
    return html.Section(
        [
            html.Header(
                [
                    hinted(title, hint, "lp-panel-title"),
                    html.Div(aside, className="lp-panel-aside"),
                    html.Div(list(controls), className="lp-panel-controls"),
                ],
                className="lp-panel-head",
            ),
            *children,
        ],
        className=f"lp-panel {class_name}",
    )


def hinted(text: str, hint: str, class_name: str = "") -> Component:
    """Return text with its definition in a tooltip, reachable by keyboard."""
    if not hint:
        return html.Span(text, className=class_name)
    return dmc.Tooltip(
        html.Span(
            [text, html.I(className="lp-icon lp-icon-info")],
            className=f"{class_name} lp-hinted",
            tabIndex=0,
        ),
        label=hint,
        multiline=True,
        w=300,
        withArrow=True,
        openDelay=150,
        events={"hover": True, "focus": True, "touch": True},
    )


def graph(graph_id: str, height_px: int) -> Component:
    """Return a place for a figure."""
    return dcc.Graph(
        id=graph_id,
        figure=_BLANK_FIGURE,
        config=_GRAPH_CONFIG,
        style={"height": f"{height_px}px"},
        className="lp-graph",
    )


def choice(control_id: str, options: Sequence[tuple[str, str]], value: str) -> Component:
    """Return a small control for one of a few (value, label) options."""
    return dmc.SegmentedControl(
        id=control_id,
        data=[{"value": name, "label": label} for name, label in options],
        value=value,
        size="xs",
        className="lp-choice",
    )


def age(since_ms: int | None, class_name: str = "") -> Component:
    """Return a place where the browser writes how long ago a moment was, every second."""
    if since_ms is None:
        return html.Span("–", className=class_name)
    attributes = {"data-since-ms": str(since_ms)}
    return html.Span(className=class_name, **attributes)


def legend(entries: Sequence[tuple[str, str, str]]) -> Component:
    """Return (label, colour, note) entries in one line."""
    return html.Div(
        [
            html.Span(
                [
                    html.I(style={"background": colour}),
                    label,
                    html.Em(note) if note else None,
                ],
                className="lp-legend-entry",
            )
            for label, colour, note in entries
        ],
        className="lp-legend",
    )
