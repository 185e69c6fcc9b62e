"""What people do on the alerts page: acknowledge, silence, lift, and send a sample."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import dash_mantine_components as dmc
from dash import ClientsideFunction, Dash, Input, Output, State, dcc, html, no_update
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from longpole_dashboards.components.attributes import attributes
from longpole_dashboards.components.dialog import dialog
from longpole_dashboards.components.notice import absent
from longpole_dashboards.reading import Reader
from longpole_server.errors import ServerError
from longpole_server.service import ChannelTest

DURATIONS = (
    ("3600", "1 h"),
    ("14400", "4 h"),
    ("43200", "12 h"),
    ("86400", "1 d"),
    ("604800", "7 d"),
)
# What a silence is for, as (value, words).
SCOPES = (
    ("here", "this alert only"),
    ("run", "this rule in this run"),
    ("rule", "this rule everywhere"),
    ("entity", "everything about this one"),
)


def action_stores() -> list[Component]:
    """Return the stores that the actions need."""
    return [dcc.Store(id="alerts-ask"), dcc.Store(id="alerts-done")]


def action_dialog() -> Component:
    """Return the dialog that asks who acts, and for how long."""
    silence_only = html.Div(
        [
            dmc.RadioGroup(
                id="alerts-scope",
                label="Silence",
                value=SCOPES[0][0],
                size="xs",
                children=dmc.Stack(
                    [
                        dmc.Radio(label=words, value=name, size="xs", id=f"alerts-scope-{name}")
                        for name, words in SCOPES
                    ],
                    gap=6,
                ),
            ),
            html.Div(
                [
                    html.Span("for", className="lp-dim"),
                    dmc.SegmentedControl(
                        id="alerts-duration",
                        data=[{"value": value, "label": label} for value, label in DURATIONS],
                        value=DURATIONS[0][0],
                        size="xs",
                        className="lp-choice",
                    ),
                    html.Span(id="alerts-until", className="lp-dim"),
                ],
                className="lp-duration",
            ),
        ],
        id="alerts-silence-only",
    )
    fields = [
        html.P(id="alerts-about", className="lp-dialog-about"),
        silence_only,
        dmc.TextInput(
            id="alerts-author",
            label="Your name",
            size="xs",
            persistence="longpole",
            persistence_type="local",
            **attributes(data_autofocus=""),
        ),
        dmc.TextInput(
            id="alerts-comment",
            label="What you are doing about it",
            placeholder="optional",
            size="xs",
        ),
    ]
    return dialog("alerts", "Acknowledge", fields, submit=("alerts-submit", "Acknowledge"))


def make_silence(
    ask: Mapping[str, Any], scope: str, duration_s: int, author: str, comment: str
) -> dict[str, object]:
    """Return the document of a silence: of what was asked about, as wide as `scope` says."""
    rule, run_id, entity = (ask.get(name) or None for name in ("rule", "run", "entity"))
    # What belongs to a run as a whole is told apart by the run.
    if entity == run_id:
        entity = None
    wanted = {
        "here": {"rule": rule, "run_id": run_id, "entity": entity},
        "run": {"rule": rule, "run_id": run_id},
        "rule": {"rule": rule},
        "entity": {"run_id": run_id, "entity": entity},
    }[scope]
    known: dict[str, object] = {name: value for name, value in wanted.items() if value is not None}
    return known | {"author": author, "comment": comment or None, "duration_s": duration_s}


def register_actions(app: Dash, reader: Reader, groups: Sequence[str]) -> None:
    """Register what the buttons do; afterwards `groups` of panels are brought up to date."""

    def client(name: str, *wiring: Output | Input | State) -> None:
        app.clientside_callback(ClientsideFunction("longpolePages", name), *wiring)

    client(
        "openDialog",
        Output("alerts-dialog", "opened"),
        Output("alerts-dialog", "title"),
        Output("alerts-about", "children"),
        Output("alerts-silence-only", "style"),
        Output("alerts-submit", "children"),
        Output("alerts-scope", "value"),
        Output("alerts-refused", "children"),
        Output("alerts-comment", "value"),
        Input("alerts-ask", "data"),
        Input("alerts-cancel", "n_clicks"),
        Input("alerts-done", "data"),
    )
    client("sayUntil", Output("alerts-until", "children"), Input("alerts-duration", "value"))
    app.clientside_callback(
        f"done => window.longpolePages.nudge({list(groups)!r}, done)",
        Input("alerts-done", "data"),
    )
    _register_submit(app, reader)
    _register_undo(app, reader)
    _register_test(app, reader)


def _register_submit(app: Dash, reader: Reader) -> None:
    alerts = reader.service.alerts

    @app.callback(
        Output("alerts-done", "data"),
        Output("alerts-refused", "children", allow_duplicate=True),
        Input("alerts-submit", "n_clicks"),
        State("alerts-ask", "data"),
        State("alerts-author", "value"),
        State("alerts-comment", "value"),
        State("alerts-scope", "value"),
        State("alerts-duration", "value"),
        prevent_initial_call=True,
    )
    async def submit(
        clicks: int | None,
        ask: Mapping[str, Any] | None,
        author: str | None,
        comment: str | None,
        scope: str,
        duration_s: str,
    ) -> tuple[object, object]:
        if not clicks or not ask:
            raise PreventUpdate
        name = (author or "").strip()
        if not name:
            return no_update, "Say who you are: the others see it."
        try:
            if ask["act"] == "acknowledge":
                await reader.act(alerts.acknowledge, str(ask["alert"]), name, comment or "")
            else:
                document = make_silence(ask, scope, int(duration_s), name, comment or "")
                await reader.act(alerts.add_silence, document)
        except ServerError as error:
            return no_update, f"{error.message} {error.hint}".strip()
        return {"click": clicks, "at": ask.get("at")}, ""


def _register_undo(app: Dash, reader: Reader) -> None:
    alerts = reader.service.alerts

    @app.callback(
        Output("alerts-done", "data", allow_duplicate=True),
        Output("alerts-said", "children"),
        Input("alerts-ask", "data"),
        prevent_initial_call=True,
    )
    async def undo(ask: Mapping[str, Any] | None) -> tuple[object, object]:
        """Lift a silence, or delete a rule that somebody made."""
        if not ask or ask.get("act") not in ("lift", "delete"):
            raise PreventUpdate
        try:
            if ask["act"] == "lift":
                await reader.act(alerts.lift_silence, str(ask["silence"]))
            else:
                await reader.act(alerts.delete_rule, str(ask["rule"]))
        except ServerError as error:
            return {"undone": ask.get("at")}, absent(f"{error.message} {error.hint}".strip())
        return {"undone": ask.get("at")}, None


def _register_test(app: Dash, reader: Reader) -> None:
    @app.callback(
        Output("alerts-tested", "children"),
        Input("alerts-test", "n_clicks"),
        running=[(Output("alerts-test", "disabled"), True, False)],
        prevent_initial_call=True,
    )
    async def test(clicks: int | None) -> object:
        if not clicks:
            raise PreventUpdate
        # Channels answer as slowly as they like: no reader's thread waits for them.
        try:
            answers = await asyncio.to_thread(reader.service.alerts.test_channels)
        except ServerError as error:
            return absent(error.message)
        return [_answer(answer) for answer in answers]


def _answer(answer: ChannelTest) -> Component:
    words = "took the sample" if answer.error is None else f"refused it: {answer.error}"
    tone = "lp-channel-fine" if answer.error is None else "lp-channel-error"
    return html.Div(f"{answer.channel} {words}", className=tone)
