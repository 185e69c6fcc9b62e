"""Cluster: every node and GPU now, which run holds it, and what wants a look."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import dash_mantine_components as dmc
from dash import ClientsideFunction, Dash, Input, html
from dash.development.base_component import Component

from longpole_dashboards.addresses import CLUSTER_PATH, Query
from longpole_dashboards.components.export import csv_button
from longpole_dashboards.components.minutes import SPAN, minutes_choice
from longpole_dashboards.components.panel import attributes, choice, graph, panel
from longpole_dashboards.components.search import search_box
from longpole_dashboards.figures.gpus import FIELD_LABELS, HEAT_FIELDS
from longpole_dashboards.pages import cluster_hardware
from longpole_dashboards.pages.cluster_panels import (
    GROUP,
    HEAT_GROUP,
    HEAT_PANELS,
    MAP_FIELDS,
    PANELS,
)
from longpole_dashboards.pages.cluster_reading import SPANS
from longpole_dashboards.pages.cluster_tables import gpus_grid, nodes_grid
from longpole_dashboards.reading import Reader
from longpole_dashboards.refresh import group_stores, notice_slot, register_group
from longpole_dashboards.shell import register_choices

# Utilisation first: it is what every GPU reports.
_FIELDS = HEAT_FIELDS[1:]
# control id -> (query name, default)
_CHOICES = {
    "cluster-map-field": ("map", MAP_FIELDS[0][0]),
    "cluster-field": ("field", _FIELDS[0]),
    "cluster-span": (SPAN, SPANS[0]),
    "cluster-search": ("q", ""),
}
# In sight at first, and below.
FIRST_GROUPS = (PANELS,)
LATER_GROUPS = (HEAT_PANELS, cluster_hardware.PANELS)


def layout(query: Query) -> Component:
    """Return the page before its data is there."""
    return html.Div(
        [
            *group_stores(GROUP),
            *group_stores(HEAT_GROUP),
            *group_stores(cluster_hardware.GROUP),
            notice_slot(GROUP),
            notice_slot(HEAT_GROUP),
            notice_slot(cluster_hardware.GROUP),
            html.Div(
                [
                    html.H1("Cluster"),
                    html.Div(className="lp-spring"),
                    search_box(
                        "cluster-search",
                        "Node, GPU, run, role, state …",
                        query,
                        "Search nodes and GPUs",
                    ),
                ],
                className="lp-title-row",
            ),
            html.Div(id="cluster-stats", style={"--wait": "76px"}, className="lp-wait lp-tiles"),
            panel(
                "Every GPU now",
                [html.Div(id="cluster-map-legend"), graph("cluster-map", 140)],
                hint="One cell a GPU, one strip a node. Outlined: nothing was measured.",
                aside="click a cell to see its node",
                controls=(
                    choice(
                        "cluster-map-field",
                        MAP_FIELDS,
                        query.text("map") or MAP_FIELDS[0][0],
                    ),
                ),
            ),
            panel(
                "Nodes",
                [
                    html.Div(nodes_grid(), id="cluster-nodes-table"),
                    html.Div(id="cluster-nodes-absent"),
                ],
                hint=("What each node's agent told last; GPU use is the mean of the last minute."),
                aside="click a row to see its GPUs",
                controls=(csv_button("cluster-nodes", "nodes"),),
            ),
            panel(
                "GPUs",
                html.Div(gpus_grid(), id="cluster-gpus-table"),
                hint="Each GPU's newest sample, and which run holds it by what knowledge.",
                aside=html.Div(id="cluster-gpus-aside", className="lp-asides"),
                controls=(csv_button("cluster-gpus", "gpus"),),
            ),
            cluster_hardware.gpu_panel(),
            cluster_hardware.stragglers_panel(),
            panel(
                "Over time",
                graph("cluster-heat", 160),
                hint="GPUs grouped by node and role. Empty cells: nothing was measured.",
                aside=html.Span(id="cluster-heat-aside"),
                controls=(
                    minutes_choice(
                        "cluster-span", [("10", "10 min"), ("60", "1 h"), ("360", "6 h")], query
                    ),
                    dmc.Select(
                        id="cluster-field",
                        data=[{"value": name, "label": FIELD_LABELS[name]} for name in _FIELDS],
                        value=query.text("field") or _FIELDS[0],
                        size="xs",
                        w=170,
                        allowDeselect=False,
                        **attributes(aria_label="GPU metric over time"),
                    ),
                ),
            ),
            cluster_hardware.processes_panel(),
            panel(
                "Store",
                html.Div(
                    id="cluster-storage",
                    tabIndex=0,
                    role="region",
                    **attributes(aria_label="Tables of the store"),
                ),
                hint="Rows on disk, compressed; replaced versions count until they are merged.",
                aside=html.Span(id="cluster-storage-aside"),
                controls=(csv_button("cluster-storage", "tables of the store"),),
            ),
        ],
        className="lp-page",
    )


def register(app: Dash, reader: Reader) -> None:
    """Register the page's callbacks."""
    register_group(app, reader, PANELS)
    register_group(app, reader, HEAT_PANELS)
    register_group(app, reader, cluster_hardware.PANELS)
    register_choices(app, CLUSTER_PATH, _CHOICES)

    def client(name: str, *wiring: Input) -> None:
        app.clientside_callback(ClientsideFunction("longpolePages", name), *wiring)

    for chart in ("cluster-heat", "cluster-gpu"):
        app.clientside_callback(
            f"event => window.longpoleCharts.zoomAll('time', {chart!r}, event)",
            Input(chart, "relayoutData"),
        )
    client("chooseNode", Input("cluster-map", "clickData"))
    client("chooseNodeRow", Input("cluster-nodes", "cellClicked"))
    app.clientside_callback(
        ClientsideFunction("longpoleHardware", "chooseGpuRow"),
        Input("cluster-gpus", "cellClicked"),
    )
