"""Plotly templates built from the design system, and the figure that says why there is none."""

from functools import cache
from typing import Any

from longpole_dashboards.figures.figure import Figure, Layout
from longpole_dashboards.theme import FONT_FAMILY, ROLES, ThemeName

FONT_SIZE = 11
# A chart of fewer steps is as wide as one of this many.
MIN_STEPS = 12


def step_axis(first: int, last: int, num_ticks: int = 12) -> dict[str, Any]:
    """Return a horizontal axis of whole steps, which says so once, at its first tick."""
    few = last - first + 1 < MIN_STEPS
    axis: dict[str, Any] = {
        "type": "linear",
        "tickformat": "d",
        "tickprefix": "step ",
        "showtickprefix": "first",
        "nticks": num_ticks,
    }
    if few:
        axis["range"] = [first - 0.6, first + MIN_STEPS - 0.4]
        axis["dtick"] = max(1, MIN_STEPS // num_ticks)
        axis["tick0"] = first
    return axis


@cache
def template(theme: ThemeName) -> Layout:
    """Return the template of a theme: transparent paper, quiet grid, the sequential heat scale."""
    roles = ROLES[theme]
    last = len(roles.heat) - 1
    axis = {
        "gridcolor": roles.grid,
        "linecolor": roles.line,
        "zeroline": False,
        "showline": False,
        "ticks": "",
        "tickfont": {"color": roles.faint, "size": FONT_SIZE},
        "title": {"font": {"color": roles.faint, "size": FONT_SIZE}, "standoff": 6},
        "automargin": False,
        # Else the browser measures every label before it draws it.
        "ticklabeloverflow": "allow",
        "spikecolor": roles.faint,
        "spikethickness": 1,
        "spikedash": "solid",
    }
    return {
        "layout": {
            "font": {"family": FONT_FAMILY, "size": FONT_SIZE, "color": roles.muted},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "margin": {"l": 46, "r": 12, "t": 8, "b": 26},
            "xaxis": axis | {"showgrid": False},
            "yaxis": axis,
            "colorway": [roles.accent, roles.second, roles.good, roles.bad],
            "coloraxis": {
                "colorscale": [[at / last, stop] for at, stop in enumerate(roles.heat)],
                "colorbar": {
                    "thickness": 6,
                    "outlinewidth": 0,
                    "tickfont": {"color": roles.faint, "size": FONT_SIZE - 1},
                    "ticks": "",
                },
            },
            "hoverlabel": {
                "bgcolor": roles.raised,
                "bordercolor": roles.line,
                "font": {"family": FONT_FAMILY, "size": 12, "color": roles.text},
                "align": "left",
            },
            "hovermode": "closest",
            "legend": {"orientation": "h", "bgcolor": "rgba(0,0,0,0)"},
            "modebar": {
                "bgcolor": "rgba(0,0,0,0)",
                "color": roles.faint,
                "activecolor": roles.text,
            },
            "dragmode": "zoom",
            "selectdirection": "h",
            "showlegend": False,
            "barcornerradius": 1,
            "bargap": 0.14,
        }
    }


def message_figure(text: str, theme: ThemeName) -> Figure:
    """Return an empty plot that says in its middle why there is nothing to draw."""
    figure = Figure()
    figure.update_layout(
        template=template(theme),
        xaxis={"visible": False, "fixedrange": True},
        yaxis={"visible": False, "fixedrange": True},
        annotations=[
            {
                "text": text,
                "showarrow": False,
                "xref": "paper",
                "yref": "paper",
                "x": 0.5,
                "y": 0.5,
                "font": {"size": 12, "color": ROLES[theme].faint},
            }
        ],
    )
    return figure


def wrap(text: str, columns: int = 56) -> str:
    """Return text broken into lines for an annotation, which does not wrap by itself."""
    lines, line = list[str](), ""
    for word in text.split():
        if line and len(line) + len(word) + 1 > columns:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}".strip()
    return "<br>".join([*lines, line])
