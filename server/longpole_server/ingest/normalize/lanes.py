"""Spans that say on which lane what ran, and when, but not in which step.

A step's end is known from the trainer: exactly from its `rl.loop` span, late from when its metrics
appeared. A span belongs to the first step that ended after the span's middle. Where the end is
known late, samples whose generation began after the step's update are the next one's.

What a rank does may be told twice, by RL-Insight's client and by the process itself: then the
process is believed. A stage that the title of a process hints at is left out where either tells of
it.
"""

from collections import OrderedDict, deque
from dataclasses import dataclass, field, replace

from longpole.conventions import stages
from longpole.conventions.ray_titles import is_title
from longpole_server.model.records import Records, StageSpan

# Role of a trainer's ranks: none that a ledger is made of, since these are told what to do.
WORKER = "worker"
_KNOWN_STEPS = 64
_MAX_RUNS = 1024
# Processes of a run that are remembered as telling of themselves.
_MAX_PROCESSES = 65_536


@dataclass(slots=True)
class _End:
    """The end of a step, and what its last update ended at where that says more."""

    step: int
    end_ns: int
    is_exact: bool
    updated_ns: int | None = None

    def limit_ns(self, span: StageSpan) -> int:
        if span.stage == stages.GEN and not self.is_exact and self.updated_ns is not None:
            return self.updated_ns
        return self.end_ns


@dataclass(slots=True)
class _Run:
    # Ends of steps in order of time, and what waits for the end of its step.
    ends: list[_End] = field(default_factory=list["_End"])
    waiting: deque[StageSpan] = field(default_factory=deque[StageSpan])
    # Process ids alone: a pod's name for its node is another than the agent's.
    speakers: set[int] = field(default_factory=set[int])
    # Which stages of which processes are told by more than a title.
    told: set[tuple[int, str]] = field(default_factory=set[tuple[int, str]])


class LanePlacer:
    """Puts spans into steps by time. Not thread-safe.

    Args:
        max_waiting: Most spans of a run that wait for their step; the oldest are given up first.
    """

    def __init__(self, max_waiting: int = 20_000) -> None:
        self._max_waiting = max_waiting
        self._runs: OrderedDict[tuple[str, int], _Run] = OrderedDict()
        self.num_given_up = 0
        self.num_repeated = 0

    @property
    def num_waiting(self) -> int:
        """Spans that wait for the end of their step."""
        return sum(len(run.waiting) for run in self._runs.values())

    def add(self, span: StageSpan, into: Records) -> None:
        """Add a span to its step, now or when that has ended."""
        run = self._get(span)
        if span.pid and not is_title(span.name) and len(run.told) < _MAX_PROCESSES:
            run.told.add((span.pid, span.stage))
        if self._place(run, span, into):
            return
        run.waiting.append(span)
        if len(run.waiting) > self._max_waiting:
            run.waiting.popleft()
            self.num_given_up += 1

    def note_speaker(self, run_id: str, attempt: int, pid: int) -> None:
        """Remember that a process tells its own windows: a monitor's of it are left out."""
        speakers = self._get_run((run_id, attempt)).speakers
        if len(speakers) < _MAX_PROCESSES:
            speakers.add(pid)

    def note_end(
        self, run_id: str, attempt: int, step: int, end_ns: int, into: Records, *, is_exact: bool
    ) -> None:
        """Remember when a step ended, and add the spans that waited for that.

        Args:
            run_id: The run.
            attempt: The attempt.
            step: The step.
            end_ns: Its end, or a later time that is known not to be of the next step's metrics.
            into: Where spans go.
            is_exact: Whether it is the end itself. What is said first holds.
        """
        run = self._get_run((run_id, attempt))
        if any(known.step == step for known in run.ends):
            return
        run.ends.append(_End(step, end_ns, is_exact))
        run.ends.sort(key=lambda end: end.end_ns)
        del run.ends[:-_KNOWN_STEPS]
        waiting, run.waiting = run.waiting, deque()
        # Updates first: they say where the generation of the next step begins.
        for span in sorted(waiting, key=lambda span: span.stage == stages.GEN):
            if not self._place(run, span, into):
                run.waiting.append(span)

    def _place(self, run: _Run, span: StageSpan, into: Records) -> bool:
        is_hint = is_title(span.name)
        is_told = span.pid in run.speakers or (is_hint and (span.pid, span.stage) in run.told)
        if span.role == WORKER and is_told:
            self.num_repeated += 1
            return True
        middle_ns = (span.start_ns + span.end_ns) // 2
        end = next((end for end in run.ends if middle_ns < end.limit_ns(span)), None)
        if end is None:
            return False
        if span.stage == stages.UPDATE_ACTOR and not is_hint:
            end.updated_ns = max(end.updated_ns or 0, span.end_ns)
        into.stage_spans.append(replace(span, step=end.step))
        return True

    def _get(self, span: StageSpan) -> _Run:
        return self._get_run((span.run_id, span.attempt))

    def _get_run(self, key: tuple[str, int]) -> _Run:
        run = self._runs.get(key)
        if run is None:
            run = self._runs[key] = _Run()
            if len(self._runs) > _MAX_RUNS:
                _, forgotten = self._runs.popitem(last=False)
                self.num_given_up += len(forgotten.waiting)
        return run
