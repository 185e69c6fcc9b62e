"""Runs whose truth is known, and what the rules made of them."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from longpole_server.alerts.book import AlertBook
from longpole_server.alerts.evaluation import evaluate
from longpole_server.alerts.history import (
    HardwareMinute,
    History,
    Moment,
    OwnState,
    RunContext,
    StepPoint,
)
from longpole_server.alerts.replay import replay
from longpole_server.alerts.rule import Rule
from longpole_server.model.alert import Alert, AlertEvent
from longpole_server.model.facts import RunFacts

_NS_PER_DAY = 86_400 * 10**9


@dataclass(frozen=True)
class Labelled:
    """A run and what must be said of it.

    Attributes:
        expected: Rules that must fire.
        tolerated: Rules that may fire too: they are true as well.
        onset_step: Step in which the trouble begins.
        lost_step: Step by which it is too late, None when there is none.
        rewards: Of the samples of each step, empty where samples are not known.
        hardware: GPUs and nodes as somebody looked at them, in order.
        own: The server as it stood at times, UTC nanoseconds.
    """

    run: RunContext
    points: Sequence[StepPoint]
    expected: frozenset[str] = frozenset()
    tolerated: frozenset[str] = frozenset()
    onset_step: int | None = None
    lost_step: int | None = None
    rewards: Sequence[Sequence[float]] = ()
    hardware: Sequence[HardwareMinute] = ()
    own: Sequence[tuple[int, OwnState]] = ()

    @property
    def days(self) -> float:
        """How long the run took."""
        first, last = self.points[0].step, self.points[-1].step
        return ((last.end_ns or last.start_ns) - first.start_ns) / _NS_PER_DAY


@dataclass(frozen=True)
class Outcome:
    """What the rules made of a labelled run.

    Attributes:
        fired: First step in which each rule fired.
        missed: Expected rules that did not fire, or too late.
        false: Firings of rules that were wrong, early ones included.
    """

    fired: Mapping[str, int] = field(default_factory=dict[str, int])
    missed: tuple[str, ...] = ()
    false: tuple[str, ...] = ()
    delay_steps: int | None = None
    headroom_used: float | None = None


def make_run_of(points: Sequence[StepPoint], **fields: Any) -> RunContext:
    """A live run whose steps these are."""
    first, last = points[0].step, points[-1].step
    known: dict[str, Any] = {
        "facts": RunFacts(first.run_id, "run", **fields.pop("facts", {})),
        "project": "team",
        "attempt": first.attempt,
        "state": "live",
        "started_ns": first.start_ns,
        "last_seen_ns": last.end_ns,
        "first_step": first.step,
        "last_progress_ns": first.start_ns,
        "patience_s": 1e6,
    }
    return RunContext(**{**known, **fields})


def judge_labelled(labelled: Labelled, rules: Sequence[Rule]) -> Outcome:
    """Replay a labelled run and compare.

    What must fire and is alone among the rules settles the run: the rest of it is left out.
    """
    book = AlertBook()
    is_alone = frozenset(rule.rule_id for rule in rules) == labelled.expected

    def list_points() -> Iterator[StepPoint]:
        for point in labelled.points:
            yield point
            if is_alone and any(_is_told(alert, labelled) for alert in book.list_open()):
                return

    _, events = replay(
        rules, [(labelled.run, list_points())], lambda _: labelled.hardware, book=book
    )
    for ts_ns, own in labelled.own:
        events += evaluate(rules, History(Moment(ts_ns, ts_ns), own=own), book, "time").events
    return compare_firings(
        labelled,
        [(event.rule, _step_of(labelled, event)) for event in events if event.kind == "firing"],
    )


def _step_of(labelled: Labelled, event: AlertEvent) -> int:
    """Return the step of an event, the running one where it fell between steps."""
    if event.step is not None:
        return event.step
    ends_ns = [point.step.end_ns or point.step.start_ns for point in labelled.points]
    at = min(bisect_right(ends_ns, event.ts_ns), len(ends_ns) - 1)
    return labelled.points[at].step.step


def _is_told(alert: Alert, labelled: Labelled) -> bool:
    onset, last = labelled.onset_step or 0, alert.last_step or 0
    return alert.state == "firing" and last >= onset


def compare_firings(labelled: Labelled, firings: Sequence[tuple[str, int]]) -> Outcome:
    """Compare what fired in which step, in order, with what is true."""
    fired: dict[str, int] = {}
    false: list[str] = []
    for rule, step in firings:
        is_early = labelled.onset_step is not None and step < labelled.onset_step
        is_expected = rule in labelled.expected and not is_early
        if is_expected:
            fired.setdefault(rule, step)
        elif rule not in labelled.tolerated:
            false.append(f"{rule}@{step}")
    lost = labelled.lost_step
    missed = tuple(
        rule
        for rule in sorted(labelled.expected)
        if rule not in fired or (lost is not None and fired[rule] > lost)
    )
    delay = headroom = None
    if labelled.expected and not missed and labelled.onset_step is not None:
        delay = max(fired[rule] for rule in labelled.expected) - labelled.onset_step
        if lost is not None:
            headroom = delay / max(1, lost - labelled.onset_step)
    return Outcome(fired, missed, tuple(false), delay, headroom)
