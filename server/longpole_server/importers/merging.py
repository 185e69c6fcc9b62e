"""Merges the lines of one step, and tells a resume from a second line about the same step."""

from collections.abc import Iterable, Iterator

from longpole_server.importers.logged import LoggedStep, LogLine, LogSummary

# Asynchronous trainers log one step in several calls that other steps' calls may interleave.
_OPEN_STEPS = 4
# A step is measured once: another value means that it was done again.
_STEP_TOTALS = ("timing_s/step", "perf/time_per_step")


def merge_steps(lines: Iterable[LogLine], summary: LogSummary) -> Iterator[LoggedStep]:
    """Yield each step of each attempt once, in the order in which they were completed.

    A line that repeats a step with the same values is a copy. One that contradicts what the step
    already said, or that names a step that is long past, begins a new attempt. Memory is bounded
    by a few open steps.
    """
    attempt = 1
    pending: dict[int, LoggedStep] = {}
    newest = -1
    for line in lines:
        known = pending.get(line.step)
        if _starts_attempt(line, known, newest):
            yield from _emit(pending, summary)
            pending.clear()
            attempt += 1
            summary.num_attempts = attempt
            known, newest = None, -1
        scalars = {**(known.scalars if known else {}), **line.scalars}
        torn = line.torn or (known is not None and known.torn)
        pending[line.step] = LoggedStep(attempt, line.step, scalars, torn)
        newest = max(newest, line.step)
        while len(pending) > _OPEN_STEPS:
            oldest = min(pending)
            yield from _emit({oldest: pending.pop(oldest)}, summary)
    yield from _emit(pending, summary)


def _starts_attempt(line: LogLine, known: LoggedStep | None, newest: int) -> bool:
    if known is not None:
        return any(
            line.scalars.get(key, known.scalars.get(key)) != known.scalars.get(key)
            for key in _STEP_TOTALS
            if key in known.scalars
        )
    if line.step >= newest:
        return False
    return newest - line.step >= _OPEN_STEPS or any(key in line.scalars for key in _STEP_TOTALS)


def _emit(steps: dict[int, LoggedStep], summary: LogSummary) -> Iterator[LoggedStep]:
    for step in sorted(steps):
        summary.num_steps += 1
        yield steps[step]
