"""What the sample page draws from: one sample with its group, as one browser looks at it."""

# pyright: reportMissingTypeStubs=false

from collections.abc import Mapping, Sequence
from functools import cached_property

from longpole_dashboards.formats import NS_PER_S
from longpole_dashboards.reading import Reader
from longpole_dashboards.refresh import View
from longpole_server.errors import NotFoundError
from longpole_server.model.run import RunDetail
from longpole_server.model.step import Step
from longpole_server.model.trajectory import Trajectory, TrajectoryDetail, TrajectoryPart
from longpole_server.service import TrajectoryDistribution

# Siblings of a sample come in for so long; until then it is looked at anew this often.
_SETTLE_NS = 120 * NS_PER_S
_STRIDE_NS = 5 * NS_PER_S


class SamplePageReading:
    """One sample as one browser looks at it; everything is read when it is first asked for."""

    def __init__(self, reader: Reader, view: View) -> None:
        self.view = view
        self._service = reader.service
        self._memory = reader.memory
        self._version = reader.service.changes.current.version
        run_id, sample_id = view.query.text("run"), view.query.text("id")
        if run_id is None or sample_id is None:
            raise NotFoundError("The address names no sample.", "Choose one from a step.")
        self.run_id = run_id
        self.sample_id = sample_id

    @cached_property
    def detail(self) -> TrajectoryDetail:
        """The sample with its parts and siblings."""
        return self._memory.ask(
            ("sample", self.run_id, self.sample_id),
            self.view.now_ns // _STRIDE_NS,
            lambda: self._service.get_trajectory(self.run_id, self.sample_id),
        )

    @property
    def sample(self) -> Trajectory:
        """The sample itself."""
        return self.detail.trajectory

    @cached_property
    def group(self) -> Sequence[Trajectory]:
        """The sample and its siblings, the last to end first."""
        members = (self.sample, *self.detail.siblings)
        return sorted(members, key=lambda member: (-member.end_ns, member.trajectory_id))

    @cached_property
    def parts(self) -> Mapping[str, Sequence[TrajectoryPart]]:
        """Where the time of each of the group went, by sample."""
        siblings = self._memory.ask(
            ("sibling-parts", self.run_id, self.sample_id),
            self.key(),
            lambda: self._service.get_sibling_parts(self.run_id, self.sample_id),
        )
        return {**siblings, self.sample_id: self.detail.spans}

    @cached_property
    def run(self) -> RunDetail:
        """The run it belongs to."""
        question = ("run", self.run_id)
        return self._memory.ask(question, self._version, lambda: self._service.get_run(self.run_id))

    @cached_property
    def step(self) -> Step | None:
        """The step it belongs to, None while that is not known."""
        number = self.sample.step
        if number < 0:
            return None
        found = self._memory.ask(
            ("steps-of", self.run_id, number),
            self.view.now_ns // _STRIDE_NS,
            lambda: self._service.list_steps(self.run_id, number, number),
        )
        return found[-1] if found else None

    @cached_property
    def spread(self) -> TrajectoryDistribution:
        """All training samples of its step."""
        if self.step is None:
            return TrajectoryDistribution(0, (), (), (), (), ())
        return self._memory.ask(
            ("spread", self.run_id, self.sample.step),
            self.key(),
            lambda: self._service.get_distribution(self.run_id, self.sample.step),
        )

    def key(self) -> object:
        """What every panel depends on: also the passing time while siblings may come in."""
        settled = self.view.now_ns - self.sample.end_ns > _SETTLE_NS
        passing = None if settled else self.view.now_ns // _STRIDE_NS
        return (self.run_id, self.sample_id, len(self.detail.siblings), passing)
