"""The dialog in which people make a rule of their own, and try it on a run before they save it."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Mapping, Sequence
from typing import Any

import dash_mantine_components as dmc
from dash import Dash, Input, Output, State, ctx, dcc, html, no_update
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from longpole.conventions.metrics import METRICS
from longpole_dashboards.components.attributes import attributes
from longpole_dashboards.components.dialog import dialog
from longpole_dashboards.components.notice import absent
from longpole_dashboards.formats import format_value
from longpole_dashboards.reading import Reader
from longpole_server.errors import ServerError
from longpole_server.model.alert import STEP_FIGURES, Alert, RuleStatus

_SIDES = (("above", "above"), ("below", "below"))
_SEVERITIES = (("info", "info"), ("warning", "warning"), ("critical", "critical"))
_SHOWN_FIRINGS = 6
_MAX_RUNS = 200
_OPEN = """
(made, cancelled, done) => {
  const by = window.dash_clientside.callback_context.triggered_id;
  const same = window.dash_clientside.no_update;
  if (!by) return [same, same, same];
  const isNew = by === "alerts-rule-new";
  return [isNew, "", isNew ? null : same];
}
"""


def rule_dialog() -> Component:
    """Return the dialog."""
    fields = [
        dmc.Autocomplete(
            id="alerts-rule-metric",
            label="Metric",
            description="as the trainer logs it, or one that every trainer has",
            data=list(dict.fromkeys([*METRICS, *STEP_FIGURES])),
            limit=12,
            size="xs",
            **attributes(data_autofocus=""),
        ),
        html.Div(
            [
                _pick("alerts-rule-side", _SIDES, "above"),
                dmc.NumberInput(id="alerts-rule-threshold", placeholder="limit", size="xs", w=120),
                html.Span("for", className="lp-dim"),
                dmc.NumberInput(id="alerts-rule-steps", value=3, min=1, max=1_000, size="xs", w=80),
                html.Span("steps", className="lp-dim"),
            ],
            className="lp-duration",
        ),
        html.Div(
            [
                html.Span("is over at", className="lp-dim"),
                dmc.NumberInput(
                    id="alerts-rule-clear", placeholder="the same limit", size="xs", w=160
                ),
            ],
            className="lp-duration",
        ),
        html.Div(
            [
                html.Span("is", className="lp-dim"),
                _pick("alerts-rule-severity", _SEVERITIES, "warning"),
            ],
            className="lp-duration",
        ),
        dmc.TextInput(id="alerts-rule-title", label="Name", placeholder="optional", size="xs"),
        dmc.TextInput(
            id="alerts-rule-runs",
            label="Runs",
            placeholder="all, or a pattern such as team/*",
            size="xs",
        ),
        html.Div(
            [
                dmc.Select(
                    id="alerts-rule-run",
                    label="Try it on",
                    placeholder="a run of the past",
                    data=[],
                    searchable=True,
                    size="xs",
                    className="lp-grow",
                ),
                html.Button("Try", id="alerts-rule-try", className="lp-button"),
            ],
            className="lp-try",
        ),
        html.Div(id="alerts-rule-tried", className="lp-dim"),
        # The id of the rule that is changed, none for a new one.
        dcc.Store(id="alerts-rule-editing"),
    ]
    return dialog("alerts-rule", "A rule of your own", fields, submit=("alerts-rule-save", "Save"))


def _pick(name: str, choices: Sequence[tuple[str, str]], value: str) -> Component:
    return dmc.SegmentedControl(
        id=name,
        data=[{"value": each, "label": label} for each, label in choices],
        value=value,
        size="xs",
        className="lp-choice",
    )


def make_document(
    metric: str | None,
    side: str,
    threshold: object,
    steps: object,
    severity: str,
    title: str | None,
    runs: str | None,
    clear: object = None,
) -> dict[str, object]:
    """Return the document of a rule as the API takes it."""
    document: dict[str, object] = {
        "metric": (metric or "").strip(),
        "comparison": side,
        "threshold": threshold if isinstance(threshold, int | float) else None,
        "for_steps": steps,
        "severity": severity,
        "title": (title or "").strip() or None,
        "run": (runs or "").strip() or None,
        "clear_threshold": clear if isinstance(clear, int | float) else None,
    }
    return {name: value for name, value in document.items() if value is not None}


def fill_form(rule: RuleStatus) -> tuple[object, ...]:
    """Return what the dialog's fields hold for a rule that is to be changed, as in `_FIELDS`."""
    return (
        rule.metric,
        rule.comparison,
        rule.fire_threshold,
        rule.for_steps,
        rule.severity,
        rule.title,
        rule.run or "",
        # The same limit moves with the other one.
        "" if rule.clear_threshold == rule.fire_threshold else rule.clear_threshold,
    )


def describe_trial(alerts: Sequence[Alert], run: str) -> Component:
    """Say when a rule would have fired."""
    own = sorted(
        (
            alert
            for alert in alerts
            if alert.rule.startswith("user.") and alert.fired_ns is not None
        ),
        key=lambda alert: alert.started_ns,
    )
    if not own:
        return absent(f"It would not have fired in {run}.")
    shown = [
        f"step {alert.first_step} ({format_value(alert.value, alert.unit)})"
        for alert in own[:_SHOWN_FIRINGS]
    ]
    more = f" and {len(own) - _SHOWN_FIRINGS} more times" if len(own) > _SHOWN_FIRINGS else ""
    times = "once" if len(own) == 1 else f"{len(own)} times"
    return html.Div(f"It would have fired {times} in {run}: {', '.join(shown)}{more}.")


_FIELDS = (
    State("alerts-rule-metric", "value"),
    State("alerts-rule-side", "value"),
    State("alerts-rule-threshold", "value"),
    State("alerts-rule-steps", "value"),
    State("alerts-rule-severity", "value"),
    State("alerts-rule-title", "value"),
    State("alerts-rule-runs", "value"),
    State("alerts-rule-clear", "value"),
)


def register_rule_form(app: Dash, reader: Reader) -> None:
    """Register what the dialog does."""
    app.clientside_callback(
        _OPEN,
        Output("alerts-rule-dialog", "opened"),
        Output("alerts-rule-refused", "children"),
        Output("alerts-rule-editing", "data"),
        Input("alerts-rule-new", "n_clicks"),
        Input("alerts-rule-cancel", "n_clicks"),
        Input("alerts-done", "data"),
        prevent_initial_call=True,
    )
    _register_edit(app, reader)
    _register_runs(app, reader)
    _register_trial(app, reader)
    _register_save(app, reader)


def _register_edit(app: Dash, reader: Reader) -> None:
    @app.callback(
        *(
            Output(each.component_id, each.component_property, allow_duplicate=True)
            for each in _FIELDS
        ),
        Output("alerts-rule-dialog", "opened", allow_duplicate=True),
        Output("alerts-rule-editing", "data", allow_duplicate=True),
        Input("alerts-ask", "data"),
        prevent_initial_call=True,
    )
    async def edit(ask: Mapping[str, Any] | None) -> tuple[object, ...]:
        if not ask or ask.get("act") != "edit":
            raise PreventUpdate
        rules = await reader.run(reader.service.alerts.list_rules)
        rule = next((each for each in rules if each.rule_id == ask.get("rule")), None)
        if rule is None:
            raise PreventUpdate
        return (*fill_form(rule), True, rule.rule_id)


def _register_runs(app: Dash, reader: Reader) -> None:
    @app.callback(
        Output("alerts-rule-run", "data"),
        Output("alerts-rule-run", "value"),
        Input("alerts-rule-dialog", "opened"),
        State("alerts-rule-run", "value"),
        prevent_initial_call=True,
    )
    async def list_runs(opened: bool | None, chosen: str | None) -> tuple[object, object]:
        if not opened:
            raise PreventUpdate
        runs = await reader.run(reader.service.list_runs)
        data = [{"value": run.run_id, "label": run.name} for run in runs[:_MAX_RUNS]]
        return data, chosen or (data[0]["value"] if data else None)


def _register_trial(app: Dash, reader: Reader) -> None:
    @app.callback(
        Output("alerts-rule-tried", "children"),
        Output("alerts-rule-refused", "children", allow_duplicate=True),
        Input("alerts-rule-try", "n_clicks"),
        Input("alerts-rule-dialog", "opened"),
        State("alerts-rule-run", "value"),
        *_FIELDS,
        running=[(Output("alerts-rule-try", "disabled"), True, False)],
        prevent_initial_call=True,
    )
    async def try_out(
        clicks: int | None, _opened: bool | None, run: str | None, *fields: object
    ) -> tuple[object, object]:
        if ctx.triggered_id != "alerts-rule-try":
            return "", no_update
        if not clicks or not run:
            return "", "Choose a run to try it on."
        try:
            found = await reader.run(
                reader.service.alerts.replay,
                run,
                make_document(*fields),  # type: ignore[arg-type] - checked within
            )
        except ServerError as error:
            return "", f"{error.message} {error.hint}".strip()
        return describe_trial(found, run), ""


def _register_save(app: Dash, reader: Reader) -> None:
    async def _complete(document: dict[str, object], editing: str | None) -> dict[str, object]:
        """Add what the form does not ask for and the rule has."""
        rules = await reader.run(reader.service.alerts.list_rules) if editing else ()
        cooldown_s = next((each.cooldown_s for each in rules if each.rule_id == editing), None)
        return document if cooldown_s is None else {**document, "cooldown_s": cooldown_s}

    @app.callback(
        Output("alerts-done", "data", allow_duplicate=True),
        Output("alerts-rule-refused", "children", allow_duplicate=True),
        Input("alerts-rule-save", "n_clicks"),
        State("alerts-rule-editing", "data"),
        *_FIELDS,
        prevent_initial_call=True,
    )
    async def save(
        clicks: int | None, editing: str | None, *fields: object
    ) -> tuple[object, object]:
        if not clicks:
            raise PreventUpdate
        try:
            await reader.act(
                reader.service.alerts.save_rule,
                await _complete(make_document(*fields), editing),  # type: ignore[arg-type] - checked within
                editing,
            )
        except ServerError as error:
            return no_update, f"{error.message} {error.hint}".strip()
        return {"rule": clicks}, ""
