"""Moments of a run as thin lines through a chart; the sign above says what happened.

What comes with every step or two, as weight syncs do, is a mark on the time axis instead.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from longpole_dashboards.figures.figure import Figure
from longpole_dashboards.theme import translucent

# Room above a chart for signs.
_SIGNS_PX = 18
_MARK_PX = 7
# As many marks are told apart; as many say what they are.
MAX_MARKS, _MAX_SAID = 240, 24


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


def mark_moments(figure: Figure, moments: Sequence[Moment]) -> None:
    """Draw every moment on a figure; several at one place share a sign."""
    axes = [name.replace("axis", "") for name in figure.layout if name.startswith("xaxis")]
    by_place: dict[object, list[Moment]] = {}
    for moment in moments:
        by_place.setdefault(moment.at, []).append(moment)
    for at, found in by_place.items():
        for axis in axes:
            figure.add_shape(
                type="line",
                xref=axis,
                yref="paper" if len(axes) == 1 else f"y{axis[1:]} domain",
                x0=at,
                x1=at,
                y0=0,
                y1=1,
                layer="below",
                line={"width": 1, "dash": "dot", "color": translucent(found[-1].colour, 0.7)},
            )
        if len(axes) == 1:
            figure.add_annotation(
                text=found[-1].sign,
                hovertext="<br>".join(moment.words for moment in found),
                captureevents=True,
                x=at,
                y=1,
                yref="paper",
                yanchor="bottom",
                showarrow=False,
                font={"size": 9, "color": found[-1].colour},
            )
    if len(axes) == 1 and by_place:
        figure.update_layout(margin={"t": max(_SIGNS_PX, figure.margin_top_px)})


def mark_time_axis(figure: Figure, moments: Sequence[Moment]) -> None:
    """Draw a mark for every moment on the time axes of a figure; none where they are too many."""
    if not moments or len(moments) > MAX_MARKS:
        return
    axes = [name for name in figure.layout if name.startswith("xaxis")]
    marks = {
        "tickmode": "array",
        "tickvals": [moment.at for moment in moments],
        "ticks": "inside",
        "ticklen": _MARK_PX,
        "tickwidth": 2,
        "tickcolor": moments[-1].colour,
    }
    figure.update_layout(**{name: {"minor": marks} for name in axes})
    if len(axes) != 1 or len(moments) > _MAX_SAID:
        return
    for moment in moments:
        figure.add_annotation(
            text=moment.sign,
            hovertext=moment.words,
            captureevents=True,
            x=moment.at,
            y=0,
            yref="paper",
            yanchor="bottom",
            yshift=_MARK_PX - 2,
            showarrow=False,
            font={"size": 9, "color": moment.colour},
        )
