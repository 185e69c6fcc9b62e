"""What a run takes in energy, step by step and stage by stage: a row of the run page."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Sequence
from functools import cached_property

from dash import html
from dash.development.base_component import Component

from longpole_dashboards.addresses import RUN_PATH
from longpole_dashboards.components.energy import (
    approximate,
    energy_facts,
    energy_table,
    sum_stages,
)
from longpole_dashboards.components.export import csv_button
from longpole_dashboards.components.notice import absent
from longpole_dashboards.components.panel import graph, panel
from longpole_dashboards.figures.energy import energy_steps
from longpole_dashboards.figures.template import message_figure
from longpole_dashboards.formats import format_energy, format_whole
from longpole_dashboards.glossary import DEFINITIONS, not_reported
from longpole_dashboards.pages.run_reading import RunReading
from longpole_dashboards.refresh import Panel, PanelGroup
from longpole_server.model.energy import RunEnergy, StepEnergy

GROUP = "run-energy"
CHART = "run-energy-steps"
# Of more steps, the newest.
_MAX_STEPS = 120
_HEIGHT_PX = 232


class RunEnergyReading(RunReading):
    """A run with its energy."""

    @cached_property
    def energy(self) -> RunEnergy | None:
        """That of the drawn steps; None before the first one ended."""
        closed = [step for step in self.drawn if step.duration_s is not None][-_MAX_STEPS:]
        if not closed:
            return None
        first, last = closed[0].step, closed[-1].step
        return self._memory.ask(
            ("energy", self.run_id, first, last),
            self.progress,
            lambda: self._service.get_energy(self.run_id, first, last),
        )


def energy_row() -> Component:
    """Return the panels before their data is there."""
    return html.Div(
        [
            panel(
                "Energy",
                [
                    html.Div(graph(CHART, _HEIGHT_PX), id="run-energy-body"),
                    html.Div(id="run-energy-absent"),
                ],
                hint=DEFINITIONS["energy"],
                aside=html.Div(id="run-energy-aside", className="lp-asides"),
            ),
            panel(
                "Energy by stage",
                html.Div(id="run-energy-stages"),
                hint="Of the steps that the chart shows. Last: the mean power of a GPU.",
                controls=(csv_button("run-energy-stages", "energy by stage"),),
            ),
        ],
        className="lp-row lp-row-wide",
    )


def _energy(reading: RunEnergyReading) -> tuple[object, ...]:
    energy, theme = reading.energy, reading.view.theme
    steps = () if energy is None else energy.steps
    known = [step for step in steps if step.energy_joules is not None]
    if energy is None or not known:
        words = "No step has ended yet." if energy is None else not_reported("energy", "Energy")
        return message_figure("", theme), {"display": "none"}, absent(words), None, absent(words)
    figure = energy_steps(known, axis=reading.axis, zone=reading.view.zone, theme=theme)
    costs = sum_stages(known, {step.step: step for step in reading.drawn})
    by_stage = (
        energy_table(costs) if costs else absent(not_reported("windows", "Energy of single stages"))
    )
    return reading.revise(figure), {}, None, _say_run(energy, known), by_stage


def _say_run(energy: RunEnergy, known: Sequence[StepEnergy]) -> Component:
    newest = known[-1]
    facts = [
        (
            approximate(
                format_energy(newest.energy_joules), is_estimated=newest.is_estimated
            ),
            "in the last step",
        )
    ]  # fmt: skip
    if newest.joules_per_token is not None:
        facts.append((f"{newest.joules_per_token:.3g} J", "a token"))
    if energy.energy_joules is not None:
        facts.append((format_energy(energy.energy_joules), "in the whole run"))
        if energy.gpu_seconds:
            watts = energy.energy_joules / energy.gpu_seconds
            facts.append((f"{format_whole(watts)} W", "mean of a GPU"))
    return energy_facts(facts)


PANELS = PanelGroup[RunEnergyReading](
    name=GROUP,
    path=RUN_PATH,
    read=RunEnergyReading,
    panels=(
        Panel(
            (
                (CHART, "figure"),
                ("run-energy-body", "style"),
                ("run-energy-absent", "children"),
                ("run-energy-aside", "children"),
                ("run-energy-stages", "children"),
            ),
            RunEnergyReading.closed_key,
            _energy,
        ),
    ),
)
