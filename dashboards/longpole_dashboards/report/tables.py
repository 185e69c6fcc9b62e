"""Sections, tables and text of the report, as HTML."""

from collections.abc import Sequence
from html import escape


def section(title: str, body: str) -> str:
    """Return a section; `body` is HTML."""
    return f"<section><h2>{escape(title)}</h2>{body}</section>"


def table(head: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[int]) -> str:
    """Return a table of plain text; columns in `numbers` stand to the right."""
    if not rows:
        return '<p class="dim">None.</p>'
    side = ['class="n"' if at in numbers else "" for at in range(len(head))]
    heading = "".join(f"<th {side[at]}>{escape(name)}</th>" for at, name in enumerate(head))
    body = "".join(
        "<tr>"
        + "".join(f"<td {side[at]}>{escape(cell)}</td>" for at, cell in enumerate(row))
        + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{heading}</tr></thead><tbody>{body}</tbody></table>"


def code(text: str) -> str:
    """Return text in which what stands between backticks is set as code."""
    return "".join(
        f"<code>{escape(part)}</code>" if index % 2 else escape(part)
        for index, part in enumerate(text.split("`"))
    )
