"""A dialog that asks for something, says why it was refused, and is called off."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

from collections.abc import Sequence

import dash_mantine_components as dmc
from dash import html
from dash.development.base_component import Component


def dialog(
    name: str, title: str, fields: Sequence[Component], *, submit: tuple[str, str]
) -> Component:
    """Return a dialog, closed.

    Args:
        name: Prefix of the ids of its parts: `-dialog`, `-refused`, `-cancel`.
        title: Its title.
        fields: What it asks for.
        submit: Id and label of the button that does it.
    """
    submit_id, label = submit
    foot = html.Div(
        [
            html.Button("Cancel", id=f"{name}-cancel", className="lp-button"),
            html.Button(label, id=submit_id, className="lp-button lp-primary"),
        ],
        className="lp-dialog-foot",
    )
    refused = html.Div(id=f"{name}-refused", className="lp-refused", role="alert")
    return dmc.Modal(
        html.Div([*fields, refused, foot], className="lp-dialog"),
        id=f"{name}-dialog",
        title=title,
        size="md",
        opened=False,
    )
