"""What the step page draws from: one step as one browser looks at it."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from statistics import median

from longpole.conventions import stages
from longpole_dashboards.figures.gpus import HEAT_FIELDS
from longpole_dashboards.pages.gpu_heat import read_heatmap
from longpole_dashboards.pages.lane_filter import ONLY, LaneFilter, open_filter
from longpole_dashboards.pages.step_window import StepWindow
from longpole_dashboards.reading import Reader
from longpole_dashboards.refresh import View
from longpole_server.errors import NotFoundError
from longpole_server.model.engines import EngineLanes
from longpole_server.model.gpu import GpuHeatmap
from longpole_server.model.run import RunDetail
from longpole_server.model.step import Step
from longpole_server.model.trajectory import Trajectory
from longpole_server.service import StepDetail, TrajectoryDistribution

MAX_SAMPLES = 10_000
MAX_HEAT_BINS = 600
MAX_ENGINE_BINS = 300
# Steps that say what is usual.
USUAL_STEPS = 40
# An open step is drawn anew this often, and a closed one until its last samples have come in.
STRIDE_NS = 2_000_000_000
SETTLE_NS = 60_000_000_000
# What is said of a settled step late, by an agent that was cut off, is seen after so long.
_SETTLED_STRIDE_NS = 30_000_000_000


class StepReading:
    """One step as one browser looks at it; everything is read when it is first asked for."""

    def __init__(self, reader: Reader, view: View) -> None:
        self.view = view
        self.service = reader.service
        self._reader = reader
        self._memory = reader.memory
        self._version = reader.service.changes.current.version
        run_id, number = view.query.text("run"), view.query.number("step")
        if run_id is None or number is None:
            raise NotFoundError("The address names no step.", "Choose one from a run.")
        self.run_id = run_id
        self.number = number

    @cached_property
    def detail(self) -> StepDetail:
        """The step with everything around it."""
        question = ("step", self.run_id, self.number)
        return self._memory.ask(
            question, self._token, lambda: self.service.get_step(self.run_id, self.number)
        )

    @property
    def _token(self) -> Hashable:
        return (self.run.summary.num_steps, self.view.now_ns // STRIDE_NS)

    @property
    def _large_token(self) -> Hashable:
        """As long as this holds, searching and filtering read nothing anew."""
        stride_ns = _SETTLED_STRIDE_NS if self.is_settled else STRIDE_NS
        return (self.service.get_revision(self.run_id), self.view.now_ns // stride_ns)

    @property
    def is_settled(self) -> bool:
        """Whether the last data of the step has come, as far as anybody can tell."""
        end_ns = self.step.end_ns
        return end_ns is not None and self.view.now_ns - end_ns > SETTLE_NS

    def read_ahead(self) -> None:
        """Begin to read what the panels need beside `detail`, side by side."""
        # What these are made of is read before, once.
        token, window = self._large_token, self.window
        for ask in (
            lambda: self._ask_trajectories(token),
            lambda: self._ask_heatmap(token, window),
            lambda: self._ask_engines(token, window),
        ):
            self._reader.begin(ask)

    @cached_property
    def around(self) -> Sequence[Step]:
        """The step and those before and after it, in order: read in a fraction of `detail`."""
        question = ("around", self.run_id, self.number)
        first, last = max(0, self.number - USUAL_STEPS), self.number + USUAL_STEPS
        return self._memory.ask(
            question, self._token, lambda: self.service.list_steps(self.run_id, first, last)
        )

    @cached_property
    def step(self) -> Step:
        """The step itself."""
        found = next((step for step in self.around if step.step == self.number), None)
        return found or self.detail.step

    @cached_property
    def neighbours(self) -> tuple[int | None, int | None]:
        """Numbers of the steps before and after, None at an end."""
        run = self.run.summary
        before = [step.step for step in self.around if step.step < self.number]
        after = [step.step for step in self.around if step.step > self.number]
        # Where numbers leap, a neighbour is further away than what is around.
        is_first = run.first_step is None or run.first_step >= self.number
        is_last = run.last_step is None or run.last_step <= self.number
        return (
            before[-1] if before else None if is_first else self.detail.previous,
            after[0] if after else None if is_last else self.detail.following,
        )

    @cached_property
    def usual_step_s(self) -> float | None:
        """Median seconds of the steps around this one."""
        lengths = [
            step.duration_s
            for step in self.around
            if step.duration_s is not None and step.step != self.number
        ]
        return median(lengths) if lengths else None

    @cached_property
    def run(self) -> RunDetail:
        """The run it belongs to."""
        question = ("run", self.run_id)
        return self._memory.ask(question, self._version, lambda: self.service.get_run(self.run_id))

    @cached_property
    def trajectories(self) -> Sequence[Trajectory]:
        """Its samples, slowest first."""
        return self._ask_trajectories(self._large_token)

    def _ask_trajectories(self, token: Hashable) -> Sequence[Trajectory]:
        return self._reader.large.ask(
            ("trajectories", self.run_id, self.number),
            token,
            lambda: self.service.list_trajectories(
                self.run_id, self.number, "-duration", MAX_SAMPLES
            ),
        )

    @cached_property
    def spread(self) -> TrajectoryDistribution:
        """Its training samples as columns."""
        return self._reader.large.ask(
            ("spread", self.run_id, self.number),
            self._large_token,
            lambda: self.service.get_distribution(self.run_id, self.number),
        )

    @property
    def _end_ns(self) -> int:
        return self.step.end_ns or max(self.view.now_ns, self.step.start_ns + 1_000_000_000)

    @cached_property
    def window(self) -> StepWindow:
        """The part of the step that the timeline shows."""
        return StepWindow.parse(self.view.query, self.step.start_ns, self._end_ns)

    @cached_property
    def heatmap(self) -> GpuHeatmap:
        """Its GPUs over the shown time."""
        return self._ask_heatmap(self._large_token, self.window)

    def _ask_heatmap(self, token: Hashable, window: StepWindow) -> GpuHeatmap:
        field = self.view.query.choice("field", HEAT_FIELDS)
        return self._reader.large.ask(
            ("step-heatmap", self.run_id, self.number, field, window.chosen_ns),
            token,
            lambda: read_heatmap(self.service, self.run_id, field, window.read_ns, MAX_HEAT_BINS),
        )

    @cached_property
    def shown_gpus(self) -> GpuHeatmap:
        """Those of the node, role or replica that was chosen."""
        return self.only.select_gpus(self.heatmap)

    @cached_property
    def shown_engines(self) -> EngineLanes:
        """Those of the node or replica that was chosen."""
        return self.only.select_engines(self.engines)

    @cached_property
    def replicas(self) -> Sequence[str]:
        """Those that made samples, or whose engines told of themselves."""
        return sorted({*self.detail.replicas, *self.engines.replicas})

    @cached_property
    def only(self) -> LaneFilter:
        """The node, role or replica that was chosen."""
        asked = self.view.query.text(ONLY)
        if LaneFilter.parse(asked).kind is None:
            return LaneFilter()
        replicas, span_ns = self.replicas, self.window.whole_ns
        return self._memory.ask(
            ("step-only", self.run_id, self.number, asked, tuple(replicas)),
            self._large_token,
            lambda: open_filter(
                self.service, self.run_id, asked, replicas, span_ns, self.step.attempt
            ),
        )

    @cached_property
    def shown_samples(self) -> Sequence[Trajectory]:
        """Those of the choice, that match what was searched for."""
        words = (self.view.query.text("q") or "").lower().split()
        return [t for t in self.chosen_samples if all(word in _describe(t) for word in words)]

    @cached_property
    def chosen_samples(self) -> Sequence[Trajectory]:
        """Those of the replica, or of the replicas on the node, that was chosen."""
        if not self.only.narrows_replicas:
            return self.trajectories
        return [t for t in self.trajectories if self.only.keeps_replica(t.replica)]

    @cached_property
    def engines(self) -> EngineLanes:
        """What the rollout engines reported in the shown time."""
        return self._ask_engines(self._large_token, self.window)

    def _ask_engines(self, token: Hashable, window: StepWindow) -> EngineLanes:
        attempt = self.step.attempt
        return self._reader.large.ask(
            ("step-engines", self.run_id, self.number, window.chosen_ns),
            token,
            lambda: self.service.get_engine_lanes(
                self.run_id, *window.read_ns, MAX_ENGINE_BINS, attempt
            ),
        )

    @cached_property
    def usual_s(self) -> Mapping[str, float]:
        """Median exclusive seconds per stage over the steps around this one."""
        seconds: dict[str, list[float]] = {}
        for step in self.around:
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
        passing = None if self.is_settled else self.view.now_ns // STRIDE_NS
        return (self.run_id, step, self.neighbours, passing)


def _describe(t: Trajectory) -> str:
    parts = (t.trajectory_id, t.group_id, t.status, t.replica)
    return " ".join(part.lower() for part in parts if part)
