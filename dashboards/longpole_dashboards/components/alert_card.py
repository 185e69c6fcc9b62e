"""Alerts as people read them: what is wrong, how far beyond its threshold, what to look at."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

from collections.abc import Sequence

from dash import dcc, html
from dash.development.base_component import Component

from longpole_dashboards.addresses import alerts_address, cluster_address
from longpole_dashboards.components.attributes import attributes
from longpole_dashboards.components.panel import age
from longpole_dashboards.formats import NS_PER_MS, NS_PER_S, Zone, format_duration, format_value
from longpole_server.model.alert import Alert, Silence

# Of those that an alert line stands for beside the newest.
_MAX_NAMED = 3
SEVERITY_SIGNS = {"critical": "▲", "warning": "◆", "info": "●"}


def severity_mark(severity: str) -> Component:
    """Return a severity as a sign and a word: told apart by shape as well as by colour."""
    return html.Span(
        [html.I(SEVERITY_SIGNS.get(severity, "●")), severity],
        className=f"lp-severity lp-severity-{severity}",
    )


def alert_card(alert: Alert, title: str, silence: Silence | None, zone: Zone) -> Component:
    """Return an alert; `title` is its rule's, `silence` the one that covers it."""
    return html.Article(
        [
            html.Div(
                [
                    severity_mark(alert.severity),
                    html.Span(title, className="lp-alert-rule"),
                    *_timing(alert, zone),
                    html.Span(className="lp-spring"),
                    html.Code(alert.rule),
                ],
                className="lp-alert-head",
            ),
            html.H3(alert.summary),
            html.Div([_numbers(alert), _advice(alert)], className="lp-alert-body"),
            html.Div(
                [
                    *_places(alert),
                    *_care(alert, silence, zone),
                    html.Span(className="lp-spring"),
                    *_buttons(alert, silence),
                ],
                className="lp-alert-foot",
            ),
        ],
        className=f"lp-panel lp-alert lp-alert-{alert.severity} lp-alert-{alert.state}",
        id=f"alert-{alert.alert_id}",
    )


def _timing(alert: Alert, zone: Zone) -> list[Component]:
    if alert.state == "resolved" and alert.resolved_ns is not None:
        lasted_s = (alert.resolved_ns - alert.started_ns) / NS_PER_S
        return [
            html.Span("over", className="lp-phase lp-phase-resolved"),
            html.Span(
                f"since {zone.format_moment(alert.resolved_ns)}, "
                f"lasted {format_duration(lasted_s)}",
                className="lp-fact",
            ),
        ]
    since_ns = alert.fired_ns if alert.fired_ns is not None else alert.started_ns
    seen = [html.Span(f"seen {alert.count} times", className="lp-fact")] if alert.count > 1 else []
    return [
        html.Span(alert.state, className=f"lp-phase lp-phase-{alert.state}"),
        html.Span(["for ", age(since_ns // NS_PER_MS)], className="lp-fact"),
        *seen,
    ]


def _numbers(alert: Alert) -> Component:
    shown = [
        ("value", alert.value, "lp-alert-value"),
        ("threshold", alert.threshold, ""),
        ("usual", alert.baseline, ""),
    ]
    cells = [
        html.Div([html.Dt(name), html.Dd(format_value(value, alert.unit))], className=class_name)
        for name, value, class_name in shown
        if value is not None
    ]
    return html.Div(
        [html.Dl(cells, className="lp-alert-numbers"), _gauge(alert.value, alert.threshold)],
        className="lp-alert-measure",
    )


def _gauge(value: float | None, threshold: float | None) -> Component | None:
    """Return the value as a bar with a mark at its threshold."""
    if value is None or threshold is None or value < 0 or threshold <= 0:
        return None
    end = max(value, threshold) * 1.1
    return html.Div(
        [
            html.I(style={"width": f"{value / end * 100:.1f}%"}),
            html.B(style={"left": f"{threshold / end * 100:.1f}%"}, title="threshold"),
        ],
        className="lp-bullet",
    )


def _advice(alert: Alert) -> Component:
    rows = [("likely cause", alert.cause), ("look first at", alert.first_look)]
    return html.Dl(
        [html.Div([html.Dt(name), html.Dd(text)]) for name, text in rows if text],
        className="lp-alert-advice",
    )


def _places(alert: Alert) -> list[Component]:
    places = list[Component]()
    if alert.run_id is not None:
        steps = ""
        if alert.first_step is not None:
            same = alert.last_step in (None, alert.first_step)
            steps = (
                f", step {alert.first_step}"
                if same
                else (f", steps {alert.first_step}–{alert.last_step}")
            )
        places.append(
            dcc.Link(
                f"{alert.run_name or alert.run_id}{steps}", href=alert.link, className="lp-link"
            )
        )
    if alert.entity.kind == "host":
        places.append(
            dcc.Link(alert.entity.id, href=cluster_address(alert.entity.id), className="lp-link")
        )
    elif alert.entity.kind not in ("run", "server"):
        places.append(html.Span(f"{alert.entity.kind} {alert.entity.id}", className="lp-fact"))
    return places


def _care(alert: Alert, silence: Silence | None, zone: Zone) -> list[Component]:
    care = list[Component]()
    if alert.acknowledged is not None:
        said = alert.acknowledged
        words = f"{said.author} looks after it since {zone.format_clock(said.ts_ns)}"
        care.append(
            html.Span(
                f"✓ {words}{': ' + said.comment if said.comment else ''}", className="lp-care"
            )
        )
    if silence is not None:
        care.append(
            html.Span(
                f"silenced by {silence.author} until {zone.format_moment(silence.ends_ns)}",
                className="lp-care",
            )
        )
    return care


def _buttons(alert: Alert, silence: Silence | None) -> list[Component]:
    if alert.state == "resolved":
        return []
    about = {
        "data_alert": alert.alert_id,
        "data_rule": alert.rule,
        "data_run": alert.run_id or "",
        "data_entity": alert.entity.id,
        "data_words": alert.summary,
    }
    buttons = list[Component]()
    # Who comments on what somebody looks after takes it over.
    label = "Acknowledge" if alert.acknowledged is None else "Comment …"
    buttons.append(_button(label, "acknowledge", about))
    if silence is None:
        buttons.append(_button("Silence …", "silence", about))
    return buttons


def _button(label: str, act: str, about: dict[str, str]) -> Component:
    return html.Button(
        label,
        className="lp-button",
        **attributes(data_act=act, aria_label=f"{label}: {about['data_words']}", **about),
    )


def alert_line(alerts: Sequence[Alert], title: str) -> Component:
    """Return alerts of one rule in one line, for the page of their run: the newest, and whom else.

    Args:
        alerts: One at least, the newest first.
        title: Of their rule.
    """
    newest, rest = alerts[0], alerts[1:]
    is_cared_for = newest.acknowledged is not None and all(each.acknowledged for each in rest)
    return html.Div(
        [
            severity_mark(newest.severity),
            html.B(title),
            html.Span(f"× {len(alerts)}", className="lp-dim") if rest else None,
            html.Span(newest.state, className=f"lp-phase lp-phase-{newest.state}"),
            html.Span([newest.summary, *_also(rest)], className="lp-alert-words"),
            html.Span(className="lp-spring"),
            html.Span(f"✓ {newest.acknowledged.author}", className="lp-care")
            if is_cared_for and newest.acknowledged is not None
            else None,
            dcc.Link("details", href=alerts_address(newest.run_id), className="lp-link"),
        ],
        className=f"lp-alert-line lp-alert-{newest.severity}",
    )


def _also(alerts: Sequence[Alert]) -> list[Component]:
    if not alerts:
        return []
    names = [alert.entity.id for alert in alerts]
    said = ", ".join(names[:_MAX_NAMED])
    if len(names) > _MAX_NAMED:
        said += f" and {len(names) - _MAX_NAMED} more"
    return [html.Span(f" Also {said}.", className="lp-dim", title=", ".join(names))]
