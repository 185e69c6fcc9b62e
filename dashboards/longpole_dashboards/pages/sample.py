"""Sample: where the time of one sample went, turn by turn, beside its group."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from typing import Any

from dash import ClientsideFunction, Dash, Input, html
from dash.development.base_component import Component

from longpole_dashboards.addresses import Query
from longpole_dashboards.components.attributes import attributes
from longpole_dashboards.components.export import csv_button
from longpole_dashboards.components.panel import graph, legend, panel
from longpole_dashboards.glossary import DEFINITIONS
from longpole_dashboards.pages.sample_page_panels import GROUP, PANELS
from longpole_dashboards.reading import Reader
from longpole_dashboards.refresh import PanelGroup, group_stores, notice_slot, register_group
from longpole_dashboards.theme import ENGINE_PART_COLOURS, PART_COLOURS

# In sight at first, and below.
FIRST_GROUPS = (PANELS,)
LATER_GROUPS: tuple[PanelGroup[Any], ...] = ()


def layout(_query: Query) -> Component:
    """Return the page before its data is there."""
    return html.Div(
        [
            *group_stores(GROUP),
            notice_slot(GROUP),
            html.Div(
                id="samplepage-title", style={"--wait": "30px"}, className="lp-wait lp-run-title"
            ),
            html.Div(
                [
                    html.Div(
                        id="samplepage-summary", className="lp-wait", style={"--wait": "210px"}
                    ),
                    panel(
                        "Facts",
                        html.Div(
                            id="samplepage-facts", className="lp-wait", style={"--wait": "160px"}
                        ),
                        hint="What the sample itself reported. –: nobody reported it.",
                        controls=(csv_button("samplepage-facts", "sample facts"),),
                    ),
                ],
                className="lp-row lp-hero lp-hero-sample",
            ),
            panel(
                "Turn by turn, beside its group",
                [
                    legend(
                        [
                            (kind, colour, "")
                            for kind, colour in {**PART_COLOURS, **ENGINE_PART_COLOURS}.items()
                        ]
                    ),
                    graph("samplepage-lanes", 360),
                    html.Div(id="samplepage-absent"),
                ],
                hint=DEFINITIONS["siblings"],
                aside="drag to zoom, click a bar of the group to open that sample",
            ),
            html.Div(
                [
                    panel(
                        "Parts",
                        html.Div(
                            id="samplepage-parts",
                            tabIndex=0,
                            role="region",
                            **attributes(aria_label="Parts"),
                            className="lp-scroll",
                        ),
                        hint=(
                            "Seconds of generating, tools, scoring and waiting. What an engine "
                            "tells of its requests lies within generating."
                        ),
                        controls=(csv_button("samplepage-parts", "sample parts"),),
                    ),
                    panel(
                        "Group",
                        html.Div(
                            id="samplepage-siblings",
                            tabIndex=0,
                            role="region",
                            **attributes(aria_label="Group"),
                            style={"--wait": "260px"},
                            className="lp-wait lp-scroll",
                        ),
                        hint=DEFINITIONS["siblings"],
                        controls=(csv_button("samplepage-siblings", "sample group"),),
                    ),
                ],
                className="lp-row lp-row-even",
            ),
        ],
        className="lp-page",
    )


def register(app: Dash, reader: Reader) -> None:
    """Register the page's callbacks."""
    register_group(app, reader, PANELS)
    app.clientside_callback(
        ClientsideFunction("longpolePages", "openSibling"), Input("samplepage-lanes", "clickData")
    )
