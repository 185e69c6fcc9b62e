"""Alerts: what fires and what it means, who looks after it, and why every rule is quiet."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from typing import Any

from dash import Dash, html
from dash.development.base_component import Component

from longpole_dashboards.addresses import ALERTS_PATH, Query
from longpole_dashboards.components.attributes import attributes
from longpole_dashboards.components.export import csv_button
from longpole_dashboards.components.panel import choice, panel
from longpole_dashboards.components.rules import RULE_HEAD
from longpole_dashboards.components.search import search_box
from longpole_dashboards.pages.alerts_actions import (
    action_dialog,
    action_stores,
    register_actions,
)
from longpole_dashboards.pages.alerts_panels import CHANNEL_HEAD, GROUP, PANELS, SILENCE_HEAD
from longpole_dashboards.pages.alerts_reading import RULE_STATES, STATES
from longpole_dashboards.pages.alerts_rule_form import register_rule_form, rule_dialog
from longpole_dashboards.reading import Reader
from longpole_dashboards.refresh import PanelGroup, group_stores, notice_slot, register_group
from longpole_dashboards.shell import register_choices

# control id -> (query name, default)
_CHOICES = {
    "alerts-state": ("state", STATES[0]),
    "alerts-rules-state": ("rules", RULE_STATES[0]),
    "alerts-search": ("q", ""),
}
_STATE_LABELS = (
    ("open", "firing and pending"),
    ("firing", "firing"),
    ("pending", "pending"),
    ("resolved", "over"),
)
_RULE_LABELS = (
    ("all", "all"),
    ("open", "firing and pending"),
    ("quiet", "quiet"),
    ("held_back", "held back"),
    ("not_judgeable", "nothing to judge"),
)
# In sight at first, and below.
FIRST_GROUPS = (PANELS,)
LATER_GROUPS: tuple[PanelGroup[Any], ...] = ()


def layout(query: Query) -> Component:
    """Return the page before its data is there."""
    return html.Div(
        [
            *group_stores(GROUP),
            *action_stores(),
            notice_slot(GROUP),
            html.Div(
                [
                    html.H1("Alerts"),
                    html.Div(id="alerts-counts", className="lp-counts"),
                    html.Div(className="lp-spring"),
                    search_box("alerts-search", "Rule, run, node, words …", query, "Search alerts"),
                    choice("alerts-state", _STATE_LABELS, query.text("state") or STATES[0]),
                ],
                className="lp-title-row",
            ),
            html.Div(
                [
                    html.Div(
                        id="alerts-cards", className="lp-column lp-wait", style={"--wait": "90px"}
                    ),
                    html.Div(
                        [
                            panel(
                                "Silences",
                                [_waiting("alerts-silences", 20), html.Div(id="alerts-said")],
                                hint="Of what is silenced nobody is told; it still fires.",
                                controls=(csv_button("alerts-silences", "silences", SILENCE_HEAD),),
                            ),
                            panel(
                                "Channels",
                                [_waiting("alerts-channels", 40), html.Div(id="alerts-tested")],
                                hint="Where people are told, and whether that works.",
                                controls=(
                                    csv_button("alerts-channels", "channels", CHANNEL_HEAD),
                                    html.Button(
                                        "Send a sample",
                                        id="alerts-test",
                                        className="lp-text-button",
                                    ),
                                ),
                            ),
                        ],
                        className="lp-column",
                    ),
                ],
                className="lp-row lp-row-alerts",
            ),
            panel(
                "History",
                html.Div(
                    id="alerts-history",
                    tabIndex=0,
                    role="region",
                    **attributes(aria_label="History"),
                    className="lp-scroll lp-history lp-wait",
                    style={"--wait": "60px"},
                ),
                hint="Each change of an alert, and whether people were told of it.",
                aside="newest first",
                controls=(csv_button("alerts-history", "alert history"),),
            ),
            panel(
                "Rules",
                _waiting("alerts-rules", 400),
                hint=(
                    "What each rule looks at, what it saw last, and why it is quiet. Held back: "
                    "not judged while a run warms up, or at a step with a validation or checkpoint."
                ),
                aside=html.Span(id="alerts-rules-aside"),
                controls=(
                    csv_button("alerts-rules", "alert rules", RULE_HEAD),
                    html.Button("New rule", id="alerts-rule-new", className="lp-text-button"),
                    choice(
                        "alerts-rules-state", _RULE_LABELS, query.text("rules") or RULE_STATES[0]
                    ),
                ),
            ),
            action_dialog(),
            rule_dialog(),
        ],
        className="lp-page lp-page-alerts",
    )


def _waiting(place: str, height_px: int) -> Component:
    return html.Div(id=place, className="lp-wait", style={"--wait": f"{height_px}px"})


def register(app: Dash, reader: Reader) -> None:
    """Register the page's callbacks."""
    register_group(app, reader, PANELS)
    register_choices(app, ALERTS_PATH, _CHOICES)
    register_actions(app, reader, (GROUP,))
    register_rule_form(app, reader)
