"""Rules as people read them: what each looks at, and why it is quiet."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

from collections.abc import Mapping

from dash import dcc, html
from dash.development.base_component import Component

from longpole_dashboards.addresses import run_address
from longpole_dashboards.components.alert_card import severity_mark
from longpole_dashboards.components.attributes import attributes
from longpole_dashboards.components.export import row_cells
from longpole_dashboards.components.panel import age
from longpole_dashboards.formats import NS_PER_MS, format_duration, format_value
from longpole_server.model.alert import HELD_BACK, RuleInput, RuleStatus

STATE_WORDS: Mapping[str, str] = {
    "firing": "firing",
    "pending": "pending",
    "quiet": "quiet",
    "held_back": "held back",
    "not_judgeable": "not judgeable",
}

# What a saved table of rules holds.
RULE_HEAD = ("rule", "title", "state", "severity", "fires when", "why")


def rule_state(rule: RuleStatus) -> str:
    """Return the most telling state of what a rule saw: of one that saw nothing, not judgeable.

    `held_back` is one that is quiet everywhere because it was not judged, whatever it saw.
    """
    return _input_state(rule.inputs[0]) if rule.inputs else "not_judgeable"


def _input_state(seen: RuleInput) -> str:
    return "held_back" if seen.is_held_back else seen.state


def rule_entry(rule: RuleStatus, names: Mapping[str, str]) -> Component:
    """Return a rule that opens to what it saw last."""
    state = rule_state(rule)
    return html.Details(
        [
            html.Summary(
                [
                    html.Span(
                        STATE_WORDS[state], className=f"lp-phase lp-phase-{state.replace('_', '-')}"
                    ),
                    html.B(rule.title),
                    html.Code(rule.rule_id),
                    html.Span(_why(rule), className="lp-rule-why"),
                ]
            ),
            html.Div([_about(rule), _inputs(rule, names)], className="lp-rule-body"),
        ],
        className="lp-rule",
        id=f"rule-{rule.rule_id.replace('.', '-')}",
        key=rule.rule_id,
        **row_cells(
            rule.rule_id,
            rule.title,
            STATE_WORDS[state],
            rule.severity,
            rule.condition,
            _why(rule),
        ),
    )


def _why(rule: RuleStatus) -> str:
    state = rule_state(rule)
    if state in ("firing", "pending"):
        verb = "fires on" if state == "firing" else "about to fire on"
        first = rule.inputs[0].entity.id
        others = sum(seen.state == state for seen in rule.inputs) - 1
        return f"{verb} {first}" + (f" and {others} more" if others else "")
    if rule.quiet_because is None:
        return ""
    because = rule.quiet_because.removeprefix("not judgeable: ").removeprefix(HELD_BACK)
    return f"quiet because {because}" if state == "quiet" else because


def _about(rule: RuleStatus) -> Component:
    lasting = [
        f"for {rule.for_steps} steps" if rule.for_steps > 1 else "",
        f"for {format_duration(rule.for_s)}" if rule.for_s else "",
    ]
    holds = " and ".join(text for text in lasting if text)
    levels = [
        f"fires at {format_value(rule.fire_threshold, rule.unit)}"
        if rule.fire_threshold is not None
        else "",
        f"clears at {format_value(rule.clear_threshold, rule.unit)}"
        if rule.clear_threshold is not None
        else "",
        f"quiet for {format_duration(rule.cooldown_s)} afterwards" if rule.cooldown_s else "",
        f"told again after {format_duration(rule.repeat_s)}" if rule.repeat_s else "",
    ]
    rows = [
        ("fires when", f"{rule.condition}{', ' + holds if holds else ''}"),
        ("thresholds", ", ".join(level for level in levels if level)),
        ("reads", ", ".join(rule.reads)),
        ("likely cause", rule.cause),
        ("look first at", rule.first_look),
    ]
    silence = html.Button(
        "Silence this rule …",
        className="lp-button",
        **attributes(
            data_act="silence", data_alert="", data_rule=rule.rule_id, data_run="",
            data_entity="", data_words=rule.title,
        ),
    )  # fmt: skip
    return html.Div(
        [
            html.Div(
                [
                    severity_mark(rule.severity),
                    html.Span(
                        "trend: not judged while a run warms up"
                        if rule.kind == "trend"
                        else "fault: always judged",
                        className="lp-fact",
                    ),
                    html.Span("" if rule.built_in else "made by a user", className="lp-fact"),
                    html.Span(className="lp-spring"),
                    None if rule.built_in else _edit_button(rule),
                    None if rule.built_in else _delete_button(rule),
                    silence,
                ],
                className="lp-alert-foot",
            ),
            html.Dl(
                [html.Div([html.Dt(name), html.Dd(text)]) for name, text in rows if text],
                className="lp-alert-advice",
            ),
        ]
    )


def _edit_button(rule: RuleStatus) -> Component:
    return html.Button(
        "Edit …",
        className="lp-button",
        title="Change this rule; what it fires on by now stays unless it asks for something else",
        **attributes(data_act="edit", data_rule=rule.rule_id),
    )


def _delete_button(rule: RuleStatus) -> Component:
    return html.Button(
        "Delete",
        className="lp-button",
        title="Delete this rule; its open alerts end",
        **attributes(data_act="delete", data_rule=rule.rule_id),
    )


def _inputs(rule: RuleStatus, names: Mapping[str, str]) -> Component:
    if not rule.inputs:
        return html.Div("It has not looked at anything yet.", className="lp-absent")
    entity = () if rule.entity_kind == "run" else (rule.entity_kind,)
    head = ("state", "run", *entity, "value", "threshold", "usual", "step", "seen", "why")
    more = rule.num_inputs - len(rule.inputs)
    return html.Div(
        [
            html.Table(
                [
                    html.Thead(html.Tr([html.Th(name) for name in head])),
                    html.Tbody([_input_row(seen, names, bool(entity)) for seen in rule.inputs]),
                ],
                className="lp-table lp-rows",
            ),
            html.Div(f"and {more} more", className="lp-absent") if more > 0 else None,
        ]
    )


def _input_row(seen: RuleInput, names: Mapping[str, str], has_entity: bool) -> Component:
    run: Component | str = "–"
    if seen.run_id is not None:
        name = names.get(seen.run_id, seen.run_id)
        run = dcc.Link(name, href=run_address(seen.run_id), className="lp-link")
    state = _input_state(seen)
    return html.Tr(
        [
            html.Td(
                html.Span(
                    STATE_WORDS[state], className=f"lp-phase lp-phase-{state.replace('_', '-')}"
                )
            ),
            html.Td(run),
            *([html.Td(seen.entity.id)] if has_entity else []),
            html.Td(format_value(seen.value, seen.unit), className="lp-strong"),
            html.Td(format_value(seen.threshold, seen.unit)),
            html.Td(format_value(seen.baseline, seen.unit)),
            html.Td("–" if seen.step is None else str(seen.step)),
            html.Td([age(seen.ts_ns // NS_PER_MS), " ago"]),
            html.Td(seen.quiet_because or "", className="lp-dim"),
        ]
    )
