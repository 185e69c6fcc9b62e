"""What is running right now: the open step and stage, and how its age compares with the usual."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

from dash import html
from dash.development.base_component import Component

from longpole_dashboards.components.notice import absent
from longpole_dashboards.components.panel import age, attributes
from longpole_dashboards.formats import NS_PER_MS, Zone, format_duration
from longpole_dashboards.glossary import not_reported
from longpole_dashboards.theme import stage_colour, stage_label
from longpole_server.model.run import OpenStage, RunSummary

# A stage that is this many times older than its longest earlier one hangs, as far as one can see.
HANG_FACTOR = 3.0
# Seconds over the longest earlier one before a stage counts as late: news takes a moment to arrive,
# and a stage of half a second is soon three times as old.
LATE_GRACE_S = 3.0
ENDINGS = {
    "finished": "Finished",
    "crashed": "Crashed",
    "lost": "Lost: its trainer fell silent",
    "imported": "Imported from a log",
}


def now_card(run: RunSummary, zone: Zone) -> Component:
    """Return the card; the browser keeps its age and its gauge up to date between refreshes."""
    if run.state in ENDINGS:
        body = _ended(run, zone)
    elif run.open_stage is None:
        body = absent(f"No open stage. {not_reported('open_stage')}")
    else:
        body = _open(run.open_stage)
    return html.Section(
        [html.Div("right now", className="lp-overline"), body],
        className="lp-panel lp-now",
    )


def _ended(run: RunSummary, zone: Zone) -> Component:
    return html.Div(
        [
            html.Div(ENDINGS[run.state], className="lp-now-title"),
            html.Div(
                f"{run.num_steps} steps, last seen {zone.format_moment(run.last_seen_ns)}",
                className="lp-now-note",
            ),
        ]
    )


def _open(stage: OpenStage) -> Component:
    label = "between stages" if stage.stage == "step" else stage_label(stage.stage)
    timing = attributes(
        data_since_ms=stage.since_ns // NS_PER_MS,
        data_usual_s=stage.usual_s,
        data_longest_s=stage.usual_max_s,
        data_hang_factor=HANG_FACTOR,
        data_grace_s=LATE_GRACE_S,
    )
    step = "" if stage.step is None else f"step {stage.step}"
    usual = (
        html.Span(
            [
                f"usually {format_duration(stage.usual_s)}",
                f", at most {format_duration(stage.usual_max_s)} so far",
            ]
        )
        if stage.usual_s is not None
        else html.Span("no earlier step to compare with")
    )
    return html.Div(
        [
            html.Div(
                [
                    html.I(
                        className="lp-stage-dot", style={"background": stage_colour(stage.stage)}
                    ),
                    html.Span(label, className="lp-now-title"),
                    html.Span(step, className="lp-now-step"),
                    html.Span(className="lp-now-age", **attributes(data_age="text")),
                ],
                className="lp-now-line",
            ),
            html.Div(
                [
                    html.Div(className="lp-gauge-fill"),
                    html.I(className="lp-gauge-mark lp-gauge-usual", title="usual"),
                    html.I(className="lp-gauge-mark lp-gauge-longest", title="longest so far"),
                ],
                className="lp-gauge-track",
            ),
            html.Div(
                [
                    usual,
                    html.Span(className="lp-gauge-words"),
                    _heartbeat(stage),
                ],
                className="lp-now-note",
            ),
        ],
        className="lp-gauge",
        style={"--stage": stage_colour(stage.stage)},
        **timing,
    )


def _heartbeat(stage: OpenStage) -> Component:
    return html.Span(
        ["heartbeat ", age(stage.seen_ns // NS_PER_MS), " ago"], className="lp-now-heartbeat"
    )
