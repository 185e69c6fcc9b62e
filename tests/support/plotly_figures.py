"""Figures as Plotly's own classes, which refuse what its schema does not know."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from typing import Any

import plotly.graph_objects as go

from longpole_dashboards.figures.figure import Figure


def check_figure(figure: Figure) -> Any:
    """Return a figure with every property and value checked by Plotly."""
    return go.Figure({"data": figure.data, "layout": figure.layout})
