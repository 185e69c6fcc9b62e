"""Step: the resource timeline of one step, its samples, and what held it up."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import dash_ag_grid as dag
import dash_mantine_components as dmc
from dash import ClientsideFunction, Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component

from longpole_dashboards.addresses import STEP_PATH, Query
from longpole_dashboards.components.export import csv_button
from longpole_dashboards.components.panel import attributes, choice, graph, panel
from longpole_dashboards.figures.gpus import FIELD_LABELS, HEAT_FIELDS
from longpole_dashboards.figures.samples import SAMPLE_FIELDS
from longpole_dashboards.glossary import DEFINITIONS
from longpole_dashboards.pages import step_hardware
from longpole_dashboards.pages.gpu_heat import ALL_LANES
from longpole_dashboards.pages.sample_panels import GROUP as SAMPLE_GROUP
from longpole_dashboards.pages.sample_panels import PANELS as SAMPLE_PANELS
from longpole_dashboards.pages.step_panels import GROUP, HEAD_GROUP, HEAD_PANELS, PANELS
from longpole_dashboards.reading import Reader
from longpole_dashboards.refresh import group_stores, notice_slot, register_group
from longpole_dashboards.shell import register_choices

_CHOICES = {
    "step-field": ("field", HEAT_FIELDS[0]),
    "step-spread": ("spread", SAMPLE_FIELDS[0]),
    "step-only": ("only", ALL_LANES),
    "step-search": ("q", ""),
}
# In sight at first, and below.
FIRST_GROUPS = (HEAD_PANELS, PANELS, SAMPLE_PANELS)
LATER_GROUPS = (step_hardware.PANELS,)


def layout(query: Query) -> Component:
    """Return the page before its data is there."""
    return html.Div(
        [
            *group_stores(HEAD_GROUP),
            *group_stores(GROUP),
            *group_stores(SAMPLE_GROUP),
            notice_slot(HEAD_GROUP),
            *group_stores(step_hardware.GROUP),
            notice_slot(GROUP),
            notice_slot(step_hardware.GROUP),
            html.Div(id="step-title", style={"--wait": "30px"}, className="lp-wait lp-run-title"),
            html.Div(
                [
                    html.Div(id="step-verdict", className="lp-wait", style={"--wait": "210px"}),
                    _ledger(),
                ],
                className="lp-row lp-hero lp-hero-step",
            ),
            _timeline(query),
            html.Div([_samples(query), _spread(query)], className="lp-row lp-row-wide"),
            step_hardware.hardware_row(),
            _sample_drawer(),
        ],
        className="lp-page",
    )


def _ledger() -> Component:
    return panel(
        "Where the seconds went",
        graph("step-ledger", 210),
        hint=f"{DEFINITIONS['share']} The mark is what is usual in this run.",
        aside="mark: usual",
    )


def _timeline(query: Query) -> Component:
    return panel(
        "Timeline",
        [graph("step-timeline", 420), html.Div(id="step-absent")],
        hint="Everything that happened in this step, on one axis of seconds from its start.",
        aside="drag to zoom, double-click for all of it, click a sample to open it",
        controls=(
            dmc.Select(
                id="step-only",
                data=[{"value": ALL_LANES, "label": "all GPUs"}],
                value=query.text("only") or ALL_LANES,
                searchable=True,
                size="xs",
                w=150,
                allowDeselect=False,
                **attributes(aria_label="Which GPUs or replica"),
            ),
            dmc.Select(
                id="step-field",
                data=[{"value": name, "label": FIELD_LABELS[name]} for name in HEAT_FIELDS],
                value=query.text("field") or HEAT_FIELDS[0],
                size="xs",
                w=170,
                allowDeselect=False,
                **attributes(aria_label="GPU metric"),
            ),
        ),
    )


def _samples(query: Query) -> Component:
    number = {"type": "rightAligned"}
    grid = dag.AgGrid(
        id="step-samples",
        columnDefs=[
            {"field": "id", "headerName": "Sample", "width": 128, "cellRenderer": "LongpoleSample"},
            {"field": "duration", "headerName": "Time", "width": 70, "cellRenderer": "LongpoleText"}
            | number,
            {
                "field": "parts",
                "headerName": "Generate, tool, score, queue",
                "cellRenderer": "LongpoleParts",
                "cellDataType": False,
                "sortable": False,
                "flex": 1,
                "minWidth": 120,
            },
            {
                "field": "tokens",
                "headerName": "Tokens out",
                "width": 90,
                "cellRenderer": "LongpoleText",
            }
            | number,
            {"field": "turns", "width": 60, "cellRenderer": "LongpoleText"} | number,
            {"field": "tool", "headerName": "Tool", "width": 68, "cellRenderer": "LongpoleText"}
            | number,
            {"field": "reward", "width": 70, "cellRenderer": "LongpoleText"} | number,
            {"field": "status", "width": 88},
            {"field": "replica", "width": 86},
        ],
        rowData=None,
        getRowId="params.data.id",
        defaultColDef={"sortable": True, "resizable": True, "suppressHeaderMenuButton": True},
        dashGridOptions={
            "theme": {"function": "longpoleGridTheme(agGrid)"},
            "rowHeight": 26,
            "headerHeight": 28,
            "animateRows": False,
            "suppressNoRowsOverlay": True,
            "rowClassRules": {"lp-row-selected": "params.data.selected"},
        },
        className="lp-grid",
        style={"height": "100%"},
    )
    return panel(
        "Slowest samples",
        [
            html.Div(grid, id="step-samples-table", className="lp-samples-table"),
            html.Div(id="step-samples-absent"),
        ],
        hint="Samples of this step by the seconds from their start to their end.",
        aside="click a row to see where its time went",
        controls=(
            dmc.TextInput(
                id="step-search",
                value=query.text("q") or "",
                placeholder="Id, group, status, replica …",
                size="xs",
                w=190,
                debounce=250,
                **attributes(aria_label="Search samples"),
            ),
            csv_button("step-samples", "slowest samples"),
        ),
        class_name="lp-samples-panel",
    )


def _spread(query: Query) -> Component:
    return panel(
        "Spread",
        [graph("step-spread-figure", 190), html.Div(id="step-partial")],
        hint="Shaded: the slowest 5 %.",
        controls=(
            choice(
                "step-spread",
                [(name, name) for name in SAMPLE_FIELDS],
                query.text("spread") or SAMPLE_FIELDS[0],
            ),
        ),
    )


def _sample_drawer() -> Component:
    return dmc.Drawer(
        [
            notice_slot(SAMPLE_GROUP),
            dcc.Link("Open its page", href="", id="sample-open", className="lp-link"),
            html.Div(id="sample-body"),
        ],
        id="sample-drawer",
        title="Sample",
        position="right",
        size="520px",
        withOverlay=False,
        lockScroll=False,
        trapFocus=False,
        closeOnEscape=True,
        closeOnClickOutside=False,
    )


def register(app: Dash, reader: Reader) -> None:
    """Register the page's callbacks."""
    register_group(app, reader, HEAD_PANELS)
    register_group(app, reader, PANELS)
    register_group(app, reader, SAMPLE_PANELS)
    register_group(app, reader, step_hardware.PANELS)
    register_choices(app, STEP_PATH, _CHOICES)

    def client(name: str, *wiring: Output | Input | State) -> None:
        app.clientside_callback(ClientsideFunction("longpole", name), *wiring)

    client("openSample", Input("step-samples", "cellClicked"))
    app.clientside_callback(
        "event => window.longpoleCharts.zoomStep('step-timeline', event)",
        Input("step-timeline", "relayoutData"),
    )
    client("openSampleBar", Input("step-timeline", "clickData"))
    client("sampleOpened", Output("sample-drawer", "opened"), Input("url", "search"))
    client("closeSample", Input("sample-drawer", "opened"))
    app.clientside_callback(
        ClientsideFunction("longpolePages", "sampleLink"),
        Output("sample-open", "href"),
        Input("url", "search"),
    )
