"""What the rules would have done to a run that is over, in the time of its data."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from longpole_server.alerts.book import AlertBook
from longpole_server.alerts.evaluation import end_alerts_of, evaluate
from longpole_server.alerts.history import (
    NEWEST_STEPS,
    OPENING_STEPS,
    HardwareMinute,
    History,
    Moment,
    RunContext,
    StepPoint,
)
from longpole_server.alerts.rule import Rule
from longpole_server.model.alert import Alert, AlertEvent

_NS_PER_S = 1_000_000_000
# As in `service.run_states`, seen from the past: five usual steps, two minutes at least.
_STALLED_STEPS = 5.0
_STALLED_AFTER_S = 120.0
_FIRST_STEP_PATIENCE_S = 1_800.0
_USUAL_STEPS = 20


def replay(
    rules: Sequence[Rule],
    attempts: Iterable[tuple[RunContext, Iterable[StepPoint]]],
    list_hardware: Callable[[RunContext], Iterable[HardwareMinute]] = lambda _: (),
    book: AlertBook | None = None,
) -> tuple[list[Alert], list[AlertEvent]]:
    """Run the rules over the attempts of a run as if it were live.

    The server itself is not looked at, nor whose clock was ahead of it: both belong to the present.

    Args:
        rules: All of them.
        attempts: Each as it stood at its end, with its closed steps in order.
        list_hardware: Returns the GPUs and nodes of an attempt minute by minute, as far as they are
            still stored.
        book: Takes the alerts as they come, for who wants to watch; a new one by default.

    Returns:
        The alerts, newest first, and every event in order. Nothing is told to anybody.
    """
    book, events = book or AlertBook(), list[AlertEvent]()
    for run, points in attempts:
        replayed = _AttemptReplay(rules, run, book, events, list_hardware(run))
        for point in points:
            replayed.see(point)
        replayed.finish()
    return book.list_all(), events


class _AttemptReplay:
    def __init__(
        self,
        rules: Sequence[Rule],
        run: RunContext,
        book: AlertBook,
        events: list[AlertEvent],
        hardware: Iterable[HardwareMinute],
    ) -> None:
        self.book = book
        self.events = events
        self._rules = rules
        self._run = run
        self._points: list[StepPoint] = []
        self._opening: list[StepPoint] = []
        self._progress_ns = run.started_ns
        self._hardware = deque(hardware)

    def see(self, point: StepPoint) -> None:
        """Judge what happened until a step closed, and the step."""
        step = point.step
        end_ns = step.end_ns if step.end_ns is not None else step.start_ns
        self._judge_hardware(end_ns)
        run = self._run_at(end_ns)
        self._judge_stall(end_ns)
        self._points = [*self._points[-(NEWEST_STEPS - 1) :], point]
        if len(self._opening) < OPENING_STEPS:
            self._opening.append(point)
        self._progress_ns = max(self._progress_ns, end_ns)
        run = replace(run, last_progress_ns=self._progress_ns)
        history = self._look(Moment(end_ns, end_ns, step.step), run)
        self.events += evaluate(self._rules, history, self.book, "step").events
        self._judge_time(run, end_ns)

    def finish(self) -> None:
        """Judge how the run ended."""
        end_ns = max(self._progress_ns, self._run.last_seen_ns)
        self._judge_hardware(end_ns)
        self._judge_stall(end_ns)
        run = replace(
            self._run,
            last_progress_ns=self._progress_ns,
            patience_s=self._run_at(end_ns).patience_s,
            open_stage=None,
        )
        self._judge_time(run, end_ns)
        if run.state in ("finished", "crashed", "lost"):
            history = self._look(Moment(end_ns, end_ns), run)
            keep = frozenset({"trainer.gone"})
            self.events += end_alerts_of(self.book, history, f"the run is {run.state}", keep)

    def _judge_stall(self, until_ns: int) -> None:
        """Judge the moment at which no step had closed for too long, where that came."""
        run = self._run_at(until_ns)
        stalled_ns = self._progress_ns + round(run.patience_s * _NS_PER_S) + 1
        if until_ns > stalled_ns:
            self._judge_time(replace(run, state="stalled", last_seen_ns=stalled_ns), stalled_ns)

    def _judge_hardware(self, until_ns: int) -> None:
        """Judge what goes by time minute by minute, as far as hardware was looked at."""
        while self._hardware and self._hardware[0].ts_ns <= until_ns:
            minute = self._hardware.popleft()
            history = replace(
                self._look(Moment(minute.ts_ns, minute.ts_ns), self._run_at(minute.ts_ns)),
                gpus=minute.gpus,
                hosts=minute.hosts,
            )
            self.events += evaluate(self._rules, history, self.book, "time").events

    def _judge_time(self, run: RunContext, ts_ns: int) -> None:
        history = self._look(Moment(ts_ns, ts_ns), run)
        self.events += evaluate(self._rules, history, self.book, "time").events

    def _look(self, moment: Moment, run: RunContext) -> History:
        return History(moment, run, self._points, opening=self._opening)

    def _run_at(self, ts_ns: int) -> RunContext:
        durations = sorted(
            point.step.duration_s
            for point in self._points[-_USUAL_STEPS:]
            if point.step.duration_s is not None
        )
        patience_s = _FIRST_STEP_PATIENCE_S
        if durations:
            patience_s = max(_STALLED_STEPS * durations[len(durations) // 2], _STALLED_AFTER_S)
        return replace(
            self._run,
            state="live",
            last_seen_ns=ts_ns,
            last_progress_ns=self._progress_ns,
            patience_s=patience_s,
            open_stage=None,
            end_status=None,
        )
