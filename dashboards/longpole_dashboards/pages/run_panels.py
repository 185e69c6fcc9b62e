"""The panels of the run page: what each shows, and what it depends on."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import plotly.graph_objects as go
from dash import dcc, html
from dash.development.base_component import Component

from longpole.conventions import stages
from longpole_dashboards.addresses import RUN_PATH
from longpole_dashboards.components.now import now_card
from longpole_dashboards.components.panel import age, fit_height, legend
from longpole_dashboards.components.tiles import Tile, tile
from longpole_dashboards.components.verdict import (
    evidence_table,
    findings_list,
    next_looks,
    verdict_card,
)
from longpole_dashboards.figures.bars import order_stages
from longpole_dashboards.figures.gpus import HEAT_FIELDS, gpu_heatmap
from longpole_dashboards.figures.series import (
    MFU_SERIES,
    health,
    mfu,
    mfu_colours,
    throughput,
)
from longpole_dashboards.figures.shares import stage_shares
from longpole_dashboards.figures.template import message_figure, wrap
from longpole_dashboards.formats import (
    NS_PER_MS,
    NS_PER_S,
    format_count,
    format_duration,
    format_ratio,
)
from longpole_dashboards.glossary import DEFINITIONS, not_reported
from longpole_dashboards.pages.gpu_heat import heat_words, read_heatmap
from longpole_dashboards.refresh import Panel, PanelGroup, View
from longpole_dashboards.theme import stage_colour, stage_label
from longpole_server.errors import NotFoundError
from longpole_server.model.diagnosis import Diagnosis
from longpole_server.model.run import RunDetail, RunSummary
from longpole_server.model.step import Step
from longpole_server.service import Service

GROUP = "run"
# How many of the last steps the charts show, and how many minutes the GPUs.
RANGES = ("40", "200", "all")
SPANS = ("10", "30", "120")
MAX_HEAT_BINS = 720
HEALTH_METRICS = (
    "reward_mean",
    "response_length_mean",
    "kl_ref",
    "entropy",
    "clip_fraction",
    "truncated_ratio",
)
# A live heat-map moves on in strides, so that its picture does not change at every tick.
_HEAT_STRIDE_NS = 2 * NS_PER_S
# The open step's bar grows in strides too.
_OPEN_STRIDE_NS = 5 * NS_PER_S


class RunReading:
    """One run as one browser looks at it; everything is read when it is first asked for."""

    def __init__(self, service: Service, view: View) -> None:
        self.service = service
        self.view = view
        run_id = view.query.text("id")
        if run_id is None:
            raise NotFoundError("The address names no run.", "Choose one from the list of runs.")
        self.run_id = run_id

    @cached_property
    def detail(self) -> RunDetail:
        """The run."""
        return self.service.get_run(self.run_id)

    @property
    def run(self) -> RunSummary:
        """Its summary."""
        return self.detail.summary

    @cached_property
    def steps(self) -> Sequence[Step]:
        """The steps the charts show, the open one last."""
        chosen = self.view.query.choice("steps", RANGES)
        newest = self.run.last_step
        if chosen == "all" or newest is None:
            return self.service.list_steps(self.run_id)
        return self.service.list_steps(self.run_id, max(0, newest - int(chosen) + 1))

    @cached_property
    def closed(self) -> Sequence[Step]:
        """Those that have ended."""
        return [step for step in self.steps if step.duration_s is not None]

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """The verdict over the last judged steps."""
        return self.service.diagnose(self.run_id)

    @cached_property
    def span_ns(self) -> tuple[int, int]:
        """The time the GPU panel shows: what the address asks for, else the newest minutes."""
        asked = self.view.query.span_ms("time")
        if asked is not None:
            return asked[0] * NS_PER_MS, asked[1] * NS_PER_MS
        minutes = int(self.view.query.choice("span", SPANS))
        end_ns = self.view.now_ns if self.is_open else self.run.last_seen_ns
        end_ns += _HEAT_STRIDE_NS - end_ns % _HEAT_STRIDE_NS
        return max(self.run.started_ns, end_ns - minutes * 60 * NS_PER_S), end_ns

    @property
    def is_open(self) -> bool:
        """Whether more may come."""
        return self.run.state in ("live", "stalled")

    @property
    def axis(self) -> str:
        """`step` or `time`."""
        return self.view.query.choice("axis", ("step", "time"))

    def revise(self, figure: go.Figure, *more: str) -> go.Figure:
        """Mark a figure with what a viewer's zoom of it belongs to."""
        steps = self.view.query.choice("steps", RANGES)
        figure.update_layout(uirevision="|".join((self.run_id, steps, self.axis, *more)))
        return figure

    def step_key(self) -> object:
        """What every chart of steps depends on."""
        return (self.run_id, self.axis, [_fingerprint(step) for step in self.steps])


def _fingerprint(step: Step) -> object:
    spent = [(stage.stage, stage.exclusive_s) for stage in step.stages]
    return (
        step.step,
        step.attempt,
        step.duration_s,
        step.verdict,
        spent,
        step.outside,
        step.tokens_total,
    )


def _title(reading: RunReading) -> tuple[object, ...]:
    run, detail = reading.run, reading.detail
    gpu_model = _gpu_model(reading)
    system = " ".join(word for word in (run.system, run.system_version) if word)
    mode = run.mode or ""
    if run.mode_source == "inferred":
        mode += " (inferred)"
    gpus = "" if run.gpu_count is None else f"{run.gpu_count} × {gpu_model or 'GPU'}"
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
        ],
        className="lp-title-row",
    )
    return (title,)


def _gpu_model(reading: RunReading) -> str:
    lanes = reading.service.get_gpu_heatmap(
        reading.run_id, HEAT_FIELDS[0], *reading.span_ns, max_bins=1
    ).lanes
    models = {lane.model for lane in lanes if lane.model}
    return " / ".join(sorted(model.removeprefix("NVIDIA ") for model in models))


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


def _verdict(reading: RunReading) -> tuple[object, ...]:
    diagnosis = reading.diagnosis
    why: list[Component] = [evidence_table(diagnosis.evidence)]
    if diagnosis.next:
        why += [html.H3("Look at next"), next_looks(diagnosis.next)]
    if diagnosis.findings or diagnosis.data_quality:
        why += [
            html.H3("Also seen"),
            findings_list(diagnosis.findings, diagnosis.data_quality),
        ]
    code = dcc.Store(id="run-verdict-code", data=diagnosis.verdict)
    return [verdict_card(diagnosis), code], why


def _tiles(reading: RunReading) -> tuple[object, ...]:
    closed = reading.closed
    newest = closed[-1] if closed else None
    durations = [step.duration_s for step in closed]
    rates = [step.throughput_tokens_per_s_per_gpu for step in closed]
    gen = [_share(step, stages.GEN, stages.TRAINER_WAIT) for step in closed]
    unattributed = [
        step.unattributed_s / step.duration_s
        if step.unattributed_s is not None and step.duration_s
        else None
        for step in closed
    ]
    staleness = [
        value for _, _, value in reading.service.get_metric(reading.run_id, "staleness_max").points
    ]
    bound = reading.detail.staleness_bound
    shown = (
        Tile(
            "Step time",
            format_duration(newest.duration_s if newest else None),
            "",
            DEFINITIONS["step_time"],
            durations,
            "down",
        ),
        Tile(
            "Throughput",
            format_count(rates[-1] if rates else None),
            "tokens/s/GPU",
            DEFINITIONS["throughput"],
            rates,
            "up",
            "needs tokens and GPU count",
        ),
        _mfu_tile("MFU, update", "mfu_actor", closed),
        _mfu_tile("MFU, step", "mfu_step", closed),
        Tile(
            "Rollout wait",
            format_ratio(gen[-1] if gen else None),
            "of the step",
            DEFINITIONS["rollout_share"],
            gen,
            "down",
        ),
        Tile(
            "Unattributed",
            format_ratio(unattributed[-1] if unattributed else None, 1),
            "of the step",
            DEFINITIONS["unattributed"],
            unattributed,
            "down",
        ),
        Tile(
            "Staleness, max",
            format_count(staleness[-1] if staleness else None),
            (reading.detail.staleness_basis or "versions")
            + (f", bound {bound:g}" if bound else ""),
            DEFINITIONS["staleness"],
            staleness,
            "neither",
            "synchronous: always 0" if reading.run.mode == "sync" else "not reported",
        ),
    )
    return ([tile(one, reading.view.theme) for one in shown],)


def _mfu_tile(label: str, name: str, closed: Sequence[Step]) -> Tile:
    history = [getattr(step, name) for step in closed]
    value = history[-1] if history else None
    return Tile(
        label,
        format_ratio(value, 1),
        "",
        DEFINITIONS[name],
        history,
        "up",
        "unknown: needs model and GPU",
    )


def _share(step: Step, *names: str) -> float | None:
    found = [stage.exclusive_s for stage in step.stages if stage.stage in names]
    return sum(found) / step.duration_s if found and step.duration_s else None


def _shares(reading: RunReading) -> tuple[object, ...]:
    view, steps = reading.view, reading.steps
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
    )
    return reading.revise(figure, unit), _stage_legend(reading.closed)


def _stage_legend(closed: Sequence[Step]) -> Component:
    total = sum(step.duration_s or 0.0 for step in closed)
    seconds: dict[str, float] = {}
    for step in closed:
        for stage in step.stages:
            seconds[stage.stage] = seconds.get(stage.stage, 0.0) + stage.exclusive_s
        unattributed_s = step.unattributed_s or 0.0
        seconds[stages.UNATTRIBUTED] = seconds.get(stages.UNATTRIBUTED, 0.0) + unattributed_s
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


def _throughput(reading: RunReading) -> tuple[object, ...]:
    axis, zone, theme = reading.axis, reading.view.zone, reading.view.theme
    return (
        reading.revise(throughput(reading.steps, axis=axis, zone=zone, theme=theme)),
        reading.revise(mfu(reading.steps, axis=axis, zone=zone, theme=theme)),
        _mfu_legend(reading),
    )


def _mfu_legend(reading: RunReading) -> Component:
    colours = mfu_colours(reading.view.theme)
    entries: list[tuple[str, str, str]] = []
    for name, label in MFU_SERIES:
        known = [getattr(step, name) for step in reading.closed]
        newest = next((value for value in reversed(known) if value is not None), None)
        if newest is not None:
            entries.append((label, colours[name], format_ratio(newest, 1)))
    return legend(entries)


def _gpus(reading: RunReading) -> tuple[object, ...]:
    view = reading.view
    field = view.query.choice("field", HEAT_FIELDS)
    start_ns, end_ns = reading.span_ns
    heatmap = read_heatmap(
        reading.service, reading.run_id, field, (start_ns, end_ns), MAX_HEAT_BINS
    )
    newest = reading.run.last_step or 0
    first = max(0, newest - int(RANGES[1])) if view.query.span_ms("time") is None else None
    steps = reading.service.list_steps(reading.run_id, first)
    figure = gpu_heatmap(
        heatmap,
        steps,
        reading.run.open_stage if reading.is_open else None,
        now_ns=view.now_ns,
        span_ns=(start_ns, end_ns),
        zone=view.zone,
        theme=view.theme,
    )
    words = heat_words(field, heatmap)
    has_bands = any(stage.windows for step in steps for stage in step.stages)
    if not heatmap.lanes and not has_bands:
        return figure, {"display": "none"}, words
    return *fit_height(figure), words


def _health(reading: RunReading) -> tuple[object, ...]:
    series = {name: reading.service.get_metric(reading.run_id, name) for name in HEALTH_METRICS}
    if not any(found.points for found in series.values()):
        return (message_figure(not_reported("metrics"), reading.view.theme),)
    return (reading.revise(health(series, theme=reading.view.theme)),)


def _now_key(reading: RunReading) -> object:
    stage = reading.run.open_stage
    seen_s = None if stage is None else stage.seen_ns // (5 * NS_PER_S)
    steady = None if stage is None else replace(stage, seen_ns=0)
    return (reading.run_id, reading.run.state, reading.run.num_steps, steady, seen_s)


PANELS = PanelGroup[RunReading](
    name=GROUP,
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
        Panel((("run-now", "children"),), _now_key, _now),
        Panel(
            (("run-verdict", "children"), ("run-evidence", "children")),
            RunReading.step_key,
            _verdict,
        ),
        Panel((("run-tiles", "children"),), RunReading.step_key, _tiles),
        Panel(
            (("run-shares", "figure"), ("run-legend", "children")),
            lambda reading: (
                reading.step_key(),
                reading.view.query.text("unit"),
                reading.run.open_stage and reading.view.now_ns // _OPEN_STRIDE_NS,
            ),
            _shares,
        ),
        Panel(
            (
                ("run-throughput", "figure"),
                ("run-mfu", "figure"),
                ("run-mfu-legend", "children"),
            ),
            RunReading.step_key,
            _throughput,
        ),
        Panel(
            (("run-gpus", "figure"), ("run-gpus", "style"), ("run-gpus-absent", "children")),
            lambda reading: (
                reading.run_id,
                reading.span_ns,
                reading.view.query.text("field"),
                reading.run.num_steps,
            ),
            _gpus,
        ),
        Panel((("run-health", "figure"),), RunReading.step_key, _health),
    ),
)
