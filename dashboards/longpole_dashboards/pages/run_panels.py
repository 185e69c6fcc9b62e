"""What the run page shows first: what runs now, and the newest step's bar."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from dash import dcc, html
from dash.development.base_component import Component

from longpole.conventions import stages
from longpole_dashboards.addresses import (
    RUN_PATH,
    alerts_address,
    compare_address,
    report_address,
)
from longpole_dashboards.components.alert_card import alert_line
from longpole_dashboards.components.export import file_link
from longpole_dashboards.components.now import now_card
from longpole_dashboards.components.panel import age, legend
from longpole_dashboards.figures.alert_marks import mark_alerts
from longpole_dashboards.figures.bars import order_stages
from longpole_dashboards.figures.moments import mark_time_axis
from longpole_dashboards.figures.shares import stage_shares
from longpole_dashboards.figures.template import message_figure, wrap
from longpole_dashboards.formats import (
    NS_PER_MS,
    NS_PER_S,
    format_ratio,
)
from longpole_dashboards.glossary import not_reported
from longpole_dashboards.pages.compare_reading import last_and_first_steps
from longpole_dashboards.pages.run_moments import list_syncs
from longpole_dashboards.pages.run_reading import RunReading
from longpole_dashboards.refresh import Panel, PanelGroup
from longpole_dashboards.theme import stage_colour, stage_label
from longpole_server.model.alert import Alert
from longpole_server.model.run import RunDetail, RunSummary
from longpole_server.model.step import Step

# Steps beside the first of their attempt that make shares worth showing without that one.
MIN_JUDGED = 2
# Lines of alerts above everything else; the rest is on the page of alerts.
_MAX_ALERTS = 20
# The open step's bar grows in strides.
_OPEN_STRIDE_NS = 5 * NS_PER_S


def _title(reading: RunReading) -> tuple[object, ...]:
    run, detail = reading.run, reading.detail
    system = " ".join(word for word in (run.system, run.system_version) if word)
    mode = run.mode or ""
    if run.mode_source == "inferred":
        mode += " (inferred)"
    gpus = "1 GPU" if run.gpu_count == 1 else f"{run.gpu_count} GPUs" if run.gpu_count else ""
    facts = [
        fact
        for fact in (system, run.algorithm, mode.replace("_", " "), gpus, detail.model_name)
        if fact
    ]
    started = html.Span(["started ", age(run.started_ns // NS_PER_MS), " ago"])
    title = html.Div(
        [
            html.H1(run.name),
            html.Span(run.state, className=f"lp-state lp-state-{run.state}"),
            *[html.Span(fact, className="lp-fact") for fact in facts],
            html.Span(started, className="lp-fact"),
            *_attempts(detail),
            *_estimated(run),
            *_comparison(run),
            file_link(
                "Report",
                "Save all of this as one HTML file: for a postmortem, or to send to somebody",
                report_address(run.run_id, reading.view.zone.label),
                f"{run.name}-report.html",
            ),
        ],
        className="lp-title-row",
    )
    return (title,)


def _comparison(run: RunSummary) -> list[Component]:
    newest, first = last_and_first_steps(run)
    if newest == first:
        return []
    href = compare_address(run.run_id, run.run_id, newest, first)
    return [
        dcc.Link(
            "Compare with its first steps",
            href=href,
            className="lp-link lp-preset",
            id="run-compare",
        )
    ]


def _alerts(reading: RunReading) -> tuple[object, ...]:
    titles = reading.rule_titles
    # Firing before pending; the newest first, as they come.
    shown = sorted(
        (alert for alert in reading.alerts if alert.state != "resolved"),
        key=lambda alert: alert.state,
    )
    # What ails ten replicas alike is one thing to read.
    alike: dict[tuple[str, str], list[Alert]] = {}
    for alert in shown:
        alike.setdefault((alert.state, alert.rule), []).append(alert)
    groups = list(alike.values())
    lines = [
        alert_line(group, titles.get(group[0].rule, group[0].rule))
        for group in groups[:_MAX_ALERTS]
    ]
    if len(groups) > _MAX_ALERTS:
        more = f"and {sum(map(len, groups[_MAX_ALERTS:]))} more alerts"
        lines.append(
            html.Div(dcc.Link(more, href=alerts_address(reading.run_id), className="lp-link"))
        )
    return (lines,)


def _attempts(detail: RunDetail) -> list[Component]:
    if len(detail.attempts) < 2:
        return []
    words = [
        f"attempt {a.attempt}: steps {a.first_step}–{a.last_step}, {a.status or 'open'}"
        for a in detail.attempts
    ]
    return [
        html.Span(
            f"attempt {detail.summary.attempt}",
            className="lp-fact lp-resumed",
            title="\n".join(words),
        )
    ]


def _estimated(run: RunSummary) -> list[Component]:
    if not run.time_estimated:
        return []
    return [html.Span("times estimated", className="lp-fact lp-warn", title="The log has no times")]


def _now(reading: RunReading) -> tuple[object, ...]:
    return (now_card(reading.run, reading.view.zone),)


def _shares(reading: RunReading) -> tuple[object, ...]:
    view, steps = reading.view, reading.drawn
    if not any(step.stages for step in steps):
        return message_figure(wrap(not_reported("stages"), 64), view.theme), None
    unit = (
        "percent" if view.query.choice("unit", ("seconds", "percent")) == "percent" else "seconds"
    )
    axis = "time" if reading.axis == "time" else "step"
    figure = stage_shares(
        steps,
        unit=unit,
        axis=axis,
        zone=view.zone,
        theme=view.theme,
        open_stage=reading.run.open_stage,
        now_ns=view.now_ns,
        changes=reading.verdict_changes,
    )
    mark_alerts(
        figure,
        reading.alerts,
        reading.rule_titles,
        asked=reading.asked_steps,
        steps=steps,
        axis=axis,
        zone=view.zone,
        theme=view.theme,
    )
    if axis == "time":
        mark_time_axis(figure, list_syncs(reading, steps))
    return reading.revise(figure, unit), _stage_legend(reading.closed)


def _stage_legend(steps: Sequence[Step]) -> Component:
    # As verdicts do: the first step of an attempt warms up and says little about the others.
    first_of = {step.attempt: step.step for step in reversed(steps)}
    judged = [step for step in steps if step.step != first_of[step.attempt]]
    closed = judged if len(judged) >= MIN_JUDGED else steps
    total = sum(step.duration_s or 0.0 for step in closed)
    # One list of all stages: ten thousand steps have a hundred thousand.
    names = [stage.stage for step in closed for stage in step.stages]
    spent = [stage.exclusive_s for step in closed for stage in step.stages]
    seconds: defaultdict[str, float] = defaultdict(float)
    for name, spent_s in zip(names, spent, strict=True):
        seconds[name] += spent_s
    if closed:
        seconds[stages.UNATTRIBUTED] = sum(step.unattributed_s or 0.0 for step in closed)
    return legend(
        [
            (
                stage_label(name),
                stage_colour(name),
                format_ratio(seconds[name] / total, 0 if seconds[name] > 0.1 * total else 1),
            )
            for name in order_stages(set(seconds))
        ]
        if total
        else []
    )


def _now_key(reading: RunReading) -> object:
    stage = reading.run.open_stage
    seen_s = None if stage is None else stage.seen_ns // (5 * NS_PER_S)
    steady = None if stage is None else replace(stage, seen_ns=0)
    return (reading.run_id, reading.run.state, reading.run.num_steps, steady, seen_s)


PANELS = PanelGroup[RunReading](
    name="run",
    path=RUN_PATH,
    read=RunReading,
    panels=(
        Panel(
            (("run-title", "children"),),
            lambda reading: (
                reading.run_id,
                reading.run.state,
                reading.run.attempt,
                reading.run.num_steps,
                reading.run.gpu_count,
            ),
            _title,
        ),
        Panel((("run-alerts", "children"),), RunReading.alerts_key, _alerts),
        Panel((("run-now", "children"),), _now_key, _now),
        Panel(
            (("run-shares", "figure"), ("run-legend", "children")),
            lambda reading: (
                reading.step_key(),
                reading.view.query.text("unit"),
                reading.run.open_stage and reading.view.now_ns // _OPEN_STRIDE_NS,
                reading.alerts_key(),
            ),
            _shares,
        ),
    ),
)
