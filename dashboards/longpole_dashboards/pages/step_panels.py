"""The panels of the step page: what each shows, and what it depends on."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Mapping, Sequence
from functools import cached_property
from statistics import median

from dash import dcc, html
from dash.development.base_component import Component

from longpole.conventions import stages
from longpole_dashboards.addresses import STEP_PATH, run_address, step_address
from longpole_dashboards.components.notice import absent
from longpole_dashboards.components.panel import fit_height, hinted, legend
from longpole_dashboards.components.verdict import (
    evidence_table,
    findings_list,
    next_looks,
    verdict_card,
)
from longpole_dashboards.figures.gpus import HEAT_FIELDS
from longpole_dashboards.figures.ledger import step_ledger
from longpole_dashboards.figures.samples import SAMPLE_FIELDS, distribution, sample_waterfall
from longpole_dashboards.figures.timeline import StepView, step_timeline
from longpole_dashboards.formats import (
    format_change,
    format_count,
    format_duration,
    format_ratio,
    format_whole,
)
from longpole_dashboards.glossary import DEFINITIONS, not_reported
from longpole_dashboards.pages.gpu_heat import heat_words, read_heatmap
from longpole_dashboards.refresh import Panel, PanelGroup, View
from longpole_dashboards.theme import PART_COLOURS
from longpole_server.errors import NotFoundError
from longpole_server.model.gpu import GpuHeatmap
from longpole_server.model.run import RunDetail
from longpole_server.model.step import Step
from longpole_server.model.trajectory import Trajectory, TrajectoryDetail
from longpole_server.service import Service, StepDetail, TrajectoryDistribution

GROUP = "step"
SAMPLE_GROUP = "sample"
MAX_SAMPLES = 10_000
SHOWN_SAMPLES = 100
MAX_HEAT_BINS = 600
# Steps that say what is usual.
USUAL_STEPS = 40
# An open step is drawn anew this often, and a closed one until its last samples have come in.
STRIDE_NS = 2_000_000_000
SETTLE_NS = 60_000_000_000


class StepReading:
    """One step as one browser looks at it; everything is read when it is first asked for."""

    def __init__(self, service: Service, view: View) -> None:
        self.service = service
        self.view = view
        run_id, number = view.query.text("run"), view.query.number("step")
        if run_id is None or number is None:
            raise NotFoundError("The address names no step.", "Choose one from a run.")
        self.run_id = run_id
        self.number = number

    @cached_property
    def detail(self) -> StepDetail:
        """The step with everything around it."""
        return self.service.get_step(self.run_id, self.number)

    @property
    def step(self) -> Step:
        """The step itself."""
        return self.detail.step

    @cached_property
    def run(self) -> RunDetail:
        """The run it belongs to."""
        return self.service.get_run(self.run_id)

    @cached_property
    def trajectories(self) -> Sequence[Trajectory]:
        """Its samples, slowest first."""
        return self.service.list_trajectories(self.run_id, self.number, "-duration", MAX_SAMPLES)

    @cached_property
    def spread(self) -> TrajectoryDistribution:
        """Its training samples as columns."""
        return self.service.get_distribution(self.run_id, self.number)

    @cached_property
    def heatmap(self) -> GpuHeatmap:
        """Its GPUs over its time."""
        end_ns = self.step.end_ns or max(self.view.now_ns, self.step.start_ns + 1_000_000_000)
        field = self.view.query.choice("field", HEAT_FIELDS)
        return read_heatmap(
            self.service, self.run_id, field, (self.step.start_ns, end_ns), MAX_HEAT_BINS
        )

    @cached_property
    def usual_s(self) -> Mapping[str, float]:
        """Median exclusive seconds per stage over the steps around this one."""
        around = self.service.list_steps(
            self.run_id, max(0, self.number - USUAL_STEPS), self.number + USUAL_STEPS
        )
        seconds: dict[str, list[float]] = {}
        for step in around:
            if step.duration_s is None or step.step == self.number:
                continue
            for stage in step.stages:
                seconds.setdefault(stage.stage, []).append(stage.exclusive_s)
            if step.unattributed_s is not None:
                seconds.setdefault(stages.UNATTRIBUTED, []).append(step.unattributed_s)
        return {name: median(found) for name, found in seconds.items()}

    def key(self) -> object:
        """What every panel depends on: also the passing time while data may still come in."""
        step = self.step
        settled = step.end_ns is not None and self.view.now_ns - step.end_ns > SETTLE_NS
        passing = None if settled else self.view.now_ns // STRIDE_NS
        return (self.run_id, step, self.detail.following, passing)


def _title(reading: StepReading) -> tuple[object, ...]:
    detail, step, run = reading.detail, reading.step, reading.run.summary
    duration = format_duration(step.duration_s) if step.duration_s is not None else "open"
    change = (
        f"{format_change(step.duration_s / detail.usual_s - 1)} against the usual "
        f"{format_duration(detail.usual_s)}"
        if step.duration_s is not None and detail.usual_s
        else ""
    )
    facts = [
        duration,
        change,
        f"{format_whole(step.tokens_total)} tokens" if step.tokens_total is not None else "",
        f"{format_count(step.throughput_tokens_per_s_per_gpu)} tokens/s/GPU"
        if step.throughput_tokens_per_s_per_gpu is not None
        else "",
        f"MFU {format_ratio(step.mfu_step, 1)}" if step.mfu_step is not None else "",
        f"attempt {step.attempt}" if step.attempt > 1 else "",
        f"started {reading.view.zone.format_moment(step.start_ns)}",
    ]
    title = html.Div(
        [
            _neighbour("previous", detail.previous, reading.run_id, "‹"),
            html.H1(f"Step {step.step}"),
            _neighbour("following", detail.following, reading.run_id, "›"),
            dcc.Link(run.name, href=run_address(reading.run_id), className="lp-link"),
            *[html.Span(fact, className="lp-fact") for fact in facts if fact],
        ],
        className="lp-title-row",
    )
    return (title,)


def _neighbour(which: str, number: int | None, run_id: str, sign: str) -> Component:
    label = "Previous step" if which == "previous" else "Next step"
    if number is None:
        return html.Span(sign, className="lp-button lp-disabled", title=f"{label}: none")
    return dcc.Link(
        sign,
        href=step_address(run_id, number),
        id=f"step-{which}",
        className="lp-button",
        title=f"{label} ({'←' if which == 'previous' else '→'})",
    )


def _verdict(reading: StepReading) -> tuple[object, ...]:
    diagnosis = reading.detail.diagnosis
    more = html.Details(
        [
            html.Summary("What to look at next"),
            next_looks(diagnosis.next) if diagnosis.next else None,
            findings_list(diagnosis.findings, diagnosis.data_quality),
        ],
        className="lp-details",
    )
    return (verdict_card(diagnosis, evidence_table(diagnosis.evidence), more),)


def _ledger(reading: StepReading) -> tuple[object, ...]:
    figure = step_ledger(reading.step, reading.usual_s, theme=reading.view.theme)
    return fit_height(figure)


def _timeline(reading: StepReading) -> tuple[object, ...]:
    view = StepView(
        detail=reading.detail,
        heatmap=reading.heatmap,
        trajectories=reading.trajectories,
        open_stage=reading.run.summary.open_stage,
        now_ns=reading.view.now_ns,
        selected=reading.view.query.text("sample"),
    )
    figure, style = fit_height(step_timeline(view, theme=reading.view.theme))
    missing = [
        (bool(reading.trajectories), "Samples", "trajectories"),
        (any(stage.windows for stage in reading.step.stages), "Stage windows", "stages"),
    ]
    chosen = reading.view.query.choice("field", HEAT_FIELDS)
    words = [
        heat_words(chosen, reading.heatmap),
        *(absent(not_reported(source, label)) for found, label, source in missing if not found),
    ]
    return figure, style, words


def _samples(reading: StepReading) -> tuple[object, ...]:
    selected = reading.view.query.text("sample")
    rows = [_sample_row(t, selected) for t in reading.trajectories[:SHOWN_SAMPLES]]
    shown = {"display": "block" if rows else "none"}
    return rows, shown, None if rows else absent(not_reported("trajectories"))


def _sample_row(t: Trajectory, selected: str | None) -> dict[str, object]:
    parts = [
        ("generate", t.generate_s),
        ("tool", t.tool_s),
        ("score", t.score_s),
        ("queue", t.queue_s),
    ]
    return {
        "id": t.trajectory_id,
        "selected": t.trajectory_id == selected,
        "duration": t.duration_s,
        "duration_text": format_duration(t.duration_s),
        "parts": [
            {"kind": kind, "share": seconds / t.duration_s, "colour": PART_COLOURS[kind]}
            for kind, seconds in parts
            if seconds and t.duration_s
        ],
        "tokens": t.output_tokens,
        "tokens_text": format_whole(t.output_tokens),
        "turns": t.turns,
        "turns_text": format_whole(t.turns),
        "tool": t.tool_s,
        "tool_text": format_duration(t.tool_s),
        "reward": t.reward,
        "reward_text": format_count(t.reward),
        "status": t.status or "–",
        "replica": t.replica or "–",
    }


def _spread(reading: StepReading) -> tuple[object, ...]:
    field = reading.view.query.choice("spread", SAMPLE_FIELDS)
    figure = distribution(reading.spread, field=field, theme=reading.view.theme)
    return figure, _partial(reading.spread, reading.step.duration_s)


def _partial(spread: TrajectoryDistribution, step_s: float | None) -> Component | None:
    if not spread.stop_at:
        return None
    largest = max(saved for _, saved in spread.stop_at) or 1.0
    rows = [
        html.Div(
            [
                html.Span(f"stop at {format_ratio(share)}"),
                html.Div(
                    html.I(style={"width": f"{saved / largest * 100:.1f}%"}), className="lp-saved"
                ),
                html.B(format_duration(saved)),
                html.Span(f"−{format_ratio(saved / step_s)} of the step" if step_s else ""),
            ],
            className="lp-partial-row",
        )
        for share, saved in spread.stop_at
    ]
    return html.Div(
        [
            hinted("What partial rollout would have saved", DEFINITIONS["partial"], "lp-overline"),
            *rows,
        ],
        className="lp-partial",
    )


class SampleReading:
    """The chosen sample of a step, if one is chosen."""

    def __init__(self, service: Service, view: View) -> None:
        self.view = view
        self.run_id = view.query.text("run")
        self.sample_id = view.query.text("sample")
        self.service = service

    @cached_property
    def detail(self) -> TrajectoryDetail | None:
        """The sample with its parts and siblings."""
        if self.run_id is None or self.sample_id is None:
            return None
        return self.service.get_trajectory(self.run_id, self.sample_id)


def _sample(reading: SampleReading) -> tuple[object, ...]:
    detail = reading.detail
    if detail is None:
        return (None,)
    t = detail.trajectory
    figure, style = fit_height(sample_waterfall(detail, theme=reading.view.theme))
    facts = (
        ("time", format_duration(t.duration_s)),
        ("input tokens", format_whole(t.input_tokens)),
        ("output tokens", format_whole(t.output_tokens)),
        ("turns", format_whole(t.turns)),
        ("generate", format_duration(t.generate_s)),
        ("tool", format_duration(t.tool_s)),
        ("score", format_duration(t.score_s)),
        ("queue", format_duration(t.queue_s)),
        ("reward", format_count(t.reward)),
        ("status", t.status or "–"),
        ("preemptions", format_whole(t.preemptions)),
        ("replica", t.replica or "–"),
        ("policy version", _versions(t)),
        ("group", t.group_id or "–"),
    )
    body = html.Div(
        [
            html.Div(html.Code(t.trajectory_id), className="lp-sample-id"),
            legend([(kind, colour, "") for kind, colour in PART_COLOURS.items()]),
            dcc.Graph(figure=figure, style=style, config={"displayModeBar": False}),
            html.Dl(
                [html.Div([html.Dt(name), html.Dd(value)]) for name, value in facts],
                className="lp-facts",
            ),
            html.Div(_siblings_words(detail), className="lp-dim"),
        ]
    )
    return (body,)


def _versions(t: Trajectory) -> str:
    if t.policy_version_start is None:
        return "–"
    if t.policy_version_end in (None, t.policy_version_start):
        return str(t.policy_version_start)
    return f"{t.policy_version_start} → {t.policy_version_end}"


def _siblings_words(detail: TrajectoryDetail) -> str:
    if not detail.siblings:
        return "Its group's other samples are not reported."
    others = [sibling.duration_s for sibling in detail.siblings]
    return (
        f"The {len(others)} other samples of its group took {format_duration(median(others))} "
        f"in the middle, {format_duration(max(others))} at most."
    )


PANELS = PanelGroup[StepReading](
    name=GROUP,
    path=STEP_PATH,
    read=StepReading,
    panels=(
        Panel((("step-title", "children"),), StepReading.key, _title),
        Panel((("step-verdict", "children"),), StepReading.key, _verdict),
        Panel((("step-ledger", "figure"), ("step-ledger", "style")), StepReading.key, _ledger),
        Panel(
            (
                ("step-timeline", "figure"),
                ("step-timeline", "style"),
                ("step-absent", "children"),
            ),
            lambda reading: (
                reading.key(),
                reading.view.query.text("field"),
                reading.view.query.text("sample"),
            ),
            _timeline,
        ),
        Panel(
            (
                ("step-samples", "rowData"),
                ("step-samples-table", "style"),
                ("step-samples-absent", "children"),
            ),
            lambda reading: (reading.key(), reading.view.query.text("sample")),
            _samples,
        ),
        Panel(
            (("step-spread-figure", "figure"), ("step-partial", "children")),
            lambda reading: (reading.key(), reading.view.query.text("spread")),
            _spread,
        ),
    ),
)

SAMPLE_PANELS = PanelGroup[SampleReading](
    name=SAMPLE_GROUP,
    path=STEP_PATH,
    read=SampleReading,
    panels=(
        Panel(
            (("sample-body", "children"),),
            lambda reading: (reading.run_id, reading.sample_id),
            _sample,
        ),
    ),
)
