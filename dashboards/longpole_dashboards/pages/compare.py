"""Compare: two windows of steps, of two runs or of one, and what made one faster."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from typing import Any

import dash_mantine_components as dmc
from dash import Dash, html
from dash.development.base_component import Component

from longpole_dashboards.addresses import COMPARE_PATH, Query
from longpole_dashboards.components.export import csv_button
from longpole_dashboards.components.panel import attributes, graph, panel
from longpole_dashboards.glossary import DEFINITIONS
from longpole_dashboards.pages.compare_panels import GROUP, PANELS
from longpole_dashboards.reading import Reader
from longpole_dashboards.refresh import PanelGroup, group_stores, notice_slot, register_group
from longpole_dashboards.shell import register_choices

# control id -> (query name, default)
_CHOICES = {
    "compare-run": ("a", ""),
    "compare-with": ("b", ""),
    "compare-from": ("from", ""),
    "compare-to": ("to", ""),
    "compare-with-from": ("b_from", ""),
    "compare-with-to": ("b_to", ""),
}
_TYPING_MS = 600
# In sight at first, and below.
FIRST_GROUPS = (PANELS,)
LATER_GROUPS: tuple[PanelGroup[Any], ...] = ()


def layout(query: Query) -> Component:
    """Return the page before its data is there."""
    return html.Div(
        [
            *group_stores(GROUP),
            notice_slot(GROUP),
            html.Div(
                [html.H1("Compare"), html.Div(id="compare-presets", className="lp-presets")],
                className="lp-title-row",
            ),
            html.Div(
                [
                    _side("before", query, "compare-with", "the same run"),
                    _side("after", query, "compare-run", "choose a run"),
                ],
                className="lp-row lp-row-even",
            ),
            html.Div(id="compare-headline", className="lp-wait", style={"--wait": "90px"}),
            html.Div(
                [
                    panel(
                        "What made the difference",
                        graph("compare-waterfall", 300),
                        hint=DEFINITIONS["decomposition"],
                        aside="each bar begins where the one above it ends",
                    ),
                    html.Div(
                        [
                            panel(
                                "Part by part",
                                html.Div(
                                    id="compare-table",
                                    className="lp-wait",
                                    style={"--wait": "300px"},
                                ),
                                hint=(f"{DEFINITIONS['loop_throughput']} Means of one step each."),
                                controls=(csv_button("compare-table", "comparison"),),
                            ),
                            panel(
                                "Samples",
                                graph("compare-spread", 240),
                                hint=(
                                    "Training samples of both windows: median, 90 %, 99 % and "
                                    "the longest."
                                ),
                                aside="● median  ◆ 90 %  ◇ 99 %  | longest",
                            ),
                        ],
                        className="lp-row lp-row-even",
                    ),
                    panel(
                        "Configuration",
                        html.Div(id="compare-config"),
                        hint="Settings that both runs reported differently, or only one of them.",
                        aside=html.Span(id="compare-config-aside"),
                        controls=(csv_button("compare-config", "config differences"),),
                    ),
                ],
                id="compare-body",
                className="lp-column",
                style={"display": "none"},
            ),
        ],
        className="lp-page",
    )


def _side(side: str, query: Query, control: str, placeholder: str) -> Component:
    prefix = "compare-with" if side == "before" else "compare"
    bounds = [
        dmc.TextInput(
            id=f"{prefix}-{bound}",
            value=query.text(_CHOICES[f"{prefix}-{bound}"][0]) or "",
            placeholder=word,
            size="xs",
            w=74,
            debounce=_TYPING_MS,
            **attributes(aria_label=f"{word} of the window {side}"),
        )
        for bound, word in (("from", "first step"), ("to", "last step"))
    ]
    return html.Section(
        [
            html.Div(
                [
                    html.Span(side, className="lp-side-label"),
                    dmc.Select(
                        id=control,
                        data=[],
                        value=query.text(_CHOICES[control][0]),
                        placeholder=placeholder,
                        searchable=True,
                        nothingFoundMessage="no such run",
                        size="xs",
                        w=270,
                        allowDeselect=False,
                        **attributes(aria_label=f"Run {side}"),
                    ),
                    html.Span("steps", className="lp-dim"),
                    bounds[0],
                    html.Span("to", className="lp-dim"),
                    bounds[1],
                ],
                className="lp-side-choice",
            ),
            html.Div(id=f"compare-{side}"),
        ],
        className=f"lp-panel lp-side-{side}",
    )


def register(app: Dash, reader: Reader) -> None:
    """Register the page's callbacks."""
    register_group(app, reader, PANELS)
    register_choices(app, COMPARE_PATH, _CHOICES)
