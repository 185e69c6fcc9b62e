"""Buttons that save what a panel shows. The browser does it by itself: `assets/exports.js`."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

import json
from collections.abc import Sequence
from typing import Any, Literal

from dash import html
from dash.development.base_component import Component

from longpole_dashboards.components.attributes import attributes

ImageKind = Literal["png", "svg"]
IMAGE_KINDS: tuple[ImageKind, ...] = ("png", "svg")


def csv_button(target_id: str, name: str, head: Sequence[str] = ()) -> Component:
    """Return a button that saves a table as CSV.

    Args:
        target_id: Id of a grid, or of a component with a table in it.
        name: Of the file, without its ending.
        head: Where the target holds no table but parts with `row_cells`: what those are.
    """
    more = {"data_head": json.dumps(list(head))} if head else {}
    return _button("CSV", "Save this table as CSV", data_csv=target_id, data_name=name, **more)


def row_cells(*cells: str) -> dict[str, Any]:
    """Return the attributes by which a part of a page is a row of a saved table."""
    return attributes(data_cells=json.dumps(cells))


def image_button(graph_id: str, name: str, kind: ImageKind) -> Component:
    """Return a button that saves a chart as an image; `name` is that of the file."""
    label = kind.upper()
    return _button(
        label, f"Save this chart as {label}", **{f"data_{kind}": graph_id, "data_name": name}
    )


def file_link(label: str, title: str, href: str, file_name: str) -> Component:
    """Return a link under which the server hands out a file."""
    return html.A(
        [html.I(className="lp-icon lp-icon-download"), label],
        href=href,
        download=file_name,
        className="lp-export lp-export-file",
        title=title,
    )


def _button(label: str, title: str, **data: str) -> Component:
    return html.Button(
        [html.I(className="lp-icon lp-icon-download"), label],
        className="lp-export",
        title=title,
        **attributes(aria_label=title, **data),
    )
