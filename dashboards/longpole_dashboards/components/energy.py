"""Energy by stage: joules, and what a token costs, as tables show them."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dash import html
from dash.development.base_component import Component

from longpole.conventions import stages
from longpole_dashboards.components.table import Column, Row, share_bar, table
from longpole_dashboards.formats import ABSENT, NS_PER_S, format_energy, format_ratio
from longpole_dashboards.theme import stage_colour, stage_label
from longpole_server.model.energy import StepEnergy
from longpole_server.model.step import Step

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


def sum_stages(found: Sequence[StepEnergy], steps: Mapping[int, Step]) -> list[StageCost]:
    """Return what each stage took over several steps: over those that tell of all their stages."""
    joules: defaultdict[str, float] = defaultdict(float)
    gpu_seconds: defaultdict[str, float] = defaultdict(float)
    whole = [each for each in found if all(part.energy_joules is not None for part in each.stages)]
    tokens = [each.tokens_total for each in whole]
    total = sum(count or 0 for count in tokens) if None not in tokens else None
    for each in whole:
        step = steps.get(each.step)
        for part in each.stages:
            joules[part.stage] += part.energy_joules or 0.0
            seconds = 0.0 if step is None else stage_seconds(step, part.stage)
            gpu_seconds[part.stage] += part.gpu_count * seconds
    estimated = any(each.is_estimated for each in whole)
    return [
        StageCost(stage, taken, gpu_seconds[stage], total, estimated)
        for stage, taken in joules.items()
    ]


def stage_seconds(step: Step, name: str) -> float:
    """Return how long a stage, or what no stage accounts for, took of a step."""
    if name == stages.UNATTRIBUTED:
        return step.unattributed_s or 0.0
    stage = step.stage(name)
    windows = () if stage is None else stage.windows
    return sum(end_ns - start_ns for start_ns, end_ns in windows) / NS_PER_S


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
