"""Energy as tables: joules by stage, and what a token costs."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

from collections.abc import Sequence
from dataclasses import dataclass

from dash import html
from dash.development.base_component import Component

from longpole_dashboards.components.table import Column, Row, share_bar, table
from longpole_dashboards.formats import ABSENT, format_energy, format_ratio
from longpole_dashboards.theme import stage_colour, stage_label

_COLUMNS = (
    Column("Stage"),
    Column("Share", is_figure=True),
    Column("Energy", is_figure=True),
    Column("J a token", is_figure=True),
    Column("W a GPU", is_figure=True),
)


@dataclass(frozen=True, slots=True)
class StageCost:
    """What a stage took.

    Attributes:
        energy_joules: None where it is not told.
        gpu_seconds: Time of all its GPUs in it.
        tokens: Of the steps that are shown, None where not all tell.
        label: Beside its colour; None: its own name.
    """

    stage: str
    energy_joules: float | None
    gpu_seconds: float
    tokens: int | None
    is_estimated: bool = False
    label: str | None = None


def energy_table(costs: Sequence[StageCost]) -> Component:
    """Return stages, the largest first, with their shares of what is known."""
    total = sum(cost.energy_joules or 0.0 for cost in costs)
    ordered = sorted(costs, key=lambda cost: -(cost.energy_joules or 0.0))
    return html.Div(table(_COLUMNS, [_row(cost, total) for cost in ordered]), className="lp-energy")


def _row(cost: StageCost, total: float) -> Row:
    joules, colour = cost.energy_joules, stage_colour(cost.stage)
    share = joules / total if joules is not None and total else None
    watts = joules / cost.gpu_seconds if joules is not None and cost.gpu_seconds else None
    per_token = joules / cost.tokens if joules is not None and cost.tokens else None
    dot = html.I(className="lp-stage-dot", style={"background": colour})
    return Row(
        (
            html.Span([dot, cost.label or stage_label(cost.stage)]),
            share_bar(share, [html.B(format_ratio(share))], colour),
            approximate(format_energy(joules), is_estimated=cost.is_estimated),
            ABSENT if per_token is None else f"{per_token:.2g}",
            ABSENT if watts is None else f"{watts:.0f}",
        )
    )


def approximate(text: str, *, is_estimated: bool) -> str:
    """Return a value with the sign of an estimate."""
    return f"≈ {text}" if is_estimated and text != ABSENT else text


def energy_facts(facts: Sequence[tuple[str, str]]) -> Component:
    """Return (value, words) in one line."""
    return html.Div(
        [html.Span([html.B(value), f" {words}"]) for value, words in facts],
        className="lp-energy-facts",
    )
