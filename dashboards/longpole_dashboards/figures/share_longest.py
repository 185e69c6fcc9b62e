"""Of a bar that stands for several steps: which they are, and the longest of them above it."""

from collections.abc import Sequence

from longpole_dashboards.figures.bars import StepBar
from longpole_dashboards.figures.figure import Trace, scatter_trace
from longpole_dashboards.figures.share_parts import Axis, list_ends, place
from longpole_dashboards.formats import Zone, format_duration
from longpole_dashboards.theme import stage_colour, stage_label

# A mark is as wide as its bar, or this part of the chart.
_MARK_WIDTH = 0.012
# A longest step that is longer than the axis stands at its end.
_AT_END = 0.985


def is_thinned(bars: Sequence[StepBar]) -> bool:
    """Whether any bar stands for several steps."""
    return any(bar.last_step > bar.first_step for bar in bars)


def mark_longest(bars: Sequence[StepBar], top_s: float, axis: Axis, zone: Zone) -> list[Trace]:
    """Mark the longest step of every bar that stands for several, up to where the axis ends.

    One line for all marks of a colour, and one that nobody sees, which says what they are: a mark
    by itself would be an element of the page.
    """
    shown = [bar for bar in bars if bar.last_step > bar.first_step]
    ends = [list_ends(bar, axis) for bar in shown]
    least = (ends[-1][1] - ends[0][0]) * _MARK_WIDTH
    lines = dict[str, tuple[list[object], list[float | None]]]()
    for bar, (left, right) in zip(shown, ends, strict=True):
        if bar.longest_s > top_s:
            continue
        middle, half = (left + right) / 2, max(right - left, least) / 2
        x, y = lines.setdefault(stage_colour(bar.longest_stage), ([], []))
        x += [place(middle - half, axis, zone), place(middle + half, axis, zone), None]
        y += [bar.longest_s, bar.longest_s, None]
    return [
        *(
            scatter_trace(
                x=x, y=y, mode="lines", line={"width": 2, "color": colour}, hoverinfo="skip"
            )
            for colour, (x, y) in lines.items()
        ),
        *_mark_beyond([bar for bar in shown if bar.longest_s > top_s], top_s, axis, zone),
        _tell_longest(shown, top_s, axis, zone),
    ]


def _mark_beyond(bars: Sequence[StepBar], top_s: float, axis: Axis, zone: Zone) -> list[Trace]:
    if not bars:
        return []
    marks = scatter_trace(
        x=[_middle(bar, axis, zone) for bar in bars],
        y=[top_s * _AT_END] * len(bars),
        mode="markers",
        name="beyond the axis",
        marker={
            "symbol": "triangle-up",
            "size": 5,
            "color": [stage_colour(bar.longest_stage) for bar in bars],
        },
        hoverinfo="skip",
    )
    return [marks]


def _tell_longest(bars: Sequence[StepBar], top_s: float, axis: Axis, zone: Zone) -> Trace:
    return scatter_trace(
        x=[_middle(bar, axis, zone) for bar in bars],
        y=[min(bar.longest_s, top_s * _AT_END) for bar in bars],
        mode="lines",
        line={"width": 0},
        name="longest",
        customdata=[
            (bar.longest_step, format_duration(bar.longest_s), stage_label(bar.longest_stage))
            for bar in bars
        ],
        hovertemplate="%{customdata[1]}  ·  step %{customdata[0]}, most of it more "
        "%{customdata[2]}",
    )


def name_bars(bars: Sequence[StepBar], axis: Axis, zone: Zone) -> Trace:
    """Return what says in the box of a place which steps are there: its title knows `x` alone."""
    return scatter_trace(
        x=[_middle(bar, axis, zone) for bar in bars],
        y=[0] * len(bars),
        mode="lines",
        line={"width": 0},
        name="names",
        customdata=[(bar.longest_step, bar.label) for bar in bars],
        hovertemplate="%{customdata[1]}<extra></extra>",
    )


def _middle(bar: StepBar, axis: Axis, zone: Zone) -> object:
    return place(sum(list_ends(bar, axis)) / 2, axis, zone)
