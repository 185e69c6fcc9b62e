"""A log made ready for the store: the run, its scalars, and a time axis."""

from collections.abc import Iterator

from longpole_server.analysis.scalar_ledger import read_scalar_ledger
from longpole_server.importers.logged import LoggedStep, LogSummary, has_step_total
from longpole_server.importers.reading import read_steps, refuse_without_steps
from longpole_server.importers.sources import LogSource
from longpole_server.importers.verl_run import ModeWatch, agree_on_gpu_count, derive_gpu_count
from longpole_server.model.records import MetricPoint, Records, RunEnd, RunStart

# Metric points a batch holds at the most.
BATCH_POINTS = 50_000


def import_records(source: LogSource, run_id: str, name: str | None = None) -> Iterator[Records]:
    """Yield the log in batches for the store, the same batches for the same content.

    A log without times gets an axis that ends at the file's modification time, steps back to
    back; the run is marked as estimated. The file is read twice: once for the axis, once for
    the points.

    Raises:
        UnreadableLogError: It is binary, or holds no complete step.
    """
    survey = _survey(source)
    yield Records(
        run_starts=[
            RunStart(
                run_id=run_id,
                attempt=attempt,
                started_ns=started_ns,
                name=name or source.name,
                system="verl",
                mode=survey.mode_watch.mode,
                gpu_count=survey.gpu_count,
                imported=True,
                time_estimated=True,
                notes=tuple(note.summary for note in survey.summary.finish()),
            )
            for attempt, started_ns in survey.starts_ns(source.modified_ns).items()
        ],
        run_ends=[
            RunEnd(run_id, attempt, ended_ns, "imported")
            for attempt, ended_ns in survey.ends_ns(source.modified_ns).items()
        ],
    )
    batch = Records()
    now_ns = source.modified_ns - survey.total_ns
    for logged in read_steps(source, LogSummary()):
        if logged.torn:
            continue
        now_ns += _length_ns(logged)
        batch.metric_points.extend(
            MetricPoint(run_id, logged.attempt, logged.step, key, value, now_ns)
            for key, value in logged.scalars.items()
        )
        if len(batch.metric_points) >= BATCH_POINTS:
            yield batch
            batch = Records()
    if len(batch):
        yield batch


class _Survey:
    """The first pass: seconds per attempt, mode and GPU counts, a few numbers a step."""

    def __init__(self) -> None:
        self.summary = LogSummary()
        self.lengths_ns: dict[int, int] = {}
        self.mode_watch = ModeWatch()
        self.num_complete = 0
        self.gpu_count: int | None = None

    @property
    def total_ns(self) -> int:
        return sum(self.lengths_ns.values())

    def ends_ns(self, axis_end_ns: int) -> dict[int, int]:
        ends: dict[int, int] = {}
        now_ns = axis_end_ns - self.total_ns
        for attempt, length_ns in sorted(self.lengths_ns.items()):
            now_ns += length_ns
            ends[attempt] = now_ns
        return ends

    def starts_ns(self, axis_end_ns: int) -> dict[int, int]:
        ends = self.ends_ns(axis_end_ns)
        return {attempt: end_ns - self.lengths_ns[attempt] for attempt, end_ns in ends.items()}


def _survey(source: LogSource) -> _Survey:
    survey = _Survey()
    derived: list[float] = []
    for logged in read_steps(source, survey.summary):
        if logged.torn:
            continue
        length_ns = _length_ns(logged)
        survey.num_complete += length_ns > 0
        survey.lengths_ns[logged.attempt] = survey.lengths_ns.get(logged.attempt, 0) + length_ns
        survey.mode_watch.add(logged.scalars)
        if (count := derive_gpu_count(logged.scalars)) is not None:
            derived.append(count)
    if not survey.num_complete:
        raise refuse_without_steps(source, survey.summary)
    survey.gpu_count, _ = agree_on_gpu_count(derived)
    return survey


def _length_ns(logged: LoggedStep) -> int:
    """Return how long a step and what ran after it took; 0 for one that is not done."""
    if not has_step_total(logged.scalars):
        return 0
    ledger = read_scalar_ledger(logged.scalars, logged.step)
    outside_s = sum(stage.exclusive_s for stage in ledger.outside)
    return round(((ledger.step_s or 0.0) + outside_s) * 1e9)
