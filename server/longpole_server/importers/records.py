"""Logs made ready for the store: the run, its scalars, its engines' series, and a time axis."""

from collections.abc import Iterator, Mapping, Sequence

from longpole.conventions.metrics import STEP_SECONDS
from longpole_server.analysis.scalar_ledger import read_scalar_ledger
from longpole_server.importers.engine_lines import COUNTS, EngineLine
from longpole_server.importers.logged import LoggedStep, has_step_total
from longpole_server.importers.run_traits import RunTraits, is_timed
from longpole_server.importers.runs import RunLogs, is_orchestrator_alone, length_ns
from longpole_server.importers.sources import LogSource
from longpole_server.model.records import EngineSample, MetricPoint, Records, RunEnd, RunStart

# Points and samples a batch holds at the most.
BATCH_POINTS = 50_000


def import_records(
    sources: LogSource | Sequence[LogSource], run_id: str, name: str | None = None
) -> Iterator[Records]:
    """Yield the logs of one run in batches for the store, the same batches for the same content.

    Where every step has a time, the time axis is the log's. Else it ends at the files'
    modification time, steps back to back; the run is marked as estimated, and so is one whose
    times say no time zone. The files are read twice: once for the axis, once for the points.

    Args:
        sources: One log, or several of one run.
        run_id: The run.
        name: Of the run, for people; the first log's when None.

    Raises:
        UnreadableLogError: One is binary, or none holds a complete step.
    """
    logs = RunLogs((sources,) if isinstance(sources, LogSource) else sources)
    axis = _survey(logs)
    yield Records(
        run_starts=[
            RunStart(
                run_id=run_id,
                attempt=attempt,
                started_ns=started_ns,
                name=name or logs.name,
                system=axis.traits.system,
                mode=axis.traits.mode,
                gpu_count=axis.traits.gpu_count,
                imported=True,
                time_estimated=not axis.is_timed or logs.times_are_local,
                notes=tuple(note.summary for note in logs.notes()),
            )
            for attempt, (started_ns, _) in axis.extents.items()
        ],
        run_ends=[
            RunEnd(run_id, attempt, ended_ns, "imported")
            for attempt, (_, ended_ns) in axis.extents.items()
        ],
    )
    batch = Records()
    clock = _Clock(axis.is_timed, axis.start_ns)
    counts = _Counts()
    for logged in logs.read():
        if logged.torn:
            continue
        start_ns, end_ns = clock.place(logged)
        batch.metric_points.extend(
            MetricPoint(run_id, logged.attempt, logged.step, key, value, end_ns)
            for key, value in _with_seconds(logged).items()
        )
        batch.engine_samples.extend(
            EngineSample(run_id, logged.attempt, line.replica, name, ts_ns, value)
            for line, ts_ns in _place_lines(logged.engines, start_ns, end_ns)
            for name, value in counts.total(line).items()
        )
        if len(batch) >= BATCH_POINTS:
            yield batch
            batch = Records()
    if len(batch):
        yield batch


class _Clock:
    """Says when steps began and ended.

    Args:
        is_timed: Every step says when it ended.
        start_ns: Where an estimated axis begins.
    """

    def __init__(self, is_timed: bool, start_ns: int) -> None:
        self._is_timed = is_timed
        self._now_ns = start_ns

    def place(self, logged: LoggedStep) -> tuple[int, int]:
        """Return start and end of a step, UTC nanoseconds."""
        length = _length_ns(logged)
        if self._is_timed and logged.time_ns is not None:
            return logged.time_ns - length, logged.time_ns
        self._now_ns += length
        return self._now_ns - length, self._now_ns


class _Survey:
    """The first pass: what the run is, and where its attempts lie on the time axis."""

    def __init__(self, traits: RunTraits) -> None:
        self.traits = traits
        self.is_timed = True
        self.start_ns = 0
        self.extents: dict[int, tuple[int, int]] = {}


def _survey(logs: RunLogs) -> _Survey:
    lengths_ns: dict[int, int] = {}
    timed: dict[int, tuple[int, int]] = {}
    num_complete = 0
    is_alone = False
    traits = RunTraits()
    survey = _Survey(traits)
    for logged in logs.read():
        if logged.torn:
            continue
        length = _length_ns(logged)
        num_complete += length > 0
        is_alone = is_alone or is_orchestrator_alone((logged.scalars,))
        lengths_ns[logged.attempt] = lengths_ns.get(logged.attempt, 0) + length
        traits.add(logged.scalars)
        if logged.time_ns is None:
            survey.is_timed = False
        else:
            first, last = timed.get(logged.attempt, (logged.time_ns, logged.time_ns))
            timed[logged.attempt] = (
                min(first, logged.time_ns - length),
                max(last, logged.time_ns),
            )
    if not num_complete and is_alone and not logs.has_orchestrator_alone:
        logs.has_orchestrator_alone = True
        return _survey(logs)
    if not num_complete:
        raise logs.refuse()
    traits.system = logs.system or traits.system
    traits.format_mode = logs.mode
    if survey.is_timed:
        survey.extents = dict(sorted(timed.items()))
        return survey
    now_ns = logs.modified_ns - sum(lengths_ns.values())
    survey.start_ns = now_ns
    for attempt, length in sorted(lengths_ns.items()):
        survey.extents[attempt] = (now_ns, now_ns + length)
        now_ns += length
    return survey


class _Counts:
    """Adds up what engines count since their last line: the store keeps counters."""

    def __init__(self) -> None:
        self._totals: dict[tuple[str, str], float] = {}

    def total(self, line: EngineLine) -> dict[str, float]:
        """Return the values of a line, counts as sums since the start."""
        values = dict(line.values)
        for name in COUNTS & values.keys():
            key = line.replica, name
            self._totals[key] = self._totals.get(key, 0.0) + values[name]
            values[name] = self._totals[key]
        return values


def _place_lines(
    lines: Sequence[EngineLine], start_ns: int, end_ns: int
) -> Iterator[tuple[EngineLine, int]]:
    """Yield engines' lines with their time: their own where it lies in the step, else spread."""
    for index, line in enumerate(lines, start=1):
        ts_ns = line.time_ns
        if ts_ns is None or not start_ns <= ts_ns <= end_ns:
            ts_ns = start_ns + (end_ns - start_ns) * index // (len(lines) + 1)
        yield line, ts_ns


def _with_seconds(logged: LoggedStep) -> Mapping[str, float]:
    """Return a step's scalars; where none is the step's seconds the sum of its stages stands."""
    if not has_step_total(logged.scalars) or is_timed(logged.scalars):
        return logged.scalars
    seconds = read_scalar_ledger(logged.scalars, logged.step).step_s
    return logged.scalars if not seconds else {**logged.scalars, STEP_SECONDS: seconds}


def _length_ns(logged: LoggedStep) -> int:
    """Return how long a step and what ran after it took; 0 for one that is not done."""
    return length_ns(logged) if has_step_total(logged.scalars) else 0
