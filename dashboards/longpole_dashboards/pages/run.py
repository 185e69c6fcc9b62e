"""Run: what is running now, the verdict, and how the run's steps and GPUs have been."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import dash_mantine_components as dmc
from dash import ClientsideFunction, Dash, Input, Output, State, html
from dash.development.base_component import Component

from longpole_dashboards.addresses import RUN_PATH, Query
from longpole_dashboards.components.export import csv_button
from longpole_dashboards.components.minutes import SPAN, minutes_choice
from longpole_dashboards.components.panel import attributes, choice, graph, panel
from longpole_dashboards.components.verdict import decision_table
from longpole_dashboards.figures.gpus import FIELD_LABELS, HEAT_FIELDS
from longpole_dashboards.glossary import DEFINITIONS
from longpole_dashboards.pages import (
    run_energy,
    run_panels,
    run_slow_panels,
    run_summary_panels,
)
from longpole_dashboards.pages.gpu_heat import ALL_LANES
from longpole_dashboards.pages.run_reading import RANGES, SPANS
from longpole_dashboards.reading import Reader
from longpole_dashboards.refresh import group_stores, notice_slot, register_group
from longpole_dashboards.shell import register_choices

# Each has a refresh of its own: what takes long to read holds up nothing else.
GROUPS = (
    run_panels.PANELS,
    run_summary_panels.PANELS,
    run_slow_panels.PANELS,
)
_UNITS = (("seconds", "seconds"), ("percent", "percent"))
_AXES = (("step", "step"), ("time", "clock"))
# Charts of steps, or of the clock if that was chosen; and charts that are always of the clock.
_STEP_CHARTS = ("run-shares", "run-throughput", "run-mfu", run_energy.CHART, "run-health")
_TIME_CHARTS = ("run-gpus", "run-engines")
# control id -> (query name, default)
_CHOICES = {
    "run-unit": ("unit", _UNITS[0][0]),
    "run-axis": ("axis", _AXES[0][0]),
    "run-range": ("steps", RANGES[0]),
    "run-field": ("field", HEAT_FIELDS[0]),
    "run-span": (SPAN, SPANS[0]),
    "run-only": ("only", ALL_LANES),
}
# In sight at first, and below.
FIRST_GROUPS = (run_panels.PANELS, run_summary_panels.PANELS)
LATER_GROUPS = (run_slow_panels.PANELS, run_energy.PANELS)


def layout(query: Query) -> Component:
    """Return the page before its data is there."""
    return html.Div(
        [
            *[store for group in GROUPS for store in group_stores(group.name)],
            *group_stores(run_energy.GROUP),
            *[notice_slot(group.name) for group in GROUPS],
            notice_slot(run_energy.GROUP),
            html.Div(id="run-title", style={"--wait": "30px"}, className="lp-wait lp-run-title"),
            html.Div(id="run-alerts", className="lp-alert-lines"),
            html.Div(
                [
                    html.Div(id="run-verdict", className="lp-wait", style={"--wait": "150px"}),
                    html.Div(id="run-now", className="lp-wait", style={"--wait": "150px"}),
                ],
                className="lp-row lp-hero",
            ),
            html.Div(id="run-tiles", style={"--wait": "76px"}, className="lp-wait lp-tiles"),
            html.Div([_shares(query), _evidence()], className="lp-row lp-row-wide"),
            html.Div([_throughput(), _mfu()], className="lp-row lp-row-wide"),
            _gpus(query),
            _engines(),
            _health(),
            run_energy.energy_row(),
            _decisions(),
        ],
        className="lp-page",
    )


def _shares(query: Query) -> Component:
    return panel(
        "Stage shares",
        [html.Div(id="run-legend"), graph("run-shares", 300)],
        hint=f"{DEFINITIONS['share']} {DEFINITIONS['outside']}",
        aside="click a bar to open its step",
        controls=(
            choice("run-range", [(name, _range_label(name)) for name in RANGES], _at(query, 2)),
            choice("run-unit", _UNITS, _at(query, 0)),
            choice("run-axis", _AXES, _at(query, 1)),
        ),
    )


def _range_label(name: str) -> str:
    return "all steps" if name == "all" else f"last {name}"


def _at(query: Query, index: int) -> str:
    name, default = list(_CHOICES.values())[index]
    return query.text(name) or default


def _evidence() -> Component:
    return panel(
        "Why",
        html.Div(
            id="run-evidence",
            tabIndex=0,
            role="region",
            **attributes(aria_label="Evidence"),
            style={"--wait": "300px"},
            className="lp-wait lp-scroll",
        ),
        hint=(
            "What speaks for and against the verdict. Outer: the trainer's timers; inner: samples, "
            "engines, GPUs; other side: whether the rest is as usual."
        ),
        controls=(
            csv_button("run-evidence", "evidence"),
            html.Button("Decision table", id="decisions-open", className="lp-text-button"),
        ),
        class_name="lp-why",
    )


def _throughput() -> Component:
    return panel(
        "Throughput and step time",
        graph("run-throughput", 210),
        hint=f"{DEFINITIONS['throughput']} {DEFINITIONS['step_time']}",
        aside="dotted: median",
    )


def _mfu() -> Component:
    return panel(
        "MFU",
        [html.Div(id="run-mfu-legend"), graph("run-mfu", 192)],
        hint=f"{DEFINITIONS['mfu_actor']} {DEFINITIONS['mfu_step']}",
    )


def _gpus(query: Query) -> Component:
    return panel(
        "GPUs",
        html.Div([graph("run-gpus", 300), html.Div(id="run-gpus-absent")], id="run-gpus-body"),
        hint=(
            "One row a GPU, grouped by node and role. Empty cells: nothing was measured. "
            "Marks on the time axis: weight syncs."
        ),
        aside=[
            html.Span(id="run-gpus-aside"),
            html.Span("drag on any chart to zoom all, double-click for live"),
        ],
        controls=(
            dmc.Select(
                id="run-only",
                data=[{"value": ALL_LANES, "label": "all GPUs"}],
                value=query.text("only") or ALL_LANES,
                searchable=True,
                size="xs",
                w=150,
                allowDeselect=False,
                **attributes(aria_label="Which GPUs or replica"),
            ),
            minutes_choice("run-span", [(name, f"{name} min") for name in SPANS], query),
            dmc.Select(
                id="run-field",
                data=[{"value": name, "label": FIELD_LABELS[name]} for name in HEAT_FIELDS],
                value=_at(query, 3),
                size="xs",
                w=170,
                allowDeselect=False,
                **attributes(aria_label="GPU metric"),
            ),
        ),
    )


def _engines() -> Component:
    return panel(
        "Rollout engines",
        html.Div([graph("run-engines", 160), html.Div(id="run-engines-absent")]),
        hint=DEFINITIONS["engines"],
        aside="the same time as above",
    )


def _health() -> Component:
    return panel("Training health", graph("run-health", 150), hint="Shaded: the healthy band.")


def _decisions() -> Component:
    return dmc.Drawer(
        html.Div(id="decisions-table"),
        id="decisions",
        title="How a verdict is decided",
        position="right",
        size="xl",
    )


def register(app: Dash, reader: Reader) -> None:
    """Register the page's callbacks."""
    for group in GROUPS:
        register_group(app, reader, group)
    register_group(app, reader, run_energy.PANELS)
    register_choices(app, RUN_PATH, _CHOICES)
    for chart in (*_STEP_CHARTS, "run-gpus"):
        app.clientside_callback(
            ClientsideFunction("longpole", "openStep"),
            Input(chart, "clickData"),
            State("url", "search"),
        )
    for chart in (*_STEP_CHARTS, *_TIME_CHARTS):
        kind = "time" if chart in _TIME_CHARTS else "chosen"
        app.clientside_callback(
            f"event => window.longpoleCharts.zoomAll({kind!r}, {chart!r}, event)",
            Input(chart, "relayoutData"),
        )

    @app.callback(
        Output("decisions", "opened"),
        Output("decisions-table", "children"),
        Input("decisions-open", "n_clicks"),
        State("run-verdict-code", "data"),
        prevent_initial_call=True,
    )
    async def open_decisions(clicks: int | None, verdict: str | None) -> tuple[bool, Component]:
        return bool(clicks), decision_table(verdict)
