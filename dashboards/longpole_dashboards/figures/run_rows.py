"""Stages and steps of a run on the clock: bars, or a picture and groups of very many."""

from collections.abc import Sequence

import numpy as np

from longpole_dashboards.figures.bands import Band
from longpole_dashboards.figures.figure import Trace, bar_trace, heatmap_trace
from longpole_dashboards.figures.stage_raster import NUM_COLUMNS, raster_colours, rasterise_row
from longpole_dashboards.formats import NS_PER_MS, NS_PER_S, Zone, format_duration
from longpole_dashboards.theme import ROLES, ThemeName, stage_colour, stage_label
from longpole_server.model.step import Step

# More bands than this are a picture; of more steps than this a bar is several neighbours; and
# more bars than this are too narrow for a number.
MAX_BANDS, MAX_STEP_BARS, MAX_NUMBERED = 400, 240, 90


def draw_bands(
    bands: Sequence[Band], span_ns: tuple[int, int], zone: Zone, theme: ThemeName, yaxis: str
) -> list[Trace]:
    """Return the bands as traces in one row of the clock.

    Args:
        bands: Those that touch the span.
        span_ns: Time that is shown.
        zone: The viewer's.
        theme: Its colours.
        yaxis: Which vertical axis; the row is at 0.
    """
    if len(bands) > MAX_BANDS:
        return [_picture(bands, span_ns, zone, theme, yaxis)]
    return [
        _band_trace(stage, [band for band in bands if band.stage == stage], zone, yaxis)
        for stage in dict.fromkeys(band.stage for band in bands)
    ]


def _picture(
    bands: Sequence[Band], span_ns: tuple[int, int], zone: Zone, theme: ThemeName, yaxis: str
) -> Trace:
    names = list(dict.fromkeys(band.stage for band in bands))
    codes = rasterise_row(bands, names, span_ns)
    bin_ms = (span_ns[1] - span_ns[0]) / NS_PER_MS / NUM_COLUMNS
    words = ["nothing reported", *(stage_label(name) for name in names)]
    # Whose time a column is: of the step that began last before its middle.
    middles_ns = span_ns[0] + (np.arange(NUM_COLUMNS) + 0.5) * bin_ms * NS_PER_MS
    begun = sorted((band.start_ns, band.step) for band in bands)
    place = np.searchsorted(np.array([start for start, _ in begun]), middles_ns, "right") - 1
    steps = np.array([step for _, step in begun], dtype=np.int32)[np.maximum(0, place)]
    return heatmap_trace(
        name="stages",
        z=codes[None, :],
        x0=zone.local(span_ns[0] + int(bin_ms * NS_PER_MS / 2)).isoformat(),
        dx=bin_ms,
        y=[0],
        yaxis=yaxis,
        text=[[words[int(code)] for code in codes]],
        customdata=[steps.tolist()],
        **raster_colours(names, theme),
        hovertemplate="<b>%{text}</b><br>step %{customdata}<extra></extra>",
    )


def _band_trace(stage: str, bands: Sequence[Band], zone: Zone, yaxis: str) -> Trace:
    label = stage_label(stage)
    return bar_trace(
        orientation="h",
        base=zone.local_moments(np.array([band.start_ns for band in bands], dtype=np.int64)),
        x=np.array([(band.end_ns - band.start_ns) / NS_PER_MS for band in bands]),
        y=np.zeros(len(bands), dtype=np.uint8),
        width=1,
        yaxis=yaxis,
        name=label,
        customdata=[
            [band.step, format_duration((band.end_ns - band.start_ns) / NS_PER_S), _state(band)]
            for band in bands
        ],
        marker={
            "color": stage_colour(stage),
            "opacity": [0.55 if band.is_open else 1.0 for band in bands],
            "line": {"width": 0},
        },
        hovertemplate=(
            f"<b>{label}</b>  %{{customdata[1]}}%{{customdata[2]}}"
            "<br>step %{customdata[0]}<extra></extra>"
        ),
    )


def _state(band: Band) -> str:
    return " so far" if band.is_open else ", between steps" if band.is_outside else ""


def draw_steps(
    steps: Sequence[Step],
    now_ns: int,
    span_ns: tuple[int, int],
    zone: Zone,
    theme: ThemeName,
    yaxis: str,
) -> Trace:
    """Return the steps that touch the span as bars in one row, cut to it.

    Args:
        steps: All of them.
        now_ns: End of the open one.
        span_ns: Time that is shown.
        zone: The viewer's.
        theme: Its colours.
        yaxis: Which vertical axis; the row is at 0.
    """
    shown = [
        step
        for step in steps
        if (step.end_ns or now_ns) > span_ns[0] and step.start_ns < span_ns[1]
    ]
    size = max(1, -(-len(shown) // MAX_STEP_BARS))
    groups = [shown[at : at + size] for at in range(0, len(shown), size)]
    # Cut to the span, so that a label stands in the middle of what is seen.
    starts = np.array([max(group[0].start_ns, span_ns[0]) for group in groups], dtype=np.int64)
    ends = np.array([min(_end_ns(group[-1], now_ns), span_ns[1]) for group in groups])
    roles = ROLES[theme]
    return bar_trace(
        orientation="h",
        base=zone.local_moments(starts),
        x=(ends - starts) / NS_PER_MS,
        y=np.zeros(len(groups), dtype=np.uint8),
        width=1,
        yaxis=yaxis,
        customdata=[_describe(group) for group in groups],
        text=[str(group[0].step) for group in groups] if len(groups) <= MAX_NUMBERED else None,
        textposition="inside",
        insidetextanchor="middle",
        textangle=0,
        textfont={"size": 10, "color": roles.muted},
        constraintext="inside",
        marker={"color": roles.raised, "line": {"width": 1, "color": roles.surface}},
        hovertemplate="<b>%{customdata[2]}</b>  %{customdata[1]}<extra></extra>",
    )


def _end_ns(step: Step, now_ns: int) -> int:
    return step.end_ns or max(now_ns, step.start_ns)


def _describe(group: Sequence[Step]) -> list[object]:
    """Return the step that a click opens (the longest), its length, and the bar's name."""
    longest = max(group, key=lambda step: step.duration_s or 0.0)
    length = format_duration(longest.duration_s) if longest.duration_s else "open"
    if len(group) == 1:
        return [longest.step, length, f"step {longest.step}"]
    name = f"steps {group[0].step}–{group[-1].step}"
    return [longest.step, f"longest: step {longest.step}, {length}", name]
