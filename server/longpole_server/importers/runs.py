"""Several logs of one run, read as one: trainers' logs by step, engines' logs by time."""

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from longpole_server.analysis.scalar_ledger import read_scalar_ledger
from longpole_server.errors import UnreadableLogError
from longpole_server.importers.engine_lines import (
    MAX_LINES_OF_STEP,
    EngineLine,
    Increase,
    read_engine_line,
)
from longpole_server.importers.formats import recognise
from longpole_server.importers.lines import read_blocks, read_lines
from longpole_server.importers.logged import LoggedStep, LogSummary, has_step_total
from longpole_server.importers.prime_rl import ORCHESTRATOR_STEP, name_step_seconds
from longpole_server.importers.reading import (
    HEAD_BYTES,
    find_file_format,
    read_steps,
    refuse_binary,
    refuse_without_steps,
    year_of,
)
from longpole_server.importers.sources import LogSource
from longpole_server.model.step import Note

# A log in which so many lines are an engine's and none a trainer's by then is an engine's.
_ENOUGH_ENGINE_LINES, _ENOUGH_LINES = 20, 200_000

_ORCHESTRATOR = Note(
    "step.orchestrator",
    "info",
    "prime-rl's trainer logs nothing here: the seconds of a step are those of its orchestrator.",
)


@dataclass(frozen=True, slots=True)
class _Log:
    source: LogSource
    summary: LogSummary = field(default_factory=LogSummary)


class RunLogs:
    """The logs of one run.

    Args:
        sources: One or several; with several, each must be readable more than once.

    Attributes:
        has_orchestrator_alone: No trainer of prime-rl logs in them: the seconds of steps are those
            of its orchestrator. To be set once they were read.

    Raises:
        UnreadableLogError: None of them is a trainer's, or one is binary.
    """

    def __init__(self, sources: Sequence[LogSource]) -> None:
        engines = [source for source in sources if len(sources) > 1 and is_engine_log(source)]
        self.has_orchestrator_alone = False
        self._trainers = [_Log(source) for source in sources if source not in engines]
        self._engines = [_Log(source) for source in engines]
        if not self._trainers:
            raise UnreadableLogError(
                f"{sources[0].name} and the others hold no trainer's log.",
                "Give the trainer's log too: engines' logs are read beside it.",
            )

    @property
    def name(self) -> str:
        """The name of the first trainer's log."""
        return self._trainers[0].source.name

    @property
    def modified_ns(self) -> int:
        """When the trainers' logs were last written, UTC nanoseconds."""
        return max(log.source.modified_ns for log in self._trainers)

    @property
    def system(self) -> str | None:
        """The framework that the formats tell."""
        return next((log.summary.system for log in self._trainers if log.summary.system), None)

    @property
    def mode(self) -> str | None:
        """The mode that the formats tell."""
        return next((log.summary.mode for log in self._trainers if log.summary.mode), None)

    @property
    def times_are_local(self) -> bool:
        """Whether the times of the logs say no time zone."""
        return any(log.summary.times_are_local for log in self._trainers)

    def read(self) -> Iterator[LoggedStep]:
        """Yield the steps of all logs together, each once an attempt."""
        for log in (*self._trainers, *self._engines):
            _reset(log)
        streams = [read_steps(log.source, log.summary) for log in self._trainers]
        steps = streams[0] if len(streams) == 1 else _merge(streams)
        if self.has_orchestrator_alone:
            steps = map(stand_in, steps)
        yield from self._with_engines(steps) if self._engines else steps

    def notes(self) -> tuple[Note, ...]:
        """Return what a reader must know, after reading."""
        logs = (*self._trainers, *self._engines)
        notes = (_ORCHESTRATOR,) if self.has_orchestrator_alone else ()
        return notes + tuple(
            note if len(logs) == 1 else replace(note, summary=f"{log.source.name}: {note.summary}")
            for log in logs
            for note in log.summary.finish()
        )

    def refuse(self) -> UnreadableLogError:
        """Return the error for logs in which no step is complete."""
        log = self._trainers[0]
        return refuse_without_steps(log.source, log.summary)

    def _with_engines(self, steps: Iterable[LoggedStep]) -> Iterator[LoggedStep]:
        lines = heapq.merge(
            *(_read_engine_log(log) for log in self._engines), key=lambda line: line.time_ns or 0
        )
        following = next(lines, None)
        last_ns = 0
        for step in steps:
            if step.time_ns is None or not self.times_are_local:
                self._remark_unaligned()
                yield step
                continue
            start_ns = max(last_ns, step.time_ns - length_ns(step))
            said: list[EngineLine] = []
            while following is not None and (following.time_ns or 0) <= step.time_ns:
                if (following.time_ns or 0) > start_ns and len(said) < MAX_LINES_OF_STEP:
                    said.append(following)
                following = next(lines, None)
            last_ns = step.time_ns
            yield replace(step, engines=(*step.engines, *said)) if said else step

    def _remark_unaligned(self) -> None:
        for log in self._engines:
            log.summary.remark(
                "engine.unaligned",
                "warning",
                "The trainer's log says no times by the same clock, so nobody knows which lines "
                "belong to which step: they are not used.",
            )


def is_orchestrator_alone(steps: Iterable[Mapping[str, float]]) -> bool:
    """Tell whether the steps' scalars hold seconds of prime-rl's orchestrator and no others."""
    found = False
    for scalars in steps:
        if has_step_total(scalars):
            return False
        found = found or ORCHESTRATOR_STEP in scalars
    return found


def stand_in(step: LoggedStep) -> LoggedStep:
    """Return a step of prime-rl's orchestrator with its seconds as the step's."""
    return replace(step, scalars=name_step_seconds(step.scalars))


def is_engine_log(source: LogSource) -> bool:
    """Return whether a log holds engines' lines and none of a trainer.

    Raises:
        UnreadableLogError: It is binary.
    """
    num_lines = num_engine_lines = 0
    with source.open() as stream:
        head = stream.read(HEAD_BYTES)
        refuse_binary(source, head)
        if find_file_format(head) is not None:
            return False
        for raw in read_lines(read_blocks(head, stream), LogSummary()):
            if recognise(raw) is not None:
                return False
            num_lines += 1
            num_engine_lines += read_engine_line(raw, 1970) is not None
            if num_engine_lines >= _ENOUGH_ENGINE_LINES and num_lines >= _ENOUGH_LINES:
                return True
    return num_engine_lines > 0


def length_ns(step: LoggedStep) -> int:
    """Return how long a step and what ran after it took, nanoseconds; 0 when nothing tells."""
    ledger = read_scalar_ledger(step.scalars, step.step)
    outside_s = sum(stage.exclusive_s for stage in ledger.outside)
    return round(((ledger.step_s or 0.0) + outside_s) * 1e9)


def _reset(log: _Log) -> None:
    fresh = LogSummary()
    for name in LogSummary.__slots__:
        setattr(log.summary, name, getattr(fresh, name))


def _read_engine_log(log: _Log) -> Iterator[EngineLine]:
    """Yield the lines with a time; clocks that go back a little are taken to stand still."""
    year = year_of(log.source)
    last_ns = 0
    increase = Increase()
    with log.source.open() as stream:
        for raw in read_lines(read_blocks(b"", stream), log.summary):
            line = read_engine_line(raw, year)
            line = None if line is None else increase.count(line)
            if line is None or line.time_ns is None:
                continue
            log.summary.num_engine_lines += 1
            last_ns = max(last_ns, line.time_ns)
            yield line if line.time_ns == last_ns else replace(line, time_ns=last_ns)


def _merge(streams: Sequence[Iterator[LoggedStep]]) -> Iterator[LoggedStep]:
    """Join the same steps of several trainers' logs; an earlier log wins where both say it."""
    pending: LoggedStep | None = None
    for step in heapq.merge(*streams, key=lambda step: (step.attempt, step.step)):
        if pending is not None and (pending.attempt, pending.step) == (step.attempt, step.step):
            times = [time for time in (pending.time_ns, step.time_ns) if time is not None]
            pending = LoggedStep(
                pending.attempt,
                pending.step,
                {**step.scalars, **pending.scalars},
                pending.torn or step.torn,
                max(times, default=None),
                (*pending.engines, *step.engines)[-MAX_LINES_OF_STEP:],
            )
            continue
        if pending is not None:
            yield pending
        pending = step
    if pending is not None:
        yield pending
