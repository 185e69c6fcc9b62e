"""What the long tail of a step cost, what stopping early would have saved, whom it waited for."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Mapping, Sequence

from dash import html
from dash.development.base_component import Component

from longpole_dashboards.components.panel import hinted
from longpole_dashboards.formats import (
    ABSENT,
    format_count,
    format_duration,
    format_ratio,
    format_whole,
)
from longpole_dashboards.glossary import DEFINITIONS
from longpole_dashboards.theme import PART_COLOURS
from longpole_server.model.long_tail import EarlyStop, StepTail, TailShare

# Rows of each breakdown.
_SHOWN = 4
_ACTIVITY_COLOURS = {**PART_COLOURS, "other": PART_COLOURS["queue"]}


def tail_costs(tail: StepTail, step_s: float | None) -> Component:
    """Return the costs of a step's tail, its early stops, and its breakdown.

    Args:
        tail: The tail.
        step_s: Seconds of the step, None while it is open.
    """
    return html.Div(
        [_waste(tail), _stops(tail.stops, step_s), _breakdown(tail)], className="lp-tail"
    )


def _waste(tail: StepTail) -> Component:
    gpu_s = (
        [html.B(f"{format_count(tail.waste_gpu_s)} GPU-s"), " of gen"]
        if tail.waste_gpu_s is not None
        else [html.Span(f"GPU time unknown: {tail.reason}", className="lp-dim")]
    )
    return html.Div(
        [
            hinted("Empty slots", DEFINITIONS["tail_waste"], "lp-overline"),
            html.Div(
                [
                    html.Div(html.I(style=_wide(tail.idle_ratio)), className="lp-waste-bar"),
                    html.Span([html.B(format_ratio(tail.idle_ratio)), " of gen's slots"]),
                    html.Span(gpu_s),
                ],
                className="lp-waste-row",
            ),
            _bandwidth(tail),
        ],
        className="lp-partial",
    )


def _bandwidth(tail: StepTail) -> Component | None:
    if tail.decode_bandwidth_ratio is None:
        return None
    return html.Div(
        [
            html.Div(html.I(style=_wide(tail.decode_bandwidth_ratio)), className="lp-waste-bar"),
            html.B(format_ratio(tail.decode_bandwidth_ratio)),
            hinted("of memory bandwidth", DEFINITIONS["decode_bandwidth"]),
        ],
        className="lp-waste-row lp-bandwidth",
    )


def _stops(stops: Sequence[EarlyStop], step_s: float | None) -> Component:
    largest = max((stop.saved_s for stop in stops), default=0.0) or 1.0
    rows = [
        html.Div(
            [
                html.Span(f"stop at {format_ratio(stop.ratio)}"),
                html.Div(html.I(style=_wide(stop.saved_s / largest)), className="lp-saved"),
                html.B(format_duration(stop.saved_s)),
                html.Span(f"−{format_ratio(stop.saved_s / step_s)} of the step" if step_s else ""),
                html.Span(_left(stop), className="lp-left"),
            ],
            className="lp-partial-row",
        )
        for stop in stops
    ]
    return html.Div(
        [
            hinted("What partial rollout would have saved", DEFINITIONS["partial"], "lp-overline"),
            *rows,
        ],
        className="lp-partial",
    )


def _left(stop: EarlyStop) -> str:
    """Say what would have been carried over."""
    if not stop.samples_left:
        return "leaves nothing"
    noun = "sample" if stop.samples_left == 1 else "samples"
    words = f"leaves {format_whole(stop.samples_left)} {noun}"
    if stop.tokens_left_ratio is not None:
        words += f", {format_ratio(stop.tokens_left_ratio)} of the tokens"
    if stop.tokens_begun_ratio is not None:
        words += f" ({format_ratio(stop.tokens_begun_ratio)} made by then)"
    return words


def _breakdown(tail: StepTail) -> Component | None:
    replicas = [
        TailShare(row.replica, row.waste_ratio or 0.0, row.waste_gpu_s, row.num_samples)
        for row in tail.by_replica
    ]
    replicas.sort(key=lambda share: -share.ratio)
    columns = [
        _column("Replica", replicas, len(replicas)),
        _column("Group", tail.by_group, tail.num_groups),
        _column("Activity", tail.by_activity, len(tail.by_activity), _ACTIVITY_COLOURS),
    ]
    shown = [column for column in columns if column is not None]
    if not shown or tail.idle_ratio <= 0:
        return None
    return html.Div(
        [
            hinted("Whom the empty slots waited for", DEFINITIONS["tail_share"], "lp-overline"),
            html.Div(shown, className="lp-waited"),
        ],
        className="lp-partial",
    )


def _column(
    title: str,
    shares: Sequence[TailShare],
    count: int,
    colours: Mapping[str, str] | None = None,
) -> Component | None:
    """Return the largest shares; an activity that is not among the colours is a tool."""
    if not shares:
        return None
    largest = max(share.ratio for share in shares) or 1.0
    more = count - _SHOWN
    heading = title if more <= 0 else f"{title}, top {_SHOWN} of {format_whole(count)}"
    return html.Div([html.Span(heading), *[_share(s, largest, colours) for s in shares[:_SHOWN]]])


def _share(share: TailShare, largest: float, colours: Mapping[str, str] | None) -> Component:
    name = share.id or ABSENT
    known = f", {format_count(share.gpu_s)} GPU-s" if share.gpu_s is not None else ""
    noun = "sample" if share.num_samples == 1 else "samples"
    bar = _wide(share.ratio / largest)
    if colours is not None:
        bar["background"] = colours.get(name, colours["tool"])
    return html.Div(
        [
            html.Em(name),
            html.B(format_ratio(share.ratio)),
            html.Div(html.I(style=bar)),
        ],
        className="lp-waited-row",
        title=f"{name}: {format_ratio(share.ratio, 1)}{known}, "
        f"{format_whole(share.num_samples)} {noun}",
    )


def _wide(ratio: float) -> dict[str, str]:
    return {"width": f"{min(1.0, max(0.0, ratio)) * 100:.1f}%"}
