"""Who held a step up, and what it took in energy: the last row of the step page."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from dash import html
from dash.development.base_component import Component

from longpole_dashboards.addresses import STEP_PATH
from longpole_dashboards.components.energy import (
    StageCost,
    approximate,
    energy_facts,
    energy_table,
    stage_seconds,
)
from longpole_dashboards.components.export import csv_button
from longpole_dashboards.components.notice import absent
from longpole_dashboards.components.paces import gpu_paces, replica_paces, titled_table
from longpole_dashboards.components.panel import panel
from longpole_dashboards.formats import format_energy
from longpole_dashboards.glossary import DEFINITIONS, not_reported
from longpole_dashboards.pages.lane_filter import ONLY
from longpole_dashboards.pages.step_reading import StepReading
from longpole_dashboards.refresh import Panel, PanelGroup
from longpole_dashboards.theme import stage_label

GROUP = "step-hardware"
_SHOWN_GPUS, _SHOWN_REPLICAS = 8, 8


def hardware_row() -> Component:
    """Return the panels before their data is there."""
    return html.Div(
        [
            panel(
                "Stragglers",
                html.Div(id="step-paces", className="lp-wait", style={"--wait": "150px"}),
                hint=DEFINITIONS["of_best"],
                aside="click a GPU to see it over time",
            ),
            panel(
                "Energy",
                html.Div(id="step-energy", className="lp-wait", style={"--wait": "150px"}),
                hint=DEFINITIONS["energy"],
                aside="of the GPUs alone",
                controls=(csv_button("step-energy", "energy of the step"),),
            ),
        ],
        className="lp-row lp-row-wide",
    )


def _paces(reading: StepReading) -> tuple[object, ...]:
    if reading.step.closed_by is None:
        return (absent("Paces are compared when the step has ended."),)
    found, only = reading.detail.stragglers, reading.only
    gpus = [gpu for gpu in found.gpus if only.keeps_gpu(gpu)]
    replicas = [score for score in found.replicas if only.keeps_replica(score.replica)]
    said = [
        only.say_gpus(has_any=bool(found.gpus), has_shown=bool(gpus)),
        only.say_replicas("Replicas", has_any=bool(found.replicas), has_shown=bool(replicas)),
    ]
    shown = [absent(each) for each in said if each is not None]
    # What the choice left nothing of is not what nobody reported.
    if gpus or not found.gpus:
        shown += titled_table(
            "GPUs, by their clock at work",
            gpu_paces(gpus, _SHOWN_GPUS),
            "step-paces-gpus",
            f"stragglers of step {reading.number} gpus",
        )
    if replicas or not found.replicas:
        shown += titled_table(
            "Replicas, by their seconds a token",
            replica_paces(replicas, _SHOWN_REPLICAS),
            "step-paces-replicas",
            f"stragglers of step {reading.number} replicas",
        )
    return (shown,)


def _energy(reading: StepReading) -> tuple[object, ...]:
    step, parts = reading.step, reading.detail.energy
    known = [part for part in parts if part.energy_joules is not None]
    if not known:
        return (absent(not_reported("energy", "Energy")),)
    roles = {part.role for part in parts}
    costs = [
        StageCost(
            part.stage,
            part.energy_joules,
            part.gpu_count * stage_seconds(step, part.stage),
            step.tokens_total,
            part.is_estimated,
            f"{stage_label(part.stage)}, {part.role}" if len(roles) > 1 else None,
        )
        for part in parts
    ]
    total = sum(part.energy_joules or 0.0 for part in parts)
    is_whole, is_estimated = len(known) == len(parts), any(part.is_estimated for part in parts)
    facts = [
        (
            approximate(format_energy(total), is_estimated=is_estimated),
            "in its stages" if is_whole else "of the GPUs that tell",
        )
    ]
    if step.tokens_total and is_whole:
        facts.append((f"{total / step.tokens_total:.3g} J", "a token"))
    said = reading.only.say_whole("energy of all GPUs of the step")
    return ([absent(said) if said else None, energy_facts(facts), energy_table(costs)],)


def _key(reading: StepReading) -> object:
    return (reading.key(), reading.view.query.text(ONLY))


PANELS = PanelGroup[StepReading](
    name=GROUP,
    path=STEP_PATH,
    read=StepReading,
    panels=(
        Panel((("step-paces", "children"),), _key, _paces),
        Panel((("step-energy", "children"),), _key, _energy),
    ),
)
