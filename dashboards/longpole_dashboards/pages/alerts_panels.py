"""The panels of the alerts page: what each shows, and what it depends on."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from dash import dcc, html
from dash.development.base_component import Component

from longpole_dashboards.addresses import ALERTS_PATH, alerts_address, run_address
from longpole_dashboards.components.alert_card import alert_card, severity_mark
from longpole_dashboards.components.attributes import attributes
from longpole_dashboards.components.export import row_cells
from longpole_dashboards.components.notice import absent
from longpole_dashboards.components.panel import age
from longpole_dashboards.components.rules import rule_entry, rule_state
from longpole_dashboards.components.search import matches, sought_words
from longpole_dashboards.formats import NS_PER_MS, Zone, format_value
from longpole_dashboards.pages.alerts_reading import RULE_STATES, AlertsReading
from longpole_dashboards.refresh import Panel, PanelGroup
from longpole_server.model.alert import AlertEvent, ChannelStatus, Silence

GROUP = "alerts"
# Cards that a page shows: more are no list that anybody reads.
MAX_CARDS = 100
# What saved tables of silences and of channels hold.
SILENCE_HEAD = ("rule", "run", "entity", "until", "author", "comment")
CHANNEL_HEAD = ("channel", "kind", "delivered", "waiting", "given up", "last delivered", "failing")
_STATE_ORDER = ("firing", "pending", "quiet", "held_back", "not_judgeable")
_NO_ALERT = {
    "open": "Nothing fires, and nothing is about to.",
    "firing": "Nothing fires.",
    "pending": "Nothing is about to fire.",
    "resolved": "Nothing was over lately.",
}
_KIND_WORDS = {
    "pending": "noticed",
    "dropped": "went away in time",
    "firing": "fires",
    "seen": "still there",
    "repeated": "still there, told again",
    "resolved": "over",
    "acknowledged": "acknowledged",
}


def _counts(reading: AlertsReading) -> tuple[object, ...]:
    count = {
        state: sum(alert.state == state for alert in reading.alerts)
        for state in ("firing", "pending", "resolved")
    }
    words = [
        html.Span(
            [html.B(str(count["firing"])), " firing"], className=_count_class("firing", count)
        ),
        html.Span(
            [html.B(str(count["pending"])), " pending"], className=_count_class("pending", count)
        ),
        html.Span([html.B(str(count["resolved"])), " over lately"], className="lp-count"),
    ]
    if reading.blindness is not None:
        words.insert(
            0, html.Span(reading.blindness, className="lp-count lp-count-firing", role="alert")
        )
    if reading.run_id is not None:
        name = reading.names.get(reading.run_id, reading.run_id)
        words += [
            dcc.Link(name, href=run_address(reading.run_id), className="lp-link"),
            dcc.Link("show all runs", href=alerts_address(), className="lp-link lp-preset"),
        ]
    return (words,)


def _count_class(state: str, count: dict[str, int]) -> str:
    return f"lp-count lp-count-{state}" if count[state] else "lp-count"


def _cards(reading: AlertsReading) -> tuple[object, ...]:
    zone = reading.view.zone
    cards = [
        alert_card(
            alert,
            reading.titles.get(alert.rule, alert.rule),
            reading.find_silence(alert),
            zone,
        )
        for alert in reading.shown[:MAX_CARDS]
    ]
    if len(reading.shown) > MAX_CARDS:
        cards.append(_left_out(reading))
    return (cards or _nothing(reading),)


def _left_out(reading: AlertsReading) -> Component:
    left = Counter(alert.rule for alert in reading.shown[MAX_CARDS:])
    words = ", ".join(
        f"{count} {reading.titles.get(rule, rule)}" for rule, count in left.most_common()
    )
    return html.Section(
        f"and {left.total()} more: {words}. The page of a run shows its own.",
        className="lp-panel lp-calm",
    )


def _nothing(reading: AlertsReading) -> Component:
    states = [rule_state(rule) for rule in reading.rules]
    quiet, held = states.count("quiet"), states.count("held_back")
    not_now = f"{held} {'is' if held == 1 else 'are'} not judged at this step, " if held else ""
    sought = reading.view.query.text("q")
    if sought and reading.alerts:
        return html.Section(
            html.H2(f"No alert in this state matches “{sought}”."), className="lp-panel lp-calm"
        )
    lines: list[Component] = [html.H2(_NO_ALERT[reading.state])]
    if reading.state in ("open", "firing"):
        lines.append(
            html.P(
                f"{len(states)} rules watch: {quiet} are quiet on what they saw, {not_now}"
                f"{states.count('not_judgeable')} have nothing to judge. Each says why below."
            )
        )
    return html.Section(lines, className="lp-panel lp-calm")


def _silences(reading: AlertsReading) -> tuple[object, ...]:
    if not reading.silences:
        return (absent("No silence is in force."),)
    return ([_silence(silence, reading) for silence in reading.silences],)


def _silence(silence: Silence, reading: AlertsReading) -> Component:
    about = [
        f"rule {silence.rule}" if silence.rule else "every rule",
        f"of {reading.names.get(silence.run_id, silence.run_id)}" if silence.run_id else "",
        f"on {silence.entity}" if silence.entity else "",
    ]
    until = reading.view.zone.format_moment(silence.ends_ns)
    return html.Div(
        [
            html.Div(
                [
                    html.B(" ".join(word for word in about if word)),
                    html.Div(
                        f"until {until}, by {silence.author}"
                        f"{': ' + silence.comment if silence.comment else ''}",
                        className="lp-dim",
                    ),
                ]
            ),
            html.Button(
                "Lift",
                className="lp-button",
                title="End this silence now",
                **attributes(data_act="lift", data_silence=silence.silence_id),
            ),
        ],
        className="lp-entry",
        **row_cells(
            silence.rule or "every rule",
            reading.names.get(silence.run_id, silence.run_id) if silence.run_id else "",
            silence.entity or "",
            until,
            silence.author,
            silence.comment,
        ),
    )


def _channels(reading: AlertsReading) -> tuple[object, ...]:
    if reading.channels is None:
        said = absent("Not known: the server that tells people does not answer this one.")
        return [said], {"display": "none"}
    if not reading.channels:
        return (
            [
                absent("Nobody is told: no channel is configured."),
                html.P(
                    [
                        "Set ",
                        html.Code("LONGPOLE_SLACK_WEBHOOK_URL"),
                        " for the server, and everything important goes to Slack.",
                    ],
                    className="lp-absent",
                ),
            ],
            {"display": "none"},
        )
    return [_channel(channel, reading.view.zone) for channel in reading.channels], {}


def _channel(channel: ChannelStatus, zone: Zone) -> Component:
    delivered = (
        html.Span(["last delivered ", age(channel.last_delivered_ns // NS_PER_MS), " ago"])
        if channel.last_delivered_ns is not None
        else html.Span("nothing delivered yet")
    )
    facts = [
        f"{channel.num_delivered} delivered",
        f"{channel.num_waiting} waiting" if channel.num_waiting else "",
        f"{channel.num_failed} given up" if channel.num_failed else "",
    ]
    failing = channel.last_error is not None
    since = (
        ["failing: ", channel.last_error, " (", age((channel.last_error_ns or 0) // NS_PER_MS),
         " ago)"]
        if failing
        else []
    )  # fmt: skip
    return html.Div(
        html.Div(
            [
                html.Div(
                    [
                        html.I(className=f"lp-dot {'lp-dot-bad' if failing else 'lp-dot-good'}"),
                        html.B(channel.channel),
                        html.Span(channel.kind.replace("_", " "), className="lp-dim"),
                    ],
                    className="lp-channel-name",
                ),
                html.Div(
                    [delivered, *[html.Span(fact) for fact in facts if fact]],
                    className="lp-dim lp-asides",
                ),
                html.Div(since, className="lp-channel-error") if failing else None,
            ]
        ),
        className="lp-entry",
        **row_cells(
            channel.channel,
            channel.kind,
            str(channel.num_delivered),
            str(channel.num_waiting),
            str(channel.num_failed),
            ""
            if channel.last_delivered_ns is None
            else zone.format_moment(channel.last_delivered_ns),
            channel.last_error or "",
        ),
    )


def _rules(reading: AlertsReading) -> tuple[object, ...]:
    wanted = reading.view.query.choice("rules", RULE_STATES)
    counted, sought = [rule_state(rule) for rule in reading.rules], sought_words(reading.view.query)
    rules = [
        rule
        for rule, state in zip(reading.rules, counted, strict=True)
        if (wanted in ("all", state) or (wanted == "open" and state in ("firing", "pending")))
        and matches(sought, rule.rule_id, rule.title, rule.condition)
    ]
    rules.sort(key=lambda rule: _STATE_ORDER.index(rule_state(rule)))
    words = ", ".join(
        f"{counted.count(state)} {state.replace('_', ' ')}"
        for state in _STATE_ORDER
        if state in counted
    )
    entries = [rule_entry(rule, reading.names) for rule in rules]
    return entries or absent("No rule is in that state, or none matches the search."), words


def _history(reading: AlertsReading) -> tuple[object, ...]:
    if not reading.events:
        return (absent("No alert was ever noticed."),)
    sought = sought_words(reading.view.query)
    events = [event for event in reading.events if _is_sought(event, reading, sought)]
    if not events:
        return (absent("No change of an alert matches the search."),)
    head = ("when", "what", "severity", "rule", "run", "in words", "value", "step", "to tell")
    return (
        html.Table(
            [
                html.Thead(html.Tr([html.Th(name) for name in head])),
                html.Tbody([_event_row(event, reading) for event in events]),
            ],
            className="lp-table lp-rows",
        ),
    )


def _is_sought(event: AlertEvent, reading: AlertsReading, words: Sequence[str]) -> bool:
    title = reading.titles.get(event.rule)
    run = event.run_name or event.run_id
    return matches(words, event.rule, title, run, event.summary, event.comment)


def _event_row(event: AlertEvent, reading: AlertsReading) -> Component:
    run: Component | str = "–"
    if event.run_id:
        run = dcc.Link(
            event.run_name or event.run_id, href=run_address(event.run_id), className="lp-link"
        )
    by = f" by {event.author}" if event.author else ""
    comment = f": {event.comment}" if event.comment else ""
    told = "silenced" if event.silence_id else "yes" if event.notify else "no"
    if told == "yes" and reading.channels is not None and not reading.channels:
        told = "no channel"
    return html.Tr(
        [
            html.Td(reading.view.zone.format_moment(event.ts_ns), className="lp-nowrap"),
            html.Td(
                f"{_KIND_WORDS[event.kind]}{by}",
                className=f"lp-nowrap lp-event lp-event-{event.kind}",
            ),
            html.Td(severity_mark(event.severity)),
            html.Td(reading.titles.get(event.rule, event.rule), className="lp-nowrap"),
            html.Td(run),
            html.Td(f"{event.summary}{comment}"),
            html.Td(format_value(event.value, event.unit), className="lp-nowrap"),
            html.Td("–" if event.step is None else str(event.step)),
            html.Td(told),
        ]
    )


def _alerts_key(reading: AlertsReading) -> object:
    # How often something was found firing changes with every look: it is shown as of a minute.
    alerts = [
        replace(alert, last_seen_ns=0, updated_ns=alert.updated_ns // 60_000_000_000)
        for alert in reading.alerts
    ]
    # Who has no alert is told how many rules are quiet, held back or blind.
    states = sorted(Counter(rule_state(rule) for rule in reading.rules).items())
    sought = reading.view.query.text("q")
    return (reading.run_id, alerts, reading.silences, states, reading.blindness, sought)


PANELS = PanelGroup[AlertsReading](
    name=GROUP,
    path=ALERTS_PATH,
    read=AlertsReading,
    panels=(
        Panel((("alerts-counts", "children"),), _alerts_key, _counts),
        Panel(
            (("alerts-cards", "children"),),
            lambda reading: (_alerts_key(reading), reading.state, reading.asked),
            _cards,
        ),
        Panel(
            (("alerts-silences", "children"),),
            lambda reading: (reading.silences, sorted(reading.names)),
            _silences,
        ),
        Panel(
            (("alerts-channels", "children"), ("alerts-test", "style")),
            lambda reading: reading.channels,
            _channels,
        ),
        Panel(
            (("alerts-rules", "children"), ("alerts-rules-aside", "children")),
            lambda reading: (
                reading.rules,
                reading.view.query.text("rules"),
                reading.view.query.text("q"),
            ),
            _rules,
        ),
        Panel(
            (("alerts-history", "children"),),
            lambda reading: (
                [event.event_id for event in reading.events],
                reading.view.query.text("q"),
                not reading.channels,
            ),
            _history,
        ),
    ),
)
