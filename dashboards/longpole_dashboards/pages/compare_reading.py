"""What the compare page draws from: two windows of steps, of two runs or of one."""

# pyright: reportMissingTypeStubs=false

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property

from longpole_dashboards.addresses import Window
from longpole_dashboards.formats import NS_PER_S
from longpole_dashboards.reading import Reader
from longpole_dashboards.refresh import View
from longpole_server.model.comparison import Comparison
from longpole_server.model.run import RunSummary
from longpole_server.service import StepRange

# Steps of a window when nobody says which.
WINDOW_STEPS = 20
# A comparison with a live run is made anew this often at most.
_STRIDE_NS = 5 * NS_PER_S


@dataclass(frozen=True, slots=True)
class Asked:
    """What the address asks for: `run` now against `other` before."""

    run_id: str
    other_id: str
    steps: Window
    other_steps: Window


class CompareReading:
    """Two windows as one browser looks at them; everything is read when it is first asked for."""

    def __init__(self, reader: Reader, view: View) -> None:
        self.view = view
        self._service = reader.service
        self._memory = reader.memory
        self._version = reader.service.changes.current.version

    @cached_property
    def runs(self) -> Sequence[RunSummary]:
        """All runs."""
        return self._memory.ask("runs", self._version, self._service.list_runs)

    @cached_property
    def asked(self) -> Asked | None:
        """The two windows, None while no run is chosen."""
        query = self.view.query
        run_id = query.text("a")
        if run_id is None:
            return None
        other_id = query.text("b") or run_id
        steps = (query.number("from"), query.number("to"))
        other_steps = (query.number("b_from"), query.number("b_to"))
        if other_id == run_id and not any(bound is not None for bound in (*steps, *other_steps)):
            steps, other_steps = self.first_and_last(run_id)
        return Asked(run_id, other_id, steps, other_steps)

    def first_and_last(self, run_id: str) -> tuple[Window, Window]:
        """Return the newest steps of a run, and its first ones."""
        run = next((run for run in self.runs if run.run_id == run_id), None)
        if run is None:
            return (None, None), (None, None)
        return last_and_first_steps(run)

    @cached_property
    def comparison(self) -> Comparison | None:
        """What changed between them."""
        asked = self.asked
        if asked is None:
            return None
        return self._memory.ask(
            ("compare", asked),
            self._token(asked.run_id, asked.other_id),
            lambda: self._service.compare(
                asked.run_id,
                asked.other_id,
                StepRange(*asked.steps),
                StepRange(*asked.other_steps),
            ),
        )

    def _token(self, *run_ids: str) -> Hashable:
        return tuple(self._service.get_revision(run_id) for run_id in run_ids)

    def key(self) -> object:
        """What every panel depends on."""
        asked = self.asked
        if asked is None:
            return None
        is_live = any(
            run.state in ("live", "stalled")
            for run in self.runs
            if run.run_id in (asked.run_id, asked.other_id)
        )
        passing = self.view.now_ns // _STRIDE_NS if is_live else None
        return (asked, passing and self._token(asked.run_id, asked.other_id))


def last_and_first_steps(run: RunSummary) -> tuple[Window, Window]:
    """Return the newest steps of a run, and its first ones: half of them each in a short run."""
    first, last = run.first_step, run.last_step
    if first is None or last is None:
        return (None, None), (None, None)
    length = min(WINDOW_STEPS, max(1, (last - first + 1) // 2))
    return (last - length + 1, last), (first, first + length - 1)
