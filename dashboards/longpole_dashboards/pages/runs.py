"""Runs: every run in one table, live ones first."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import dash_mantine_components as dmc
from dash import ClientsideFunction, Dash, Input, Output, html
from dash.development.base_component import Component

from longpole_dashboards.addresses import RUNS_PATH, Query
from longpole_dashboards.components.export import csv_button
from longpole_dashboards.components.notice import empty_state
from longpole_dashboards.components.panel import attributes
from longpole_dashboards.pages.runs_table import run_row, runs_grid
from longpole_dashboards.reading import Reader
from longpole_dashboards.refresh import (
    Panel,
    PanelGroup,
    View,
    group_stores,
    notice_slot,
    register_group,
)
from longpole_dashboards.theme import ROLES
from longpole_server.model.run import OpenStage, RunSummary

GROUP = "runs"
# Sparklines are read for this many runs, the first of the list: the live and newest ones.
MAX_SPARKLINES = 40

_CONNECT = """import longpole

longpole.init(run_id="my-run", project="my-project")
with longpole.step(i), longpole.stage("gen"):
    ..."""


@dataclass(frozen=True, slots=True)
class RunsReading:
    """The list of runs as one browser sees it."""

    reader: Reader
    view: View
    runs: Sequence[RunSummary]


def layout(query: Query) -> Component:
    """Return the page before its data is there."""
    return html.Div(
        [
            *group_stores(GROUP),
            notice_slot(GROUP),
            html.Div(
                [
                    html.H1("Runs"),
                    html.Div(id="runs-counts", className="lp-counts"),
                    html.Div(className="lp-spring"),
                    html.Button(
                        "Choose two to compare",
                        id="runs-compare",
                        className="lp-button lp-compare",
                    ),
                    csv_button("runs-grid", "runs"),
                    dmc.TextInput(
                        id="runs-search",
                        value=query.text("q") or "",
                        placeholder="Search name, project, verdict …",
                        size="xs",
                        w=280,
                        **attributes(aria_label="Search runs"),
                    ),
                ],
                className="lp-title-row",
            ),
            html.Div(runs_grid(), id="runs-table", className="lp-runs-table"),
            html.Div(id="runs-empty"),
        ],
        className="lp-page lp-page-runs",
    )


def _render_table(reading: RunsReading) -> tuple[object, ...]:
    colour = ROLES[reading.view.theme].accent
    rows = [
        run_row(
            run,
            reading.reader.service.list_paces(run.run_id) if index < MAX_SPARKLINES else (),
            colour,
        )
        for index, run in enumerate(reading.runs)
    ]
    style = {"display": "block" if rows else "none"}
    return rows, style, _counts(reading.runs), None if rows else _nothing_yet()


def _key(reading: RunsReading) -> object:
    return [replace(run, last_seen_ns=0, open_stage=_steady(run)) for run in reading.runs]


def _steady(run: RunSummary) -> OpenStage | None:
    return None if run.open_stage is None else replace(run.open_stage, seen_ns=0)


def _counts(runs: Sequence[RunSummary]) -> Sequence[Component]:
    words = (("live", "live"), ("stalled", "stalled"), ("crashed", "crashed"), ("lost", "lost"))
    counted = [(label, sum(run.state == state for run in runs)) for state, label in words]
    gpus = sum(run.gpu_count or 0 for run in runs if run.state in ("live", "stalled"))
    shown = [
        html.Span([html.B(str(count)), f" {label}"], className=f"lp-count lp-count-{label}")
        for label, count in counted
        if count
    ]
    if gpus:
        shown.append(html.Span([html.B(str(gpus)), " GPUs in use"], className="lp-count"))
    return shown


def _nothing_yet() -> Component:
    return empty_state(
        "No run has reported yet",
        html.P("Connect a trainer. These lines are all it takes:"),
        html.Pre(_CONNECT),
        html.P(
            [
                "Or look around with a simulated run: ",
                html.Code("longpole demo"),
                ". A log file works too: ",
                html.Code("longpole import train.log"),
            ]
        ),
        html.P(
            "This page fills by itself as soon as data arrives.", className="lp-dim lp-empty-foot"
        ),
    )


def _read(reader: Reader, view: View) -> RunsReading:
    version = reader.service.changes.current.version
    return RunsReading(reader, view, reader.memory.ask("runs", version, reader.service.list_runs))


PANELS = PanelGroup[RunsReading](
    name=GROUP,
    path=RUNS_PATH,
    read=_read,
    panels=(
        Panel(
            (
                ("runs-grid", "rowData"),
                ("runs-table", "style"),
                ("runs-counts", "children"),
                ("runs-empty", "children"),
            ),
            _key,
            _render_table,
        ),
    ),
)
# In sight at first, and below.
FIRST_GROUPS = (PANELS,)
LATER_GROUPS: tuple[PanelGroup[Any], ...] = ()


def register(app: Dash, reader: Reader) -> None:
    """Register the page's callbacks."""
    register_group(app, reader, PANELS)
    app.clientside_callback(
        ClientsideFunction("longpole", "openRow"), Input("runs-grid", "cellClicked")
    )
    app.clientside_callback(
        ClientsideFunction("longpole", "searchRuns"), Input("runs-search", "value")
    )
    # Its declared output only says on which page it lives.
    app.clientside_callback(
        ClientsideFunction("longpolePages", "compareRuns"),
        Output("runs-compare", "title"),
        Input("runs-grid", "selectedRows"),
    )
    app.clientside_callback(
        ClientsideFunction("longpolePages", "compareGo"), Input("runs-compare", "n_clicks")
    )
