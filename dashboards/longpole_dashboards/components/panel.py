"""Panels: a title, its definition, controls, and a body. Every chart stands in one."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

from collections.abc import Sequence
from typing import Any, cast

import dash_mantine_components as dmc
from dash import dcc, html
from dash.development.base_component import Component

from longpole_dashboards.components.attributes import attributes
from longpole_dashboards.components.export import IMAGE_KINDS, image_button
from longpole_dashboards.figures.figure import Figure

__all__ = [
    "age",
    "attributes",
    "choice",
    "fit_height",
    "graph",
    "hinted",
    "legend",
    "panel",
]

# What a chart is before it is there: `assets/near.js` draws nothing for it.
_BLANK_FIGURE: dict[str, Any] = {"data": [], "layout": {"meta": {"blank": True}}}
# Height of a figure that only says why there is none.
_MESSAGE_PX = 160
_GRAPH_CONFIG: Any = {
    "displaylogo": False,
    # Plotly's own would offer to send the chart to its makers.
    "showSendToCloud": False,
    "plotlyServerURL": "",
    "responsive": True,
    "showAxisDragHandles": False,
    "doubleClick": "autosize",
    # Flat lists only: Plotly takes a nested one for a changed configuration, and at every update
    # draws the chart from scratch, without the viewer's zoom.
    "modeBarButtonsToRemove": [
        "zoom2d",
        "pan2d",
        "select2d",
        "lasso2d",
        "zoomIn2d",
        "zoomOut2d",
        "autoScale2d",
    ],
}


def panel(
    title: str,
    body: Component | Sequence[Component],
    *,
    hint: str = "",
    controls: Sequence[Component] = (),
    aside: Component | Sequence[Component] | str | None = None,
    class_name: str = "",
) -> Component:
    """Return a panel; `hint` is the definition behind its title, `aside` stands beside it."""
    children = [body] if isinstance(body, Component) else list(body)
    images = [
        image_button(found, title, kind) for found in _graph_ids(children) for kind in IMAGE_KINDS
    ]
    return html.Section(
        [
            html.Header(
                [
                    hinted(title, hint, "lp-panel-title"),
                    html.Div(aside, className="lp-panel-aside"),
                    html.Div([*images, *controls], className="lp-panel-controls"),
                ],
                className="lp-panel-head",
            ),
            *children,
        ],
        className=f"lp-panel {class_name}",
    )


def _graph_ids(children: Sequence[Any]) -> list[str]:
    found = list[str]()
    for child in children:
        nested = getattr(child, "children", None)
        if isinstance(child, dcc.Graph):
            found.append(str(getattr(child, "id", "")))
        elif isinstance(nested, Component):
            found += _graph_ids([nested])
        elif isinstance(nested, list):
            found += _graph_ids(cast("list[Any]", nested))
    return found


def hinted(text: str, hint: str, class_name: str = "") -> Component:
    """Return text with its definition in a tooltip, reachable by keyboard."""
    if not hint:
        return html.Span(text, className=class_name)
    return html.Span(
        [text, html.I(className="lp-icon lp-icon-info")],
        className=f"{class_name} lp-hinted",
        tabIndex=0,
        **attributes(data_hint=hint),
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


def fit_height(figure: Figure) -> tuple[Figure, dict[str, str]]:
    """Move a figure's height into the style of its place, so that its width stays free."""
    height_px = figure.layout.pop("height", _MESSAGE_PX)
    return figure, {"height": f"{height_px:.0f}px"}


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
    return html.Span(className=class_name, **attributes(data_since_ms=since_ms))


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
