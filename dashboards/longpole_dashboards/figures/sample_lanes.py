"""One sample over time: its turns, a lane for each kind of part, and its group on the same axis."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from longpole_dashboards.figures.figure import Figure, bar_trace, scatter_trace
from longpole_dashboards.figures.template import template
from longpole_dashboards.formats import NS_PER_S, format_count, format_duration
from longpole_dashboards.theme import (
    ENGINE_PART_COLOURS,
    PART_COLOURS,
    ROLES,
    ThemeName,
    stage_colour,
    stage_label,
)
from longpole_server.model.step import StageTime, Step
from longpole_server.model.trajectory import Trajectory, TrajectoryPart

_LANE_PX, _SIBLING_PX, _MARGIN_PX = 24, 19, (6, 40)
_GAP_ROWS = 0.6
_LABEL_ROOM = 0.17
# A stage is named where it takes as much of the axis.
_LABEL_RATIO = 0.06
# The order of lanes; kinds that a sample has beside them come last.
_KINDS = ("generate", *ENGINE_PART_COLOURS, "tool", "score", "queue", "paused")
_COLOURS = {**PART_COLOURS, **ENGINE_PART_COLOURS}
MAX_SIBLINGS = 32


@dataclass(frozen=True, slots=True)
class GroupView:
    """What the figure shows.

    Attributes:
        members: The sample and its siblings, in the order in which they are drawn.
        parts: Where each one's time went; one without parts is drawn in one piece.
        step: The step they belong to, None while that is not known.
    """

    sample: Trajectory
    members: Sequence[Trajectory]
    parts: Mapping[str, Sequence[TrajectoryPart]]
    step: Step | None

    @property
    def origin_ns(self) -> int:
        """Where the axis begins: with the step, or with the first sample if that came before."""
        first_ns = min(member.start_ns for member in self.members)
        return first_ns if self.step is None else min(self.step.start_ns, first_ns)

    def offset_s(self, ts_ns: int) -> float:
        """Return seconds from the origin."""
        return (ts_ns - self.origin_ns) / NS_PER_S


def sample_lanes(view: GroupView, *, theme: ThemeName) -> Figure:
    """Draw the sample's lanes over its group; every bar's `customdata` ends with its sample."""
    figure = Figure()
    own = view.parts.get(view.sample.trajectory_id, ())
    kinds = _order_kinds({part.kind for part in own})
    turns = _find_turns(own)
    ticks: list[tuple[float, str]] = []
    row = 0.0
    if view.step is not None and any(stage.windows for stage in view.step.stages):
        _draw_stages(figure, view, view.step.stages, row)
        ticks.append((row, "step"))
        row += 1
    if turns:
        _draw_turns(figure, view, turns, row, theme)
        ticks.append((row, "turns"))
        row += 1
    for kind in kinds:
        _draw_parts(figure, view, [(row, view.sample, p) for p in own if p.kind == kind], kind)
        ticks.append((row, kind))
        row += 1
    if not kinds:
        _draw_whole(figure, view, [(row, view.sample)], theme)
        ticks.append((row, "sample"))
        row += 1
    num_lanes = row
    row += _GAP_ROWS
    shown = _shorten(view)
    first_row = row
    drawn = [(first_row + index, member) for index, member in enumerate(shown)]
    _draw_group(figure, view, drawn, theme)
    ticks += [(at, _name(member, view.sample)) for at, member in drawn]
    row += len(shown)
    _lay_out(figure, view, ticks, (num_lanes, row), theme)
    return figure


def _order_kinds(found: set[str]) -> list[str]:
    return [kind for kind in _KINDS if kind in found] + sorted(found - set(_KINDS))


def _find_turns(parts: Sequence[TrajectoryPart]) -> list[tuple[int, int, int]]:
    spans: dict[int, tuple[int, int]] = {}
    for part in parts:
        if part.turn is not None:
            start_ns, end_ns = spans.get(part.turn, (part.start_ns, part.end_ns))
            spans[part.turn] = (min(start_ns, part.start_ns), max(end_ns, part.end_ns))
    return [(turn, *spans[turn]) for turn in sorted(spans)]


def _shorten(view: GroupView) -> list[Trajectory]:
    """Return as many of the group as fit, always with the sample itself."""
    shown = list(view.members[:MAX_SIBLINGS])
    if view.sample not in shown:
        shown[-1] = view.sample
    return shown


def _name(member: Trajectory, own: Trajectory) -> str:
    name = (
        member.trajectory_id
        if len(member.trajectory_id) <= 16
        else (f"…{member.trajectory_id[-15:]}")
    )
    return f"<b>{name}</b>" if member is own else name


def _bars(view: GroupView, windows: Sequence[tuple[int, int]]) -> dict[str, Any]:
    return {
        "orientation": "h",
        "base": [view.offset_s(start_ns) for start_ns, _ in windows],
        "x": [(end_ns - start_ns) / NS_PER_S for start_ns, end_ns in windows],
    }


def _draw_stages(figure: Figure, view: GroupView, found: Sequence[StageTime], row: float) -> None:
    for stage in found:
        label = stage_label(stage.stage)
        figure.add_trace(
            bar_trace(
                **_bars(view, stage.windows),
                y=[row] * len(stage.windows),
                width=0.62,
                name=label,
                marker={"color": stage_colour(stage.stage), "line": {"width": 0}},
                text=[label if _has_room(view, window) else "" for window in stage.windows],
                textposition="inside",
                insidetextanchor="middle",
                textangle=0,
                constraintext="none",
                textfont={"size": 10, "color": "#0b0d11"},
                customdata=[[format_duration(stage.exclusive_s)]] * len(stage.windows),
                hovertemplate=f"<b>{label}</b>  %{{customdata[0]}}<extra></extra>",
            )
        )


def _has_room(view: GroupView, window: tuple[int, int]) -> bool:
    length_ns = max(member.end_ns for member in view.members) - view.origin_ns
    return window[1] - window[0] > _LABEL_RATIO * length_ns


def _draw_turns(
    figure: Figure,
    view: GroupView,
    turns: Sequence[tuple[int, int, int]],
    row: float,
    theme: ThemeName,
) -> None:
    roles = ROLES[theme]
    lengths = [format_duration((end_ns - start_ns) / NS_PER_S) for _, start_ns, end_ns in turns]
    figure.add_trace(
        bar_trace(
            **_bars(view, [(start_ns, end_ns) for _, start_ns, end_ns in turns]),
            y=[row] * len(turns),
            width=0.62,
            marker={"color": roles.raised, "line": {"width": 1, "color": roles.faint}},
            text=[str(turn) for turn, _, _ in turns],
            textposition="inside",
            insidetextanchor="middle",
            textangle=0,
            constraintext="none",
            textfont={"size": 10, "color": roles.text},
            customdata=[[turn, text] for (turn, _, _), text in zip(turns, lengths, strict=True)],
            hovertemplate="turn %{customdata[0]}  %{customdata[1]}<extra></extra>",
        )
    )


def _draw_parts(
    figure: Figure,
    view: GroupView,
    drawn: Sequence[tuple[float, Trajectory, TrajectoryPart]],
    kind: str,
    width: float = 0.74,
) -> None:
    figure.add_trace(
        bar_trace(
            **_bars(view, [(part.start_ns, part.end_ns) for _, _, part in drawn]),
            y=[row for row, _, _ in drawn],
            width=width,
            name=kind,
            marker={
                "color": _COLOURS.get(kind, _COLOURS["queue"]),
                "line": {"width": 0},
            },
            customdata=[_describe(member, part) for _, member, part in drawn],
            hovertemplate=(
                f"<b>{kind}</b>  %{{customdata[0]}}<br>%{{customdata[1]}}"
                "<br>sample %{customdata[2]}<extra></extra>"
            ),
        )
    )


def _describe(member: Trajectory, part: TrajectoryPart) -> list[str]:
    facts = [part.name]
    if part.turn is not None:
        facts.append(f"turn {part.turn}")
    if part.output_tokens is not None:
        facts.append(f"{format_count(part.output_tokens)} tokens out")
    length = format_duration((part.end_ns - part.start_ns) / NS_PER_S)
    return [length, ", ".join(facts), member.trajectory_id]


def _draw_whole(
    figure: Figure,
    view: GroupView,
    drawn: Sequence[tuple[float, Trajectory]],
    theme: ThemeName,
) -> None:
    figure.add_trace(
        bar_trace(
            **_bars(view, [(member.start_ns, member.end_ns) for _, member in drawn]),
            y=[row for row, _ in drawn],
            width=0.74,
            marker={"color": ROLES[theme].faint, "opacity": 0.55, "line": {"width": 0}},
            customdata=[
                [format_duration(member.duration_s), "parts not reported", member.trajectory_id]
                for _, member in drawn
            ],
            hovertemplate=(
                "%{customdata[0]}<br>%{customdata[1]}<br>sample %{customdata[2]}<extra></extra>"
            ),
        )
    )


def _draw_group(
    figure: Figure,
    view: GroupView,
    drawn: Sequence[tuple[float, Trajectory]],
    theme: ThemeName,
) -> None:
    bare = [(row, member) for row, member in drawn if not view.parts.get(member.trajectory_id)]
    if bare:
        _draw_whole(figure, view, bare, theme)
    rows = [
        (row, member, part)
        for row, member in drawn
        for part in view.parts.get(member.trajectory_id, ())
        # They lie inside `generate`, which is there too.
        if part.kind not in ENGINE_PART_COLOURS
    ]
    for kind in _order_kinds({part.kind for _, _, part in rows}):
        _draw_parts(figure, view, [each for each in rows if each[2].kind == kind], kind)
    roles = ROLES[theme]
    figure.add_trace(
        scatter_trace(
            x=[view.offset_s(member.end_ns) for _, member in drawn],
            y=[row for row, _ in drawn],
            mode="text",
            text=[f"  {_facts(member)}" for _, member in drawn],
            textposition="middle right",
            textfont={
                "size": 10.5,
                "color": [roles.text if m is view.sample else roles.faint for _, m in drawn],
            },
            cliponaxis=False,
            hoverinfo="skip",
        )
    )


def _facts(member: Trajectory) -> str:
    facts = [format_duration(member.duration_s)]
    if member.output_tokens is not None:
        facts.append(f"{format_count(member.output_tokens)} tokens")
    if member.reward is not None:
        facts.append(f"reward {member.reward:.3g}")
    return "   ".join(facts)


def _lay_out(
    figure: Figure,
    view: GroupView,
    ticks: Sequence[tuple[float, str]],
    rows: tuple[float, float],
    theme: ThemeName,
) -> None:
    roles = ROLES[theme]
    num_lanes, num_rows = rows
    first_s = view.offset_s(min(member.start_ns for member in view.members))
    last_s = view.offset_s(max(member.end_ns for member in view.members))
    length_s = max(last_s - first_s, 1e-3)
    height_px = _LANE_PX * (num_lanes + _GAP_ROWS) + _SIBLING_PX * (
        num_rows - num_lanes - _GAP_ROWS
    )
    word = "step" if view.step is not None else "group's first sample"
    figure.update_layout(
        template=template(theme),
        barmode="overlay",
        height=round(height_px) + sum(_MARGIN_PX),
        margin={"l": 118, "r": 14, "t": _MARGIN_PX[0], "b": _MARGIN_PX[1]},
        uirevision=view.sample.trajectory_id,
        meta={"axis": "seconds"},
        xaxis={
            "range": [first_s - 0.02 * length_s, last_s + _LABEL_ROOM * length_s],
            "ticksuffix": " s",
            "showgrid": True,
            "title": {"text": f"seconds from the start of the {word}", "standoff": 4},
            "showspikes": True,
            "spikemode": "across",
            "spikesnap": "cursor",
        },
        yaxis={
            "tickmode": "array",
            "tickvals": [at for at, _ in ticks],
            "ticktext": [text for _, text in ticks],
            "range": [num_rows - 0.4, -0.6],
            "showgrid": False,
            "fixedrange": True,
        },
        shapes=[
            {
                "type": "line",
                "xref": "paper",
                "x0": 0,
                "x1": 1,
                "y0": num_lanes - 0.5 + _GAP_ROWS / 2,
                "y1": num_lanes - 0.5 + _GAP_ROWS / 2,
                "line": {"color": roles.line, "width": 1},
            }
        ],
        annotations=[
            {
                "text": "its group",
                "xref": "paper",
                "x": 1,
                "xanchor": "right",
                "y": num_lanes - 0.5 + _GAP_ROWS / 2,
                "yanchor": "middle",
                "showarrow": False,
                "font": {"size": 10, "color": roles.faint},
                "bgcolor": roles.surface,
            }
        ],
    )
