"""Tables of paces: GPUs and replicas, each against the best of its kind."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

from collections.abc import Sequence

from dash import dcc, html
from dash.development.base_component import Component

from longpole_dashboards.addresses import gpu_address
from longpole_dashboards.components.export import csv_button
from longpole_dashboards.components.notice import ABSENT_CLASS, absent
from longpole_dashboards.components.table import Cell, Column, Row, share_bar, table
from longpole_dashboards.formats import ABSENT, format_ratio, format_whole
from longpole_dashboards.glossary import DEFINITIONS, not_reported
from longpole_server.model.stragglers import (
    GpuScore,
    GpuStanding,
    ReplicaScore,
    ReplicaStanding,
)

_MHZ = 1e6
# Power caps alone move clocks by a tenth and less.
_USUAL_RATIO = 0.95
_OF_BEST = Column("Of the best", is_figure=True, hint=DEFINITIONS["of_best"])
_SLOW_IN = Column("Slow in", is_figure=True, hint=DEFINITIONS["slow_in"])
_GPU_COLUMNS = (
    Column("GPU"),
    Column("Rank", hint=DEFINITIONS["rank"]),
    Column("Role"),
    _OF_BEST,
    Column("SM clock", is_figure=True),
    Column("Power", is_figure=True),
    Column("Slow because"),
)
_REPLICA_COLUMNS = (
    Column("Replica"),
    _OF_BEST,
    Column("A token", is_figure=True),
    Column("Like lengths", is_figure=True, hint=DEFINITIONS["like_lengths"]),
    Column("Samples", is_figure=True),
)


def gpu_paces(scores: Sequence[GpuScore], max_rows: int, least_rows: int = 3) -> Component:
    """Return GPUs that are worth a look, the slowest first, with their clock at work, and why.

    Standings, of several steps, also say in how many of them a GPU was a straggler.

    Args:
        scores: The slowest first.
        max_rows: So many at most; the rest is counted.
        least_rows: So many also where nothing is the matter with them.
    """
    known = [score for score in scores if score.of_best_ratio is not None]
    if not known:
        return absent(
            not_reported("clocks", "Clocks of GPUs at work")
            if scores
            else not_reported("gpus", "GPUs")
        )
    num_odd = next((at for at, score in enumerate(known) if not _is_odd(score)), len(known))
    num_shown = min(max_rows, max(least_rows, num_odd))
    shown = known[:num_shown]
    is_several = isinstance(shown[0], GpuStanding)
    columns = (*_GPU_COLUMNS, _SLOW_IN) if is_several else _GPU_COLUMNS
    rest = _count_rest(known[num_shown:], len(scores) - len(known))
    return html.Div([table(columns, [_gpu_row(score) for score in shown]), rest])


def titled_table(title: str, content: Component, place_id: str, name: str) -> list[Component]:
    """Return a table of paces below its title, with the way to save it.

    Args:
        title: What the table is of.
        content: What `gpu_paces` or `replica_paces` returned.
        place_id: Id of the table's place, unique on its page.
        name: Of the saved file, without its ending.
    """
    is_table = getattr(content, "className", None) != ABSENT_CLASS
    button = csv_button(place_id, name) if is_table else None
    head = html.Div(
        [html.Span(title, className="lp-paces-title"), button], className="lp-paces-head"
    )
    return [head, html.Div(content, id=place_id)]


def _is_odd(score: GpuScore) -> bool:
    was_slow = isinstance(score, GpuStanding) and score.num_slow > 0
    ratio = score.of_best_ratio
    is_below = ratio is not None and ratio < _USUAL_RATIO
    return was_slow or score.is_straggler or is_below or bool(score.reasons)


def _gpu_row(score: GpuScore) -> Row:
    hz, watts = score.sm_clock_hz, score.power_watts
    cells: list[Cell] = [
        dcc.Link(
            f"{score.host} · GPU {score.gpu_index}",
            href=gpu_address(score.host, score.gpu_uuid),
            className="lp-link",
            title="Its clock, power and temperature over time",
        ),
        ABSENT if score.rank is None else str(score.rank),
        score.role or ABSENT,
        _share(score.of_best_ratio, is_slow=score.is_straggler),
        ABSENT if hz is None else f"{format_whole(hz / _MHZ)} MHz",
        ABSENT if watts is None else f"{watts:.0f} W",
        _why(score),
    ]
    if isinstance(score, GpuStanding):
        cells.append(f"{score.num_slow} of {score.num_steps}")
    return Row(cells, "lp-slow" if score.is_straggler else "")


def _why(score: GpuScore) -> Component | str:
    if score.reasons and score.throttled_ratio:
        often = format_ratio(score.throttled_ratio, 0 if score.throttled_ratio >= 0.095 else 1)
        return html.Span([html.B(", ".join(score.reasons)), f", {often} of its work"])
    if score.is_straggler:
        unsaid = ", the driver names no reason" if score.throttled_ratio is not None else ""
        return html.Span([html.B("low clock"), unsaid])
    return ABSENT


def _count_rest(rest: Sequence[GpuScore], num_unknown: int) -> Component | None:
    words = list[str]()
    if rest:
        least = min(score.of_best_ratio or 0.0 for score in rest)
        words.append(f"{len(rest):,} more, at {format_ratio(least)} of the best or above")
    if num_unknown:
        words.append(f"no clock at work is known of {num_unknown:,}")
    return html.Div("; ".join(words), className="lp-dim lp-rest") if words else None


def replica_paces(scores: Sequence[ReplicaScore], max_rows: int) -> Component:
    """Return the first replicas, the slowest ones first, with their seconds a token.

    Standings, of several steps, also say in how many of them a replica was a straggler.
    """
    if not scores:
        return absent(not_reported("paces", "Paces of replicas"))
    is_several = isinstance(scores[0], ReplicaStanding)
    columns = (*_REPLICA_COLUMNS, _SLOW_IN) if is_several else _REPLICA_COLUMNS
    rest = len(scores) - max_rows
    return html.Div(
        [
            table(columns, [_replica_row(score) for score in scores[:max_rows]]),
            html.Div(f"{rest:,} more", className="lp-dim lp-rest") if rest > 0 else None,
        ]
    )


def _replica_row(score: ReplicaScore) -> Row:
    alike = score.like_lengths_ratio
    cells: list[Cell] = [
        score.replica,
        _share(score.of_best_ratio, is_slow=score.is_straggler),
        f"{score.seconds_per_token * 1e3:.3g} ms",
        ABSENT if alike is None else f"{alike:.2f} ×",
        format_whole(score.num_samples),
    ]
    if isinstance(score, ReplicaStanding):
        cells.append(f"{score.num_slow} of {score.num_steps}")
    return Row(cells, "lp-slow" if score.is_straggler else "")


def _share(ratio: float | None, *, is_slow: bool) -> Component:
    sign = html.I("▲", title="straggler", className="lp-slow-sign") if is_slow else None
    return share_bar(ratio, [sign, html.B(format_ratio(ratio))])
