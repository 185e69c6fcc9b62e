"""Runs: every run in one table, live ones first."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from threading import Lock

import dash_ag_grid as dag
import dash_mantine_components as dmc
from dash import ClientsideFunction, Dash, Input, html
from dash.development.base_component import Component

from longpole_dashboards.addresses import RUNS_PATH, Query, run_address
from longpole_dashboards.components.notice import empty_state
from longpole_dashboards.components.panel import attributes
from longpole_dashboards.components.sparkline import sparkline
from longpole_dashboards.formats import (
    ABSENT,
    NS_PER_MS,
    format_count,
    format_duration,
    format_ratio,
)
from longpole_dashboards.glossary import DEFINITIONS
from longpole_dashboards.reading import Reader
from longpole_dashboards.refresh import Panel, PanelGroup, View, group_stores, register_group
from longpole_dashboards.theme import ROLES, stage_label, verdict_colour
from longpole_dashboards.verdicts import verdict_badge, verdict_title
from longpole_server.model.run import OpenStage, RunSummary
from longpole_server.service import Service

GROUP = "runs"
# Sparklines are read for this many runs, the first of the list: the live and newest ones.
MAX_SPARKLINES = 40
SPARKLINE_STEPS = 40

_CONNECT = """import longpole

longpole.init(run_id="my-run", project="my-project")
with longpole.step(i), longpole.stage("gen"):
    ..."""


@dataclass(frozen=True, slots=True)
class History:
    """The last steps of a run: throughput of each, and when the newest ended."""

    throughput: tuple[float | None, ...] = ()
    ended_ns: int | None = None


class Histories:
    """Keeps what was read of each run's last steps until it has new ones, oldest out first."""

    def __init__(self, max_runs: int = 4 * MAX_SPARKLINES) -> None:
        self._max_runs = max_runs
        self._lock = Lock()
        self._kept: OrderedDict[str, tuple[object, History]] = OrderedDict()

    def read(self, service: Service, run: RunSummary) -> History:
        """Return the history of a run; asks the service only when its steps changed."""
        if run.last_step is None:
            return History()
        state = (run.attempt, run.last_step, run.num_steps, run.step_duration_s)
        with self._lock:
            kept = self._kept.get(run.run_id)
        if kept is not None and kept[0] == state:
            return kept[1]
        first = max(0, run.last_step - SPARKLINE_STEPS)
        steps = service.list_steps(run.run_id, first, run.last_step)
        closed = [step for step in steps if step.duration_s is not None]
        history = History(
            tuple(step.throughput_tokens_per_s_per_gpu for step in closed),
            closed[-1].end_ns if closed else None,
        )
        with self._lock:
            self._kept[run.run_id] = (state, history)
            self._kept.move_to_end(run.run_id)
            while len(self._kept) > self._max_runs:
                self._kept.popitem(last=False)
        return history


@dataclass(frozen=True, slots=True)
class RunsReading:
    """The list of runs as one browser sees it."""

    service: Service
    view: View
    runs: Sequence[RunSummary]
    histories: Histories


def layout(query: Query) -> Component:
    """Return the page before its data is there."""
    return html.Div(
        [
            *group_stores(GROUP),
            html.Div(id=f"{GROUP}-notice", className="lp-notice-slot"),
            html.Div(
                [
                    html.H1("Runs"),
                    html.Div(id="runs-counts", className="lp-counts"),
                    html.Div(className="lp-spring"),
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
            html.Div(_grid(), id="runs-table", className="lp-runs-table"),
            html.Div(id="runs-empty"),
        ],
        className="lp-page lp-page-runs",
    )


def _grid() -> Component:
    number = {"type": "rightAligned", "filter": False}
    return dag.AgGrid(
        id="runs-grid",
        columnDefs=[
            {
                "field": "name",
                "headerName": "Run",
                "cellRenderer": "LongpoleRun",
                "flex": 2,
                "minWidth": 250,
            },
            {"field": "state", "cellRenderer": "LongpoleState", "width": 104},
            {"field": "step", "cellRenderer": "LongpoleOpenStep", "width": 168},
            {
                "field": "ended_ms",
                "headerName": "Last step",
                "headerTooltip": "Time since the newest step ended",
                "cellRenderer": "LongpoleAge",
                "width": 96,
            }
            | number,
            {
                "field": "step_s",
                "headerName": "Step time",
                "headerTooltip": DEFINITIONS["step_time"],
                "cellRenderer": "LongpoleText",
                "width": 92,
            }
            | number,
            {
                "field": "throughput",
                "headerName": "Tokens/s/GPU",
                "headerTooltip": DEFINITIONS["throughput"],
                "cellRenderer": "LongpoleSpark",
                "width": 176,
            }
            | number,
            {
                "field": "mfu",
                "headerName": "MFU",
                "headerTooltip": DEFINITIONS["mfu_step"],
                "cellRenderer": "LongpoleText",
                "width": 74,
            }
            | number,
            {
                "field": "verdict",
                "headerName": "Waits for",
                "cellRenderer": "LongpoleVerdict",
                "flex": 1,
                "minWidth": 170,
            },
            {
                "field": "staleness",
                "headerTooltip": DEFINITIONS["staleness"],
                "cellRenderer": "LongpoleText",
                "width": 92,
            }
            | number,
            {"field": "gpus", "headerName": "GPUs", "cellRenderer": "LongpoleText", "width": 74}
            | number,
            {
                "field": "started_ms",
                "headerName": "Started",
                "cellRenderer": "LongpoleMoment",
                "width": 118,
            }
            | number,
        ],
        rowData=None,
        getRowId="params.data.id",
        defaultColDef={"sortable": True, "resizable": True, "suppressHeaderMenuButton": True},
        dashGridOptions={
            "theme": {"function": "longpoleGridTheme(agGrid)"},
            "rowHeight": 46,
            "headerHeight": 32,
            "tooltipShowDelay": 200,
            "animateRows": False,
            "suppressCellFocus": False,
            "suppressNoRowsOverlay": True,
        },
        className="lp-grid",
        style={"height": "100%"},
    )


def _row(run: RunSummary, history: History, colour: str) -> dict[str, object]:
    about = [run.project, run.algorithm, run.mode, run.system]
    if run.mode_source == "inferred" and run.mode is not None:
        about[2] = f"{run.mode} (inferred)"
    stage = run.open_stage
    return {
        "id": run.run_id,
        "href": run_address(run.run_id),
        "name": run.name,
        "about": " · ".join(word.replace("_", " ") for word in about if word),
        "state": run.state,
        "step": run.last_step,
        "open": _open_words(run),
        "open_since_ms": None if stage is None else stage.since_ns // NS_PER_MS,
        "open_longest_s": None if stage is None else stage.usual_max_s,
        "ended_ms": None if history.ended_ns is None else history.ended_ns // NS_PER_MS,
        "step_s": run.step_duration_s,
        "step_s_text": format_duration(run.step_duration_s),
        "throughput": run.throughput_tokens_per_s_per_gpu,
        "throughput_text": format_count(run.throughput_tokens_per_s_per_gpu),
        "spark": sparkline(history.throughput, colour),
        "mfu": run.mfu_step,
        "mfu_text": format_ratio(run.mfu_step),
        "verdict": run.verdict,
        "verdict_text": verdict_badge(run.verdict),
        "verdict_title": verdict_title(run.verdict),
        "verdict_colour": verdict_colour(run.verdict),
        "confidence": run.confidence,
        "staleness": run.staleness_max,
        "staleness_text": format_count(run.staleness_max),
        "gpus": run.gpu_count,
        "gpus_text": ABSENT if run.gpu_count is None else str(run.gpu_count),
        "started_ms": run.started_ns // NS_PER_MS,
    }


def _open_words(run: RunSummary) -> str:
    stage = run.open_stage
    if stage is None:
        return ""
    words = "between stages" if stage.stage == "step" else stage_label(stage.stage)
    return words if stage.step is None else f"{stage.step}: {words}"


def _render_table(reading: RunsReading) -> tuple[object, ...]:
    colour = ROLES[reading.view.theme].accent
    rows = [
        _row(
            run,
            reading.histories.read(reading.service, run) if index < MAX_SPARKLINES else History(),
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


def panel_group(histories: Histories) -> PanelGroup[RunsReading]:
    """Return the panels of the page."""
    table = Panel[RunsReading](
        outputs=(
            ("runs-grid", "rowData"),
            ("runs-table", "style"),
            ("runs-counts", "children"),
            ("runs-empty", "children"),
        ),
        key=_key,
        render=_render_table,
    )
    return PanelGroup(
        name=GROUP,
        path=RUNS_PATH,
        read=lambda service, view: RunsReading(service, view, service.list_runs(), histories),
        panels=(table,),
    )


def register(app: Dash, reader: Reader) -> None:
    """Register the page's callbacks."""
    register_group(app, reader, panel_group(Histories()))
    app.clientside_callback(
        ClientsideFunction("longpole", "openRow"), Input("runs-grid", "cellClicked")
    )
    app.clientside_callback(
        ClientsideFunction("longpole", "searchRuns"), Input("runs-search", "value")
    )
