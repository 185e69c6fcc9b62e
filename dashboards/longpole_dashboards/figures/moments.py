"""Moments of a run as thin lines through a chart; the sign above says what happened."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from longpole_dashboards.theme import translucent

# Room above a chart for signs.
_SIGNS_PX = 18


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment.

    Attributes:
        at: Where it is on the chart's horizontal axis.
        sign: One character.
        words: What happened.
        colour: Of its line.
    """

    at: object
    sign: str
    words: str
    colour: str


def mark_moments(figure: go.Figure, moments: Sequence[Moment]) -> None:
    """Draw every moment on a figure; several at one place share a sign."""
    shapes = list[Any](figure.layout.shapes)
    annotations = list[Any](figure.layout.annotations)
    axes = [name.replace("axis", "") for name in figure.layout if str(name).startswith("xaxis")]
    by_place: dict[object, list[Moment]] = {}
    for moment in moments:
        by_place.setdefault(moment.at, []).append(moment)
    for at, found in by_place.items():
        for axis in axes:
            shapes.append(
                {
                    "type": "line",
                    "xref": axis,
                    "yref": "paper" if len(axes) == 1 else f"y{axis[1:]} domain",
                    "x0": at,
                    "x1": at,
                    "y0": 0,
                    "y1": 1,
                    "layer": "below",
                    "line": {
                        "width": 1,
                        "dash": "dot",
                        "color": translucent(found[-1].colour, 0.7),
                    },
                }
            )
        if len(axes) == 1:
            annotations.append(
                {
                    "text": found[-1].sign,
                    "hovertext": "<br>".join(moment.words for moment in found),
                    "captureevents": True,
                    "x": at,
                    "y": 1,
                    "yref": "paper",
                    "yanchor": "bottom",
                    "showarrow": False,
                    "font": {"size": 9, "color": found[-1].colour},
                }
            )
    figure.update_layout(shapes=shapes, annotations=annotations)
    if len(axes) == 1 and by_place:
        figure.update_layout(margin={"t": max(_SIGNS_PX, figure.layout.margin.t or 0)})
