"""The rows of a step's timeline. Each draws itself and returns its vertical axis."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longpole.conventions import stages
from longpole_dashboards.figures.bands import stage_bands
from longpole_dashboards.figures.figure import Figure, bar_trace, scatter_trace
from longpole_dashboards.figures.thinning import keep_extremes
from longpole_dashboards.formats import NS_PER_S, format_count, format_duration
from longpole_dashboards.theme import (
    PART_COLOURS,
    ROLES,
    ThemeName,
    stage_colour,
    stage_label,
    translucent,
)
from longpole_server.model.engines import EngineLanes
from longpole_server.model.gpu import GpuHeatmap
from longpole_server.model.run import OpenStage
from longpole_server.model.step import Gap, Step, SyncPhase
from longpole_server.model.trajectory import Trajectory
from longpole_server.service import StepDetail

SLOWEST_LANES = 16
TAIL_SHARE = 0.95
# What a character takes of the axis on a page of 1,280 px, and those of `1234 GPU·s`.
_CHARACTER, _GAP_CHARACTERS = 0.0062, 10
# Of the samples that run: the row is hardly a thousand pixels wide.
_RUNNING_POINTS = 1_000


@dataclass(frozen=True, slots=True)
class StepView:
    """Everything the timeline of one step draws; what is unknown is empty or None.

    Attributes:
        trajectories: All samples of the step, slowest first.
        selected: Trajectory whose bar is highlighted.
        now_ns: End of what is still open.
        engines: What the rollout engines reported meanwhile.
        chosen_ns: The part of the step that is shown; None is all of it.
    """

    detail: StepDetail
    heatmap: GpuHeatmap | None
    trajectories: Sequence[Trajectory]
    open_stage: OpenStage | None
    now_ns: int
    selected: str | None = None
    engines: EngineLanes | None = None
    chosen_ns: tuple[int, int] | None = None

    @property
    def step(self) -> Step:
        """The step itself."""
        return self.detail.step

    @property
    def end_ns(self) -> int:
        """End of the step, or now while it is open."""
        return self.step.end_ns or max(self.now_ns, self.step.start_ns + NS_PER_S)

    @property
    def sync_phases(self) -> Sequence[SyncPhase]:
        """Those that lie in the step: between steps nothing is drawn of them."""
        start_ns, end_ns = self.step.start_ns, self.end_ns
        return [
            phase
            for phase in self.detail.sync_phases
            if phase.start_ns < end_ns and phase.end_ns > start_ns
        ]

    @property
    def shown_ns(self) -> tuple[int, int]:
        """What the horizontal axis shows."""
        return self.chosen_ns or (self.step.start_ns, self.end_ns)


def offset_s(view: StepView, ts_ns: int) -> float:
    """Return seconds from the start of the step."""
    return (ts_ns - view.step.start_ns) / NS_PER_S


def segments(view: StepView, windows: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """Return windows as bars that lie."""
    return {
        "orientation": "h",
        "base": [offset_s(view, start) for start, _ in windows],
        "x": [(end - start) / NS_PER_S for start, end in windows],
    }


def clip(view: StepView, windows: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return what of windows lies in the part of the step that is shown."""
    if view.chosen_ns is None:
        return list(windows)
    first, last = view.chosen_ns
    return [(min(max(a, first), last), max(min(b, last), first)) for a, b in windows]


def draw_stages(figure: Figure, view: StepView, yaxis: str, theme: ThemeName) -> dict[str, Any]:
    """Draw the stage windows of the step in one row, named where there is room."""
    length_s = (view.shown_ns[1] - view.shown_ns[0]) / NS_PER_S
    open_stage = view.open_stage if view.step.duration_s is None else None
    bands = [
        band
        for band in stage_bands([view.step], open_stage, view.now_ns)
        if band.start_ns < view.shown_ns[1] and band.end_ns > view.shown_ns[0]
    ]
    for stage in dict.fromkeys(band.stage for band in bands):
        own = [band for band in bands if band.stage == stage]
        seconds = [(band.end_ns - band.start_ns) / NS_PER_S for band in own]
        # Its name stands in the middle of what is seen of it.
        seen = clip(view, [(band.start_ns, band.end_ns) for band in own])
        label = stage_label(stage)
        figure.add_trace(
            bar_trace(
                **segments(view, seen),
                y=[0] * len(own),
                width=1,
                yaxis=yaxis,
                name=label,
                text=[
                    fit_label(label, (end - start) / NS_PER_S / length_s) if length_s else ""
                    for start, end in seen
                ],
                textposition="inside",
                insidetextanchor="middle",
                textangle=0,
                constraintext="none",
                textfont={"size": 11, "color": "#10141a"},
                customdata=[
                    [format_duration(s), " so far" if band.is_open else ""]
                    for s, band in zip(seconds, own, strict=True)
                ],
                marker={
                    "color": stage_colour(stage),
                    "opacity": [0.6 if band.is_open else 1.0 for band in own],
                    "line": {"width": 1, "color": ROLES[theme].surface},
                },
                hovertemplate=f"<b>{label}</b>  %{{customdata[0]}}%{{customdata[1]}}"
                "<extra></extra>",
            )
        )
    if not bands:
        figure.add_trace(bar_trace(x=[], y=[], yaxis=yaxis, orientation="h"))
    return _one_row("stages")


def draw_sync(figure: Figure, view: StepView, yaxis: str, theme: ThemeName) -> dict[str, Any]:
    """Draw the phases of the weight sync."""
    phases = view.sync_phases
    shades = [0.9 if index % 2 == 0 else 0.5 for index in range(len(phases))]
    colour = stage_colour(stages.UPDATE_WEIGHTS)
    figure.add_trace(
        bar_trace(
            **segments(view, [(phase.start_ns, phase.end_ns) for phase in phases]),
            y=[0] * len(phases),
            width=1,
            yaxis=yaxis,
            customdata=[
                [
                    phase.phase.replace("_", " "),
                    format_duration((phase.end_ns - phase.start_ns) / 1e9),
                ]
                for phase in phases
            ],
            marker={
                "color": [translucent(colour, shade) for shade in shades],
                "line": {"width": 1, "color": ROLES[theme].surface},
            },
            hovertemplate="weight sync: <b>%{customdata[0]}</b>  %{customdata[1]}<extra></extra>",
        )
    )
    return _one_row("sync phases")


def draw_running(figure: Figure, view: StepView, yaxis: str, theme: ThemeName) -> dict[str, Any]:
    """Draw how many samples run at a time, the slowest 5 % shaded."""
    roles = ROLES[theme]
    starts = np.sort(np.array([t.start_ns for t in view.trajectories], dtype=np.int64))
    ends = np.sort(np.array([t.end_ns for t in view.trajectories], dtype=np.int64))
    times = np.unique(np.concatenate([starts, ends]))
    running = np.searchsorted(starts, times, "right") - np.searchsorted(ends, times, "right")
    offsets = (times - view.step.start_ns) / NS_PER_S
    shown = _thin(times, running, view.shown_ns)
    figure.add_trace(
        scatter_trace(
            x=offsets[shown].astype(np.float32),
            y=running[shown].astype(np.int32),
            yaxis=yaxis,
            mode="lines",
            line={"shape": "hv", "width": 1.4, "color": roles.accent},
            fill="tozeroy",
            fillcolor=translucent(roles.accent, 0.16),
            hovertemplate="%{y} samples in generation at %{x:.1f} s<extra></extra>",
        )
    )
    tail_ns = int(ends[min(len(ends) - 1, int(np.ceil(TAIL_SHARE * len(ends))) - 1)])
    tail_s = (int(ends[-1]) - tail_ns) / NS_PER_S
    left = offset_s(view, tail_ns)
    if view.step.duration_s is not None and tail_s > 0:
        remaining = len(ends) - int(np.ceil(TAIL_SHARE * len(ends)))
        figure.add_shape(
            type="rect",
            xref="x",
            yref=f"{yaxis} domain",
            x0=left,
            x1=offset_s(view, int(ends[-1])),
            y0=0,
            y1=1,
            line={"width": 0},
            fillcolor=translucent(roles.warn, 0.18),
            layer="below",
        )
        figure.add_annotation(
            x=offset_s(view, int(ends[-1])),
            xref="x",
            y=1,
            yref=f"{yaxis} domain",
            xanchor="right",
            yanchor="top",
            showarrow=False,
            text=f"the last {remaining} of {format_count(len(ends))} samples take "
            f"{format_duration(tail_s)}",
            font={"size": 11, "color": roles.warn},
        )
    return {
        "nticks": 3,
        "rangemode": "tozero",
        "showgrid": True,
        "title": {"text": "samples<br>running", "standoff": 4},
    }


def _thin(
    times: NDArray[np.int64], counts: NDArray[np.int64], shown_ns: tuple[int, int]
) -> NDArray[np.int64]:
    """Return places of what is drawn: extremes of the shown time, and a neighbour either side."""
    first = max(0, int(np.searchsorted(times, shown_ns[0], "right")) - 1)
    last = min(len(times) - 1, int(np.searchsorted(times, shown_ns[1], "left")))
    inside = counts[first : last + 1].tolist()
    kept = [first + at for at in keep_extremes(inside, _RUNNING_POINTS)]
    return np.unique(np.array([first, *kept, last], dtype=np.int64))


def draw_samples(figure: Figure, view: StepView, yaxis: str, theme: ThemeName) -> dict[str, Any]:
    """Draw the slowest samples as bars; the selected one stands out."""
    roles = ROLES[theme]
    shown = list(view.trajectories[:SLOWEST_LANES])
    chosen = next((t for t in view.trajectories if t.trajectory_id == view.selected), None)
    if chosen is not None and chosen not in shown:
        shown[-1] = chosen
    colours = [
        roles.warn
        if t.trajectory_id == view.selected
        else translucent(PART_COLOURS["generate"], 0.7)
        for t in shown
    ]
    figure.add_trace(
        bar_trace(
            **segments(view, [(t.start_ns, t.end_ns) for t in shown]),
            y=list(range(len(shown))),
            width=0.72,
            yaxis=yaxis,
            meta="sample",
            customdata=[_sample_details(t) for t in shown],
            marker={"color": colours, "line": {"width": 0}},
            hovertemplate=(
                "sample <b>%{customdata[0]}</b>  %{customdata[1]}"
                "<br>%{customdata[2]} output tokens<extra></extra>"
            ),
        )
    )
    return {
        "tickmode": "array",
        "tickvals": [(len(shown) - 1) / 2],
        "ticktext": [f"slowest<br>{len(shown)}"],
        "range": [len(shown) - 0.5, -0.5],
        "showgrid": False,
    }


def _sample_details(t: Trajectory) -> list[str]:
    # The browser knows by the last of them that a click was on a sample.
    duration, tokens = format_duration(t.duration_s), format_count(t.output_tokens)
    return [t.trajectory_id, duration, tokens, "sample"]


def fit_label(label: str, of_axis: float) -> str:
    """Return a stage's name in one line or two, as a part of the axis has room, or none."""
    lines = label, label.replace(" ", "<br>", 1)
    for text in lines:
        if of_axis > _CHARACTER * max(map(len, text.split("<br>"))):
            return text
    return ""


def draw_gaps(figure: Figure, view: StepView, yaxis: str, theme: ThemeName) -> dict[str, Any]:
    """Draw where GPUs stood idle, with their GPU-seconds."""
    roles = ROLES[theme]
    gaps = _list_gaps(view)
    figure.add_trace(
        bar_trace(
            **segments(view, clip(view, [(gap.start_ns, gap.end_ns) for gap in gaps])),
            y=[0] * len(gaps),
            width=1,
            yaxis=yaxis,
            text=[f"{gap.gpu_seconds:.0f} GPU·s" for gap in gaps],
            textposition=_place_gap_labels(view),
            constraintext="none",
            cliponaxis=False,
            insidetextfont={"size": 10, "color": "#10141a"},
            outsidetextfont={"size": 10, "color": roles.bad},
            customdata=[
                [gap.gpu_count, f"{gap.gpu_seconds:.0f}", stage_label(gap.stage)] for gap in gaps
            ],
            marker={"color": translucent(roles.bad, 0.85)},
            hovertemplate=(
                "%{customdata[0]} GPUs idle during %{customdata[2]}"
                "<br><b>%{customdata[1]} GPU-seconds</b><extra></extra>"
            ),
        )
    )
    return _one_row("idle GPUs")


def _list_gaps(view: StepView) -> list[Gap]:
    first, last = view.shown_ns
    return [gap for gap in view.detail.gaps if gap.start_ns < last and gap.end_ns > first]


def _place_gap_labels(view: StepView) -> list[str]:
    """Return where each gap says its GPU-seconds: in it, beside it, or nowhere but on hover."""
    room_ns = _CHARACTER * _GAP_CHARACTERS * (view.shown_ns[1] - view.shown_ns[0])
    gaps = _list_gaps(view)
    places = list[str]()
    for gap in gaps:
        taken = any(gap.end_ns - 1 <= other.start_ns < gap.end_ns + room_ns for other in gaps)
        is_long = gap.end_ns - gap.start_ns > room_ns
        places.append("inside" if is_long else "none" if taken else "outside")
    return places


def _one_row(label: str) -> dict[str, Any]:
    return {
        "tickmode": "array",
        "tickvals": [0],
        "ticktext": [label],
        "range": [-0.5, 0.5],
        "showgrid": False,
    }
