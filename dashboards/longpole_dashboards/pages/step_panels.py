"""The panels of the step page: what each shows, and what it depends on."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from urllib.parse import quote, urlencode

from dash import dcc, html
from dash.development.base_component import Component

from longpole_dashboards.addresses import STEP_PATH, run_address, step_address, trace_address
from longpole_dashboards.components.export import file_link
from longpole_dashboards.components.notice import absent
from longpole_dashboards.components.panel import fit_height
from longpole_dashboards.components.verdict import (
    findings_list,
    folded_evidence,
    next_looks,
    verdict_card,
)
from longpole_dashboards.figures.gpus import HEAT_FIELDS
from longpole_dashboards.figures.ledger import step_ledger
from longpole_dashboards.figures.samples import (
    RUNNING,
    SAMPLE_FIELDS,
    distribution,
    running_samples,
)
from longpole_dashboards.figures.timeline import step_timeline
from longpole_dashboards.figures.timeline_rows import StepView
from longpole_dashboards.formats import (
    NS_PER_S,
    format_change,
    format_count,
    format_duration,
    format_ratio,
    format_whole,
)
from longpole_dashboards.glossary import not_reported, silent_part
from longpole_dashboards.pages.gpu_heat import lane_choices, lane_words
from longpole_dashboards.pages.lane_filter import ONLY
from longpole_dashboards.pages.step_reading import StepReading
from longpole_dashboards.pages.step_tail import tail_costs
from longpole_dashboards.pages.step_window import PART
from longpole_dashboards.refresh import Panel, PanelGroup
from longpole_dashboards.theme import PART_COLOURS
from longpole_server.model.trajectory import Trajectory

GROUP = "step"
HEAD_GROUP = "step-head"
SHOWN_SAMPLES = 100
SHOWN_EVIDENCE = 3


def _title(reading: StepReading) -> tuple[object, ...]:
    step, run, usual_s = reading.step, reading.run.summary, reading.usual_step_s
    previous, following = reading.neighbours
    duration = format_duration(step.duration_s) if step.duration_s is not None else "open"
    change = (
        f"{format_change(step.duration_s / usual_s - 1)} against the usual "
        f"{format_duration(usual_s)}"
        if step.duration_s is not None and usual_s
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
            _neighbour("previous", previous, reading.run_id, "‹"),
            html.H1(f"Step {step.step}"),
            _neighbour("following", following, reading.run_id, "›"),
            dcc.Link(run.name, href=run_address(reading.run_id), className="lp-link"),
            *[html.Span(fact, className="lp-fact") for fact in facts if fact],
            file_link(
                "Trace",
                "Save this step as a Chrome trace: ui.perfetto.dev and chrome://tracing open it",
                trace_address(reading.run_id, step.step),
                f"{run.name}-step-{step.step}.json",
            ),
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
    # The first to be drawn, and as often as all others are.
    reading.read_ahead()
    diagnosis = reading.detail.diagnosis
    more = html.Details(
        [
            html.Summary("What to look at next"),
            next_looks(diagnosis.next) if diagnosis.next else None,
            findings_list(diagnosis.findings, diagnosis.data_quality),
        ],
        className="lp-details",
        id="step-next",
    )
    evidence = folded_evidence(diagnosis.evidence, SHOWN_EVIDENCE, "step-evidence")
    return (verdict_card(diagnosis, *evidence, more),)


def _ledger(reading: StepReading) -> tuple[object, ...]:
    figure = step_ledger(reading.step, reading.usual_s, theme=reading.view.theme)
    return fit_height(figure)


def _timeline(reading: StepReading) -> tuple[object, ...]:
    view = StepView(
        detail=reading.detail,
        heatmap=reading.shown_gpus,
        trajectories=reading.shown_samples,
        open_stage=reading.run.summary.open_stage,
        now_ns=reading.view.now_ns,
        selected=reading.view.query.text("sample"),
        engines=reading.shown_engines,
        chosen_ns=reading.window.chosen_ns,
    )
    figure, style = fit_height(step_timeline(view, theme=reading.view.theme))
    has_windows = any(stage.windows for stage in reading.step.stages)
    chosen, is_part = reading.view.query.choice("field", HEAT_FIELDS), view.chosen_ns is not None
    words = [
        *_part_words(reading),
        *lane_words(chosen, reading.heatmap, reading.shown_gpus, reading.only, is_part=is_part),
        *map(absent, _filter_words(reading)),
        _sync_words(view),
        *map(absent, _missing_words(reading, has_windows=has_windows)),
    ]
    if not (reading.trajectories or reading.heatmap.lanes or has_windows):
        style = {"display": "none"}
    # Of a part of the step those GPUs may be chosen too that report in others.
    gpus = [*reading.heatmap.lanes, *reading.detail.stragglers.gpus]
    return figure, style, words, lane_choices(gpus, reading.replicas)


def _missing_words(reading: StepReading, *, has_windows: bool) -> list[str]:
    """Return what nobody reported: of engines a part of the step alone may have been read."""
    missing = [
        (bool(reading.trajectories), "Samples", "trajectories"),
        (has_windows or reading.step.duration_s is None, "Stage windows", "windows"),
    ]
    words = [not_reported(source, label) for found, label, source in missing if not found]
    if reading.trajectories and not reading.engines.replicas:
        is_part = reading.window.chosen_ns is not None
        words.append(silent_part("Engines") if is_part else not_reported("engines", "Engines"))
    return words


def _sync_words(view: StepView) -> Component | None:
    """Return why a step does not show every phase of its weight sync that was told."""
    num_told, num_shown = len(view.detail.sync_phases), len(view.sync_phases)
    if num_shown == num_told:
        return None
    whose = f"{num_told - num_shown} of {num_told}" if num_shown else "the weight sync"
    return absent(f"Sync phases: {whose} of this step ran outside of it.")


def _filter_words(reading: StepReading) -> list[str]:
    """Return what must be said of the rows that the choice of GPUs does not reach, or empties."""
    only, engines = reading.only, reading.engines
    shown = bool(reading.shown_engines.replicas)
    said = [
        only.say_replicas("Engines", has_any=bool(engines.replicas), has_shown=shown),
        _sample_words(reading),
        only.say_whole("stages, processes and idle GPUs"),
    ]
    return [each for each in said if each is not None]


def _sample_words(reading: StepReading) -> str | None:
    has_any, has_shown = bool(reading.trajectories), bool(reading.chosen_samples)
    return reading.only.say_replicas("Samples", has_any=has_any, has_shown=has_shown)


def _part_words(reading: StepReading) -> list[Component]:
    """Return which part of the step is shown, and the way back to all of it."""
    chosen_ns, start_ns = reading.window.chosen_ns, reading.step.start_ns
    if chosen_ns is None:
        return []
    first, last = (format_duration((at - start_ns) / NS_PER_S) for at in chosen_ns)
    kept = {name: value for name, value in reading.view.query.values.items() if name != PART}
    address = f"{STEP_PATH}?{urlencode(kept, quote_via=quote, safe='')}"
    back = dcc.Link("Show all of it", href=address, id="step-whole", className="lp-link")
    return [html.Div([f"Shown: {first} to {last} of the step. ", back], className="lp-shown")]


def _samples(reading: StepReading) -> tuple[object, ...]:
    selected = reading.view.query.text("sample")
    found = list(reading.shown_samples[:SHOWN_SAMPLES])
    # What was chosen on the timeline stands in the table, however fast it was.
    chosen = [t for t in reading.trajectories if t.trajectory_id == selected and t not in found]
    rows = [_sample_row(t, selected) for t in [*chosen, *found]]
    shown = {"display": "block" if rows else "none"}
    words = _sample_words(reading)
    if not rows and words is None:
        words = "No sample matches." if reading.trajectories else not_reported("trajectories")
    return rows, shown, absent(words) if words else None


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
    spread, detail = reading.spread, reading.detail
    figure = (
        running_samples(spread, theme=reading.view.theme)
        if field == RUNNING
        else distribution(spread, field=field, theme=reading.view.theme)
    )
    said = reading.only.say_whole("all samples of the step") if spread.count else None
    whole = absent(said) if said else None
    if detail.long_tail is not None:
        return figure, [whole, tail_costs(detail.long_tail, reading.step.duration_s)]
    # Nobody needs to be told twice that there are no samples.
    why = detail.long_tail_reason if spread.count else None
    words = f"What the long tail costs is not known: {why}." if why else None
    return figure, [whole, html.Div(words, className="lp-dim") if words else None]


# Shown at once: what follows takes longer to read.
HEAD_PANELS = PanelGroup[StepReading](
    name=HEAD_GROUP,
    path=STEP_PATH,
    read=StepReading,
    panels=(
        Panel((("step-title", "children"),), StepReading.key, _title),
        Panel((("step-ledger", "figure"), ("step-ledger", "style")), StepReading.key, _ledger),
    ),
)
PANELS = PanelGroup[StepReading](
    name=GROUP,
    path=STEP_PATH,
    read=StepReading,
    panels=(
        Panel((("step-verdict", "children"),), StepReading.key, _verdict),
        Panel(
            (
                ("step-timeline", "figure"),
                ("step-timeline", "style"),
                ("step-absent", "children"),
                ("step-only", "data"),
            ),
            lambda reading: (
                reading.key(),
                *(reading.view.query.text(name) for name in ("field", "sample", "only", "q", PART)),
            ),
            _timeline,
        ),
        Panel(
            (
                ("step-samples", "rowData"),
                ("step-samples-table", "style"),
                ("step-samples-absent", "children"),
            ),
            lambda reading: (
                reading.key(),
                *(reading.view.query.text(name) for name in ("sample", "only", "q")),
            ),
            _samples,
        ),
        Panel(
            (("step-spread-figure", "figure"), ("step-partial", "children")),
            lambda reading: (
                reading.key(),
                *(reading.view.query.text(name) for name in ("spread", ONLY)),
            ),
            _spread,
        ),
    ),
)
