"""What the run page draws from: one run as one browser looks at it."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property

from longpole.conventions import stages
from longpole_dashboards.figures.figure import Figure, address_zoom
from longpole_dashboards.figures.gpus import HEAT_FIELDS
from longpole_dashboards.formats import NS_PER_S
from longpole_dashboards.pages.gpu_heat import read_heatmap
from longpole_dashboards.pages.lane_filter import ONLY, LaneFilter, open_filter
from longpole_dashboards.pages.run_window import TIME, ZOOM, RunWindow
from longpole_dashboards.reading import Reader
from longpole_dashboards.refresh import View
from longpole_server.errors import NotFoundError
from longpole_server.model.alert import Alert, RuleStatus
from longpole_server.model.annotations import VerdictChange
from longpole_server.model.diagnosis import Diagnosis
from longpole_server.model.engines import EngineLanes
from longpole_server.model.gpu import GpuHeatmap
from longpole_server.model.run import RunDetail, RunSummary
from longpole_server.model.step import Step
from longpole_server.service import MetricSeries

# How many of the last steps the charts show, and how many minutes the GPUs.
RANGES = ("40", "200", "all")
SPANS = ("10", "30", "120")
MAX_HEAT_BINS = 720
MAX_ENGINE_BINS = 300
# A live heat-map moves on in strides, so that its picture does not change at every tick.
_HEAT_STRIDE_NS = 5 * NS_PER_S
_HEAT_STRIDES = 120


class RunReading:
    """One run as one browser looks at it; everything is read when it is first asked for."""

    def __init__(self, reader: Reader, view: View) -> None:
        self.view = view
        self._service = reader.service
        self._memory = reader.memory
        self._version = reader.service.changes.current.version
        run_id = view.query.text("id")
        if run_id is None:
            raise NotFoundError("The address names no run.", "Choose one from the list of runs.")
        self.run_id = run_id
        # Taken before anything is read: what changes meanwhile is read at the next look.
        self._revision = self._service.get_revision(run_id)

    @cached_property
    def detail(self) -> RunDetail:
        """The run."""
        question = ("run", self.run_id)
        return self._memory.ask(question, self._version, lambda: self._service.get_run(self.run_id))

    @property
    def run(self) -> RunSummary:
        """Its summary."""
        return self.detail.summary

    @cached_property
    def progress(self) -> Hashable:
        """Changes with the run's steps."""
        run, stage = self.run, self.run.open_stage
        return (run.state, self._revision, stage and (stage.step, stage.stage))

    def list_steps(self, first: int | None) -> Sequence[Step]:
        """Return the steps from `first` on, the open one last."""
        return self._memory.ask(
            ("steps", self.run_id, first),
            self.progress,
            lambda: self._service.list_steps(self.run_id, first),
        )

    @cached_property
    def steps(self) -> Sequence[Step]:
        """The steps the charts show, the open one last."""
        chosen = self.view.query.choice("steps", RANGES)
        newest = self.run.last_step
        if chosen == "all" or newest is None:
            return self.list_steps(None)
        first = max(0, newest - int(chosen) + 1)
        return self.list_steps(
            first if self.asked_steps is None else min(first, self.asked_steps[0])
        )

    @cached_property
    def alerts(self) -> Sequence[Alert]:
        """Its open alerts, and those that were over not long ago, newest first."""
        return self._service.alerts.list_alerts(run_id=self.run_id)

    @cached_property
    def asked_metrics(self) -> tuple[str, ...]:
        """What the alert that the address names stands on, and what its rule reads."""
        asked = self.view.query.text("alert")
        alert = next((each for each in self.alerts if each.alert_id == asked), None)
        if alert is None:
            return ()
        reads = next((rule.reads for rule in self._rules if rule.rule_id == alert.rule), ())
        return tuple(dict.fromkeys([*(each.name for each in alert.evidence), *reads]))

    @cached_property
    def rule_titles(self) -> Mapping[str, str]:
        """Rule id -> title."""
        return {rule.rule_id: rule.title for rule in self._rules}

    @cached_property
    def _rules(self) -> Sequence[RuleStatus]:
        return self._memory.ask("rules", self._version, self._service.alerts.list_rules)

    @cached_property
    def asked_steps(self) -> tuple[int, int] | None:
        """The steps that the address points at, first and last."""
        first, last = self.view.query.number("from"), self.view.query.number("to")
        if first is None and last is None:
            return None
        bounds = [bound for bound in (first, last) if bound is not None]
        return min(bounds), max(bounds)

    def alerts_key(self) -> object:
        """What the marks and lines of alerts depend on."""
        facts = [
            (alert.alert_id, alert.state, alert.last_step, alert.acknowledged, alert.silence_id)
            for alert in self.alerts
        ]
        return (self.run_id, facts, self.asked_steps)

    @cached_property
    def drawn(self) -> Sequence[Step]:
        """Those of the part that was chosen, and a neighbour on either side."""
        shown = self.window.as_steps(self.steps, self.view.now_ns)
        if shown is None:
            return self.steps
        inside = [step for step in self.steps if shown[0] - 1 <= step.step <= shown[1] + 1]
        return inside or self.steps

    @cached_property
    def saved(self) -> frozenset[int]:
        """Numbers of the steps with a checkpoint in them or after them."""
        steps = self.steps
        question = ("saved", self.run_id, steps[0].step if steps else None)
        return self._memory.ask(question, self.progress, lambda: _find_saved(steps))

    @cached_property
    def closed(self) -> Sequence[Step]:
        """Those that have ended."""
        return [step for step in self.steps if step.duration_s is not None]

    @cached_property
    def verdict_changes(self) -> Sequence[VerdictChange]:
        """Where the verdict changed and stayed."""
        question = ("changes", self.run_id)
        return self._memory.ask(
            question, self.progress, lambda: self._service.list_verdict_changes(self.run_id)
        )

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """The verdict over the last judged steps."""
        question = ("diagnosis", self.run_id)
        return self._memory.ask(
            question, self.progress, lambda: self._service.diagnose(self.run_id)
        )

    def get_metrics(self, names: tuple[str, ...]) -> Mapping[str, MetricSeries]:
        """Return metrics of the run by name."""
        question = ("metrics", self.run_id, names)
        return self._memory.ask(
            question, self.progress, lambda: self._service.get_metrics(self.run_id, names)
        )

    @cached_property
    def heatmap(self) -> GpuHeatmap:
        """The chosen GPU field over the shown time."""
        field = self.view.query.choice("field", HEAT_FIELDS)
        return read_heatmap(self._service, self.run_id, field, self.span_ns, MAX_HEAT_BINS)

    @cached_property
    def shown_gpus(self) -> GpuHeatmap:
        """Those of the node, role or replica that was chosen."""
        return self.only.select_gpus(self.heatmap)

    @cached_property
    def shown_engines(self) -> EngineLanes:
        """Those of the node or replica that was chosen."""
        return self.only.select_engines(self.engines)

    @cached_property
    def only(self) -> LaneFilter:
        """The node, role or replica that was chosen."""
        asked = self.view.query.text(ONLY)
        if LaneFilter.parse(asked).kind is None:
            return LaneFilter()
        return open_filter(self._service, self.run_id, asked, self.engines.replicas, self.span_ns)

    @cached_property
    def engines(self) -> EngineLanes:
        """What the rollout engines reported over the shown time."""
        return self._service.get_engine_lanes(self.run_id, *self.span_ns, MAX_ENGINE_BINS)

    @cached_property
    def window(self) -> RunWindow:
        """The part of the run that was chosen on one of its charts."""
        return RunWindow.parse(self.view.query)

    @cached_property
    def span_ns(self) -> tuple[int, int]:
        """The time that GPUs and engines show: what was chosen, else the newest minutes."""
        asked = self.window.as_span_ns(self.steps, self.view.now_ns)
        if asked is not None:
            return asked
        length_ns = int(self.view.query.choice("span", SPANS)) * 60 * NS_PER_S
        stride_ns = max(_HEAT_STRIDE_NS, length_ns // _HEAT_STRIDES)
        end_ns = self.view.now_ns if self.is_open else self.run.last_seen_ns
        end_ns += stride_ns - end_ns % stride_ns
        return max(self.run.started_ns, end_ns - length_ns), end_ns

    @property
    def is_open(self) -> bool:
        """Whether more may come."""
        return self.run.state in ("live", "stalled")

    @property
    def axis(self) -> str:
        """`step` or `time`."""
        return self.view.query.choice("axis", ("step", "time"))

    def revise(self, figure: Figure, *more: str) -> Figure:
        """Show the part of a figure that the address chooses; no other zoom is kept."""
        query = self.view.query
        chosen = (query.text(ZOOM) or "", query.text(TIME) or "")
        parts = (self.run_id, query.choice("steps", RANGES), self.axis, *chosen, *more)
        figure.update_layout(uirevision="|".join(parts), meta=address_zoom(self.axis))
        if self.axis == "time":
            span_ns = self.window.as_span_ns(self.steps, self.view.now_ns)
            shown = None if span_ns is None else [self.view.zone.local(end) for end in span_ns]
        else:
            shown = self.window.as_steps(self.steps, self.view.now_ns)
        if shown is not None:
            figure.update_layout(xaxis={"range": list(shown), "autorange": False})
        return figure

    def step_key(self) -> object:
        """What a chart of all steps depends on."""
        return (self.run_id, self.axis, self.window, self._marks[0])

    def closed_key(self) -> object:
        """What a chart of finished steps depends on: stages of the open one change nothing."""
        return (self.run_id, self.axis, self.window, self._marks[1])

    @cached_property
    def _marks(self) -> tuple[int, int]:
        """Change with what charts show of the steps, and of the closed ones."""
        steps = self.steps
        question = ("marks", self.run_id, steps[0].step if steps else None)
        return self._memory.ask(question, self.progress, lambda: _mark(steps))


def _find_saved(steps: Sequence[Step]) -> frozenset[int]:
    name = stages.SAVE_CHECKPOINT
    inside = (step.step for step in steps for stage in step.stages if stage.stage == name)
    between = (step.step for step in steps for stage in step.outside if stage.stage == name)
    return frozenset((*inside, *between))


def _mark(steps: Sequence[Step]) -> tuple[int, int]:
    prints = [_fingerprint(step) for step in steps]
    closed = [each for each, step in zip(prints, steps, strict=True) if step.duration_s is not None]
    return hash(tuple(prints)), hash(tuple(closed))


def _fingerprint(step: Step) -> int:
    spent = tuple((stage.stage, stage.exclusive_s) for stage in step.stages)
    shown = (step.step, step.attempt, step.duration_s, step.verdict, step.tokens_total)
    return hash((*shown, spent, step.outside))
