"""GPUs, engines and training health of the run page: what takes longest to read."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from longpole_dashboards.addresses import RUN_PATH
from longpole_dashboards.components.notice import absent
from longpole_dashboards.components.panel import fit_height
from longpole_dashboards.figures.engines import engine_lanes
from longpole_dashboards.figures.figure import Figure
from longpole_dashboards.figures.gpus import HEAT_FIELDS, gpu_heatmap
from longpole_dashboards.figures.health import health
from longpole_dashboards.figures.moments import Moment, mark_moments, mark_time_axis
from longpole_dashboards.figures.template import message_figure
from longpole_dashboards.glossary import not_reported
from longpole_dashboards.pages.gpu_heat import lane_choices, lane_words
from longpole_dashboards.pages.lane_filter import ONLY
from longpole_dashboards.pages.run_moments import list_moments, list_syncs
from longpole_dashboards.pages.run_reading import RunReading
from longpole_dashboards.refresh import Panel, PanelGroup
from longpole_server.model.gpu import GpuHeatmap
from longpole_server.model.step import Step
from longpole_server.service import MetricSeries

HEALTH_METRICS = (
    "reward_mean",
    "response_length_mean",
    "kl_ref",
    "entropy",
    "clip_fraction",
    "truncated_ratio",
)


# Of what the rule of an alert reads: names that are looked for, and metrics that are shown.
_MAX_ASKED = 16
_SHOWN_ASKED = 3
_TOKENS = "tokens_total"
_WHOLE_RUN = "the stages above, and charts other than GPUs and engines"


def _gpus(reading: RunReading) -> tuple[object, ...]:
    view, heatmap = reading.view, reading.shown_gpus
    steps = _steps_in(reading, reading.span_ns[0])
    figure = gpu_heatmap(
        heatmap,
        steps,
        reading.run.open_stage if reading.is_open else None,
        now_ns=view.now_ns,
        span_ns=reading.span_ns,
        zone=view.zone,
        theme=view.theme,
    )
    asked, said = view.query.choice("field", HEAT_FIELDS), reading.only.say_whole(_WHOLE_RUN)
    words = lane_words(asked, reading.heatmap, heatmap, reading.only)
    words += [absent(said)] if said else []
    has_bands = any(stage.windows for step in steps for stage in step.stages)
    choices = lane_choices(reading.heatmap.lanes, reading.engines.replicas)
    if not heatmap.lanes and not has_bands:
        return figure, {"display": "none"}, words, "", choices
    _map_steps(figure, steps, reading)
    mark_moments(figure, list_moments(reading, "time"))
    mark_time_axis(figure, _syncs_in(reading, steps))
    return *fit_height(figure), words, _hardware(heatmap), choices


def _map_steps(figure: Figure, steps: Sequence[Step], reading: RunReading) -> None:
    """Tell the browser when every step ran, so that one place is the same one on all charts."""
    now_ns = reading.view.now_ns
    start_ns, end_ns = reading.span_ns
    shown = [
        step for step in steps if step.start_ns < end_ns and (step.end_ns or now_ns) > start_ns
    ]
    ends_ns = [(step.start_ns, step.end_ns or max(now_ns, step.start_ns)) for step in shown]
    ends_ms = reading.view.zone.local_ms(np.array(ends_ns, dtype=np.int64).reshape(-1, 2))
    ran = [[step.step, *ends] for step, ends in zip(shown, ends_ms.tolist(), strict=True)]
    figure.update_layout(meta={"steps": ran})


def _engines(reading: RunReading) -> tuple[object, ...]:
    lanes = reading.shown_engines
    has_any, has_shown = bool(reading.engines.replicas), bool(lanes.replicas)
    said = reading.only.say_replicas("Engines", has_any=has_any, has_shown=has_shown)
    if not has_shown:
        words = absent(said or not_reported("engines", "Engines"))
        return message_figure("", reading.view.theme), {"display": "none"}, words
    view = reading.view
    figure = engine_lanes(lanes, reading.span_ns, zone=view.zone, theme=view.theme)
    mark_moments(figure, list_moments(reading, "time"))
    mark_time_axis(figure, _syncs_in(reading, _steps_in(reading, reading.span_ns[0])))
    figure.update_layout(uirevision=f"{reading.span_ns}")
    return *fit_height(figure), absent(said) if said else None


def _steps_in(reading: RunReading, start_ns: int) -> Sequence[Step]:
    """Return steps that reach back to a time; the charts' own, if those do."""
    steps = reading.steps
    if steps and (steps[0].start_ns <= start_ns or steps[0].step == reading.run.first_step):
        return steps
    newest = reading.run.last_step
    is_zoomed = reading.window.is_chosen
    return reading.list_steps(None if is_zoomed or newest is None else max(0, newest - 200))


def _syncs_in(reading: RunReading, steps: Sequence[Step]) -> list[Moment]:
    """Return the weight syncs of the shown time."""
    start_ns, end_ns = reading.span_ns
    shown = [
        step for step in steps if step.start_ns < end_ns and (step.end_ns or end_ns) > start_ns
    ]
    return list_syncs(reading, shown)


def _hardware(heatmap: GpuHeatmap) -> str:
    models = sorted({lane.model.removeprefix("NVIDIA ") for lane in heatmap.lanes if lane.model})
    nodes = len({lane.host for lane in heatmap.lanes})
    places = f"{nodes} node{'s' if nodes > 1 else ''}"
    return f"{len(heatmap.lanes)} × {' / '.join(models) or 'GPU'} on {places}"


def _choose_health(reading: RunReading) -> Mapping[str, MetricSeries]:
    """Return the metrics to draw: first what the alert that led here is about."""
    usual = reading.get_metrics(HEALTH_METRICS)
    asked = [name for name in reading.asked_metrics if name not in usual][:_MAX_ASKED]
    if not asked:
        return usual
    found = {
        # Where a loss stopped being a number its line ends.
        name: replace(each, points=tuple(p for p in each.points if math.isfinite(p[2])))
        for name, each in reading.get_metrics(tuple(asked)).items()
    }
    if _TOKENS in found:
        # No scalar that trainers log, and on no other chart: it is a figure of the steps.
        found[_TOKENS] = MetricSeries(
            _TOKENS,
            tuple(
                (step.step, step.end_ns or step.start_ns, float(step.tokens_total))
                for step in reading.steps
                if step.tokens_total is not None
            ),
        )
    first = {name: each for name, each in found.items() if each.points}
    chosen = [*list(first)[:_SHOWN_ASKED], *usual][: len(usual)]
    return {name: first.get(name) or usual[name] for name in chosen}


def _health(reading: RunReading) -> tuple[object, ...]:
    series = _choose_health(reading)
    if not any(found.points for found in series.values()):
        return (message_figure(not_reported("metrics"), reading.view.theme),)
    if reading.window.is_chosen:
        shown = {step.step for step in reading.drawn}
        series = {
            name: replace(found, points=tuple(p for p in found.points if p[0] in shown))
            for name, found in series.items()
        }
    figure = health(series, axis=reading.axis, zone=reading.view.zone, theme=reading.view.theme)
    mark_moments(figure, list_moments(reading, reading.axis, with_checkpoints=False))
    if reading.axis == "time":
        mark_time_axis(figure, list_syncs(reading, reading.drawn))
    return (reading.revise(figure),)


PANELS = PanelGroup[RunReading](
    name="run-slow",
    path=RUN_PATH,
    read=RunReading,
    panels=(
        Panel(
            (
                ("run-gpus", "figure"),
                ("run-gpus", "style"),
                ("run-gpus-absent", "children"),
                ("run-gpus-aside", "children"),
                ("run-only", "data"),
            ),
            lambda reading: (
                reading.run_id,
                reading.span_ns,
                reading.view.query.text("field"),
                reading.view.query.text("only"),
                reading.run.num_steps,
                reading.alerts_key(),
            ),
            _gpus,
        ),
        Panel(
            (
                ("run-engines", "figure"),
                ("run-engines", "style"),
                ("run-engines-absent", "children"),
            ),
            lambda reading: (
                reading.run_id,
                reading.span_ns,
                reading.alerts_key(),
                reading.view.query.text(ONLY),
            ),
            _engines,
        ),
        Panel(
            (("run-health", "figure"),),
            lambda reading: (
                reading.closed_key(),
                reading.alerts_key(),
                reading.view.query.text("alert"),
            ),
            _health,
        ),
    ),
)
