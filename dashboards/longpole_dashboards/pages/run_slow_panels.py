"""GPUs and training health of the run page: what takes longest to read."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Sequence

from longpole_dashboards.addresses import RUN_PATH
from longpole_dashboards.components.panel import fit_height
from longpole_dashboards.figures.gpus import HEAT_FIELDS, gpu_heatmap
from longpole_dashboards.figures.health import health
from longpole_dashboards.figures.template import message_figure
from longpole_dashboards.glossary import not_reported
from longpole_dashboards.pages.gpu_heat import heat_words
from longpole_dashboards.pages.run_reading import RunReading
from longpole_dashboards.refresh import Panel, PanelGroup
from longpole_server.model.gpu import GpuHeatmap
from longpole_server.model.step import Step

HEALTH_METRICS = (
    "reward_mean",
    "response_length_mean",
    "kl_ref",
    "entropy",
    "clip_fraction",
    "truncated_ratio",
)


def _gpus(reading: RunReading) -> tuple[object, ...]:
    view, heatmap = reading.view, reading.heatmap
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
    words = heat_words(view.query.choice("field", HEAT_FIELDS), heatmap)
    has_bands = any(stage.windows for step in steps for stage in step.stages)
    if not heatmap.lanes and not has_bands:
        return figure, {"display": "none"}, words, ""
    return *fit_height(figure), words, _hardware(heatmap)


def _steps_in(reading: RunReading, start_ns: int) -> Sequence[Step]:
    """Return steps that reach back to a time; the charts' own, if those do."""
    steps = reading.steps
    if steps and (steps[0].start_ns <= start_ns or steps[0].step == reading.run.first_step):
        return steps
    newest = reading.run.last_step
    is_zoomed = reading.view.query.span_ms("time") is not None
    return reading.list_steps(None if is_zoomed or newest is None else max(0, newest - 200))


def _hardware(heatmap: GpuHeatmap) -> str:
    models = sorted({lane.model.removeprefix("NVIDIA ") for lane in heatmap.lanes if lane.model})
    nodes = len({lane.host for lane in heatmap.lanes})
    places = f"{nodes} node{'s' if nodes > 1 else ''}"
    return f"{len(heatmap.lanes)} × {' / '.join(models) or 'GPU'} on {places}"


def _health(reading: RunReading) -> tuple[object, ...]:
    series = reading.get_metrics(HEALTH_METRICS)
    if not any(found.points for found in series.values()):
        return (message_figure(not_reported("metrics"), reading.view.theme),)
    return (reading.revise(health(series, theme=reading.view.theme)),)


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
            ),
            lambda reading: (
                reading.run_id,
                reading.span_ns,
                reading.view.query.text("field"),
                reading.run.num_steps,
            ),
            _gpus,
        ),
        Panel((("run-health", "figure"),), RunReading.closed_key, _health),
    ),
)
