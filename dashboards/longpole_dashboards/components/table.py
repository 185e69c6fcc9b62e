"""Small tables: as many rows as are read at a glance, figures to the right."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

from collections.abc import Sequence
from dataclasses import dataclass

from dash import html
from dash.development.base_component import Component

from longpole_dashboards.components.panel import hinted

Cell = Component | str | None


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its head, the definition behind that, and whether it holds figures."""

    head: str
    is_figure: bool = False
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A row: a cell a column."""

    cells: Sequence[Cell]
    class_name: str = ""


def table(columns: Sequence[Column], rows: Sequence[Row]) -> Component:
    """Return a table that scrolls by itself where it is wider than its place."""
    classes = ["lp-figure" if column.is_figure else "" for column in columns]
    heads = [
        html.Th(hinted(column.head, column.hint) if column.hint else column.head, className=name)
        for column, name in zip(columns, classes, strict=True)
    ]
    body = [
        html.Tr(
            [html.Td(cell, className=name) for cell, name in zip(row.cells, classes, strict=True)],
            className=row.class_name,
        )
        for row in rows
    ]
    return html.Div(
        html.Table(
            [html.Thead(html.Tr(heads)), html.Tbody(body)],
            className="lp-table lp-rows lp-figures",
        ),
        className="lp-scroll",
        # What can be scrolled can be scrolled by keyboard.
        tabIndex=0,
    )


def share_bar(ratio: float | None, words: Sequence[Cell], colour: str | None = None) -> Component:
    """Return a share in 0..1 as words and a bar, in the accent's colour by default."""
    width = f"{min(1.0, max(0.0, ratio or 0.0)) * 100:.1f}%"
    style = {"width": width} if colour is None else {"width": width, "background": colour}
    bar = html.Div(html.I(style=style), className="lp-share-bar")
    return html.Div([*words, bar], className="lp-share")
