"""Merges the lines of one step, and tells a resume from a second line about the same step."""

from collections.abc import Iterable, Iterator

from longpole_server.importers.engine_lines import MAX_LINES_OF_STEP
from longpole_server.importers.logged import (
    STEP_TOTALS,
    LoggedStep,
    LogLine,
    LogSummary,
    has_step_total,
)

# Asynchronous trainers log one step in several calls that other steps' calls may interleave.
_OPEN_STEPS = 4
# Lines about steps long past that wait for a line which tells a resume from a straggler.
_MAX_HELD = 16


def merge_steps(lines: Iterable[LogLine], summary: LogSummary) -> Iterator[LoggedStep]:
    """Yield each step of each attempt, in the order in which they were completed.

    A line that repeats a step with the same seconds is a copy. One that contradicts what the step
    already said, or with the seconds of a step that is long past, begins a new attempt; so does
    one before which the trainer said so. Memory is bounded by a few open steps.
    """
    merger = _Merger(summary)
    for line in lines:
        yield from merger.take(line)
    yield from merger.finish()


def number_attempts(lines: Iterable[LogLine], summary: LogSummary) -> Iterator[LoggedStep]:
    """Yield each line as it comes, with its attempt: steps are not put together.

    Lines about steps long past come with the line that tells a resume from a straggler.
    """
    merger = _Merger(summary)
    for line in lines:
        yield from merger.take_alone(line)


class _Merger:
    def __init__(self, summary: LogSummary) -> None:
        self._summary = summary
        self._attempt = 1
        self._newest = -1
        self._open: dict[int, LoggedStep] = {}
        self._held: list[LogLine] = []

    def take(self, line: LogLine) -> Iterator[LoggedStep]:
        known = self._open.get(line.step)
        if self._may_be_late(line, known):
            # Validation before a resumed training, or the late result of a background task.
            if len(self._held) < _MAX_HELD:
                self._held.append(line)
            return
        if self._starts_attempt(line, known):
            yield from self._close()
            self._attempt += 1
            self._summary.num_attempts = self._attempt
            for held in self._take_held():
                self._add(held)
        elif line.step > self._newest:
            yield from self._late()
        self._add(line)
        while len(self._open) > _OPEN_STEPS:
            yield self._open.pop(min(self._open))

    def take_alone(self, line: LogLine) -> list[LoggedStep]:
        """Take a line and return it, and what waited for it, with the attempt decided."""
        held = list(self._held)
        for _ in self.take(line):
            pass
        lines = [waited for waited in held if waited not in self._held]
        if not self._held or self._held[-1] is not line:
            lines.append(line)
        return [
            LoggedStep(
                self._attempt,
                taken.step,
                taken.scalars,
                taken.torn,
                taken.time_ns,
                taken.engines,
            )
            for taken in lines
        ]

    def finish(self) -> Iterator[LoggedStep]:
        yield from self._late()
        yield from self._close()

    def _may_be_late(self, line: LogLine, known: LoggedStep | None) -> bool:
        if line.resumed or known is not None or has_step_total(line.scalars):
            return False
        return line.step <= self._newest - _OPEN_STEPS

    def _starts_attempt(self, line: LogLine, known: LoggedStep | None) -> bool:
        if line.resumed and self._newest >= 0:
            return True
        if known is None:
            return line.step < self._newest and has_step_total(line.scalars)
        return any(
            line.scalars[key] != known.scalars[key]
            for key in STEP_TOTALS
            if key in line.scalars and key in known.scalars
        )

    def _add(self, line: LogLine) -> None:
        known = self._open.get(line.step)
        scalars, torn = line.scalars, line.torn
        if known is not None:
            scalars = {**known.scalars, **scalars}
            # A torn line beside the one that closed the step takes nothing away from it.
            torn = known.torn or (torn and not has_step_total(known.scalars))
        time_ns = line.time_ns
        if known is not None and known.time_ns is not None:
            time_ns = max(known.time_ns, time_ns or 0)
        engines = line.engines if known is None else (*known.engines, *line.engines)
        self._open[line.step] = LoggedStep(
            self._attempt, line.step, scalars, torn, time_ns, engines[-MAX_LINES_OF_STEP:]
        )
        self._newest = max(self._newest, line.step)

    def _close(self) -> Iterator[LoggedStep]:
        for step in sorted(self._open):
            yield self._open[step]
        self._open.clear()
        self._newest = -1

    def _late(self) -> Iterator[LoggedStep]:
        for line in self._take_held():
            yield LoggedStep(
                self._attempt, line.step, line.scalars, line.torn, line.time_ns, line.engines
            )

    def _take_held(self) -> list[LogLine]:
        held, self._held = self._held, []
        return held
