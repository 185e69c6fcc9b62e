"""What a growing log says, step by step, as it says it: for a run that is alive.

Everything is a function of the file's content, so that a follower that starts again says the same
again: attempts are told by comparing with the steps that the server has, and what was in the file
already gets the times that it had.
"""

import hashlib
import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from longpole.conventions.metrics import STEP_SECONDS
from longpole_server.importers.deriving import Growth, seconds_of_previous
from longpole_server.importers.logged import LoggedStep, LogLine, LogSummary, has_step_total
from longpole_server.importers.merging import number_attempts
from longpole_server.importers.reading import read_steps
from longpole_server.importers.run_traits import RunTraits
from longpole_server.importers.runs import length_ns
from longpole_server.importers.sources import LogSource
from longpole_server.importers.streams import Section

# Lines before the first step that is done: they wait until it tells what the run is.
_MAX_OPENING = 64
_SAME_SECONDS = 1e-6


@dataclass(frozen=True, slots=True)
class KnownStep:
    """A step that the server has. `seconds` is None while it is open."""

    attempt: int
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Backlog:
    """What the file holds when following begins.

    Attributes:
        steps: Seconds and the end (ns) of the steps that are done, by attempt of the file and step.
        start_ns: Where its time axis begins; None for an empty one.
    """

    steps: Mapping[tuple[int, int], tuple[float, int]]
    start_ns: int | None


def survey_backlog(path: Path) -> Backlog:
    """Read what a file holds now; without times its axis ends when it was last written."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return Backlog({}, None)

    def open_part() -> BinaryIO:
        # What is appended meanwhile is followed, not surveyed.
        return open_section(path, status.st_size)

    source = LogSource(path.name, open_part, status.st_mtime_ns)
    lengths = {
        (step.attempt, step.step): (length_ns(step), step.time_ns)
        for step in read_steps(source, LogSummary())
        if not step.torn and has_step_total(step.scalars)
    }
    if not lengths:
        return Backlog({}, None)
    total_ns = sum(length for length, _ in lengths.values())
    now_ns = start_ns = status.st_mtime_ns - total_ns
    steps: dict[tuple[int, int], tuple[float, int]] = {}
    for key, (length, time_ns) in lengths.items():
        now_ns += length
        steps[key] = (length / 1e9, now_ns if time_ns is None else time_ns)
    return Backlog(steps, start_ns)


def open_section(path: Path, size: int) -> BinaryIO:
    """Return the first bytes of a file as a stream."""
    return io.BufferedReader(Section(path.open("rb"), 0, size))


class AttemptNumbers:
    """Tells which attempt of the run an attempt of the file is.

    Args:
        known: The steps that the server has, by number.
        backlog: What the file holds.
    """

    def __init__(self, known: Mapping[int, KnownStep], backlog: Backlog) -> None:
        self._known = known
        self._offset: int | None = None if known else 0
        for (attempt, step), (seconds, _) in backlog.steps.items():
            if self._offset is None and self._is_same(step, seconds):
                self._offset = known[step].attempt - attempt

    def find(self, attempt: int, step: int) -> int:
        """Return the run's number of an attempt; its first step decides where nothing else does."""
        if self._offset is None:
            newest = max(known.attempt for known in self._known.values())
            goes_on = step > max(self._known)
            self._offset = newest - attempt if goes_on else newest + 1 - attempt
        return attempt + self._offset

    def is_known(self, attempt: int, step: int) -> bool:
        """Return whether the server has this step of this attempt of the run, and it is done."""
        known = self._known.get(step)
        return known is not None and known.attempt == attempt and known.seconds is not None

    def _is_same(self, step: int, seconds: float) -> bool:
        known = self._known.get(step)
        if known is None or known.seconds is None:
            return False
        return abs(known.seconds - seconds) <= _SAME_SECONDS + 1e-6 * seconds


@dataclass(frozen=True, slots=True)
class Update:
    """Something new about a step.

    Attributes:
        time_ns: When it was logged; None for now.
        content_id: The same for the same content of the same attempt.
    """

    step: LoggedStep
    time_ns: int | None
    content_id: str


class Follower:
    """Turns the lines of a log into updates of a run.

    Args:
        numbers: Which attempt of the run an attempt of the file is.
        backlog: What the file held when following began.
        run_id: The run.
    """

    def __init__(self, numbers: AttemptNumbers, backlog: Backlog, run_id: str) -> None:
        self._numbers = numbers
        self._backlog = backlog
        self._run_id = run_id
        self._growth = Growth()
        self._opening: list[LoggedStep] | None = []
        self.summary = LogSummary()
        self.traits = RunTraits()

    def follow(self, lines: Iterable[LogLine]) -> Iterator[Update]:
        """Yield what lines say that the server does not have, as they come.

        Args:
            lines: As `parse_lines` yields them, with `self.summary` as their summary.
        """
        for logged in number_attempts(lines, self.summary):
            if logged.torn:
                continue
            self.traits.add(logged.scalars)
            if self._opening is not None:
                self._opening.append(logged)
                if not has_step_total(logged.scalars) and len(self._opening) < _MAX_OPENING:
                    continue
                self.traits.system = self.summary.system or self.traits.system
                self.traits.format_mode = self.summary.mode
                opening, self._opening = self._opening, None
                for held in opening:
                    yield from self._update(held)
            else:
                yield from self._update(logged)

    def _update(self, logged: LoggedStep) -> Iterator[Update]:
        own = (logged.attempt, logged.step)
        in_backlog = self._backlog.steps.get(own)
        attempt = self._numbers.find(*own)
        may_skip = not self.summary.steps_are_counted
        derived = replace(self._growth.derive(logged, may_skip=may_skip), attempt=attempt)
        previous_s = seconds_of_previous(logged.scalars)
        if previous_s and logged.step > 0:
            late = LoggedStep(attempt, logged.step - 1, {STEP_SECONDS: previous_s})
            yield self._make(late, self._backlog.steps.get((logged.attempt, logged.step - 1)))
        if in_backlog is not None and self._numbers.is_known(attempt, logged.step):
            return
        yield self._make(derived, in_backlog)

    def _make(self, step: LoggedStep, in_backlog: tuple[float, int] | None) -> Update:
        time_ns = None if self.summary.times_are_local else step.time_ns
        if time_ns is None and in_backlog is not None:
            time_ns = in_backlog[1]
        return Update(step, time_ns, self._identify(step))

    def _identify(self, step: LoggedStep) -> str:
        values = ",".join(f"{name}={value!r}" for name, value in sorted(step.scalars.items()))
        text = f"{self._run_id}\n{step.attempt}\n{step.step}\n{values}"
        return hashlib.sha256(text.encode("utf-8", errors="replace")).hexdigest()
