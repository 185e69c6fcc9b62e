"""What one stage took of every step: as bars, or, where these would be too many, as one area.

A browser makes an element of every bar: some thousand of them take it longer than all the rest of
a page. An area is one element. It has the corners that bars without gaps between them would have.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from longpole.conventions import stages
from longpole_dashboards.figures.bars import StepBar, order_stages
from longpole_dashboards.figures.figure import Trace, bar_trace, scatter_trace
from longpole_dashboards.formats import NS_PER_S, Zone, format_duration, format_ratio
from longpole_dashboards.theme import ROLES, ThemeName, stage_colour, stage_label

Axis = Literal["step", "time"]
Unit = Literal["seconds", "percent"]
_OPEN_OPACITY = 0.45


def parts_of_bars(
    bars: Sequence[StepBar], unit: Unit, axis: Axis, zone: Zone, theme: ThemeName
) -> Iterator[Trace]:
    """Return a trace for every stage, and below those for what ran between steps."""
    for part in _list_parts(bars, unit, theme):
        opacity = [_OPEN_OPACITY if bar.is_open else 1.0 for bar in bars]
        marker = {"color": part.colour, "line": {"width": 0}, "pattern": part.pattern}
        yield bar_trace(
            **_bar_positions(bars, axis, zone),
            y=part.heights,
            name=part.name,
            customdata=part.details,
            marker=marker if part.is_outside else marker | {"opacity": opacity},
            yaxis=part.yaxis,
            hovertemplate=part.hover,
        )


def parts_as_areas(
    bars: Sequence[StepBar], unit: Unit, axis: Axis, zone: Zone, theme: ThemeName
) -> Iterator[Trace]:
    """Return the same as areas, each above those before it."""
    corners = list_corners(bars, axis, zone)
    for part in _list_parts(bars, unit, theme):
        yield scatter_trace(
            x=[corner.x for corner in corners],
            y=[part.heights[corner.bar] if corner.is_inside else None for corner in corners],
            name=part.name,
            customdata=[part.details[corner.bar] for corner in corners],
            mode="lines",
            # Halfway between two places it changes from one to the other.
            line={"shape": "hvh", "width": 0, "color": part.colour},
            stackgroup="outside" if part.is_outside else "inside",
            fillcolor=part.colour,
            fillpattern=part.pattern,
            yaxis=part.yaxis,
            hovertemplate=part.hover,
        )


@dataclass(frozen=True, slots=True)
class _Part:
    """What one stage took of every bar.

    Attributes:
        heights: None where a bar has none of it.
        details: The step that a click opens, and what is said: see `hover`.
    """

    name: str
    colour: str
    heights: Sequence[float | None]
    details: Sequence[tuple[object, ...]]
    hover: str
    pattern: dict[str, Any] | None = None
    is_outside: bool = False

    @property
    def yaxis(self) -> str | None:
        """Between steps has an axis of its own."""
        return "y2" if self.is_outside else None


def _list_parts(bars: Sequence[StepBar], unit: Unit, theme: ThemeName) -> Iterator[_Part]:
    for stage in order_stages({name for bar in bars for name in bar.seconds}):
        yield _measure(stage, bars, unit, theme)
    for stage in order_stages({name for bar in bars for name in bar.outside}):
        seconds = [bar.outside.get(stage) for bar in bars]
        yield _Part(
            f"{stage_label(stage)}, between steps",
            stage_colour(stage),
            seconds,
            [(bar.first_step, format_duration(s)) for bar, s in zip(bars, seconds, strict=True)],
            "%{customdata[1]}",
            is_outside=True,
        )


def _measure(stage: str, bars: Sequence[StepBar], unit: Unit, theme: ThemeName) -> _Part:
    heights: list[float | None] = []
    details: list[tuple[object, ...]] = []
    for bar in bars:
        seconds = bar.seconds.get(stage)
        total = bar.duration_s if bar.duration_s is not None else sum(bar.seconds.values())
        share = seconds / total if seconds is not None and total else None
        heights.append(seconds if unit == "seconds" or share is None else share * 100)
        details.append((bar.longest_step, format_duration(seconds), format_ratio(share, 1)))
    return _Part(
        stage_label(stage),
        stage_colour(stage),
        heights,
        details,
        "%{customdata[1]}  ·  %{customdata[2]}",
        _hatch(theme) if stage == stages.UNATTRIBUTED else None,
    )


def _hatch(theme: ThemeName) -> dict[str, Any]:
    return {
        "shape": "/",
        "size": 4,
        "solidity": 0.25,
        "fgcolor": ROLES[theme].muted,
        "fillmode": "overlay",
    }


def _bar_positions(bars: Sequence[StepBar], axis: Axis, zone: Zone) -> dict[str, Any]:
    if axis == "step":
        return {"x": [(bar.first_step + bar.last_step) / 2 for bar in bars]}
    return {
        "x": [zone.local(bar.start_ns) for bar in bars],
        "width": [max(1.0, bar.length_s * 1000) for bar in bars],
        "offset": 0,
    }


@dataclass(frozen=True, slots=True)
class Corner:
    """A place of an area: the middle of a bar, or where it falls to nothing beside one.

    Attributes:
        bar: Place of the bar among all.
        is_inside: Whether the bar reaches there.
    """

    x: object
    bar: int
    is_inside: bool


def list_corners(bars: Sequence[StepBar], axis: Axis, zone: Zone) -> list[Corner]:
    """Return the places between which an area changes halfway, so that it does at bars' ends.

    Where nothing was measured for longer than the bars beside it last, it falls to nothing.
    """
    found = list[Corner]()
    # Where the bar before ends, and half its width.
    before: tuple[float, float] | None = None
    for at, bar in enumerate(bars):
        left, right = list_ends(bar, axis)
        middle, half = (left + right) / 2, (right - left) / 2
        if before is None or left - before[0] >= before[1] + half:
            if before is not None:
                found.append(Corner(place(sum(before), axis, zone), at - 1, False))
            found.append(Corner(place(left - half, axis, zone), at, False))
        found.append(Corner(place(middle, axis, zone), at, True))
        before = (right, half)
    if before is not None:
        found.append(Corner(place(sum(before), axis, zone), len(bars) - 1, False))
    return found


def list_ends(bar: StepBar, axis: Axis) -> tuple[float, float]:
    """Return both ends of a bar: steps, or nanoseconds."""
    if axis == "step":
        return bar.first_step - 0.5, bar.last_step + 0.5
    return bar.start_ns, bar.start_ns + max(1, int(bar.length_s * NS_PER_S))


def place(at: float, axis: Axis, zone: Zone) -> object:
    """Return a step, or nanoseconds, as the chart's axis has it."""
    return at if axis == "step" else zone.local(int(at))
