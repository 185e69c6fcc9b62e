"""Runs as people see them: state, what is open, figures, sources."""

import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

from longpole.conventions.attributes import STEP_STAGE
from longpole_server.errors import NotFoundError, StoreLimitError
from longpole_server.model.gpu import RunGpu
from longpole_server.model.records import RunStart, StageSpan, StageStart
from longpole_server.model.run import Attempt, OpenStage, Pace, RunDetail, RunSummary, Source
from longpole_server.model.step import Note
from longpole_server.read import AttemptRow, Reader
from longpole_server.service.digests import RunDigest, read_digests
from longpole_server.service.memory import Memory
from longpole_server.service.revisions import Revisions
from longpole_server.service.run_states import (
    choose_controller,
    end_superseded,
    find_open_stage,
    judge_state,
)

# Announcements of the open step were heard since the step before it ended; clocks may differ.
_CLOCK_SLACK_NS = 60 * 10**9
_LISTED_FIRST = ("live", "stalled")
_DAY_NS = 86_400 * 10**9
# What was read is read again after a write of this server, and in any case after this long: other
# servers may write too.
_RECENT_S = 1.0
# Runs whose figures are read in one go.
_RUNS_AT_ONCE = 200


class RunsReader:
    """Answers for runs; keeps figures of runs that have not changed. Thread-safe.

    Every method raises `StoreError` when the database fails.

    Args:
        reader: Reads the store.
        revisions: Says which runs changed.
        lost_after_s: Silence of all its processes after which a run counts as lost.
        list_gpu_notes: Says why GPUs of a run's nodes were not joined to it.
        now_ns: Wall clock, UTC nanoseconds.
        now_s: Monotonic clock, seconds.
        count_alerts: Returns how many alerts of a run are firing; None while nobody watches.
    """

    def __init__(
        self,
        reader: Reader,
        revisions: Revisions,
        lost_after_s: float,
        list_gpu_notes: Callable[[str], Sequence[str]],
        now_ns: Callable[[], int] = time.time_ns,
        now_s: Callable[[], float] = time.monotonic,
        count_alerts: Callable[[str], int | None] = lambda _: None,
    ) -> None:
        self._reader = reader
        self._revisions = revisions
        self._lost_after_s = lost_after_s
        self._list_gpu_notes = list_gpu_notes
        self._now_ns = now_ns
        self._now_s = now_s
        self._count_alerts = count_alerts
        self._recent = Memory()
        # Of whatever ids senders name: they push out nothing that people look at.
        self._claims = Memory()
        # Plain assignments: two threads that read the same digest at once do the work twice.
        self._digests: dict[str, tuple[int, RunDigest]] = {}

    def list_summaries(self) -> list[RunSummary]:
        """Return all runs, live ones first, newest first."""
        by_run = _group_by_run(self._reader.list_attempts())
        self._renew_digests(by_run)
        summaries = [self._summarise(rows) for rows in by_run.values()]
        return sorted(
            summaries, key=lambda run: (run.state not in _LISTED_FIRST, -run.last_seen_ns)
        )

    def get_summary(self, run_id: str) -> RunSummary:
        """Return one run. Raises `NotFoundError` when there is none."""
        return self._summarise(self.list_attempts(run_id))

    def get_detail(self, run_id: str) -> RunDetail:
        """Return one run with everything known. Raises `NotFoundError` when there is none."""
        rows = self.list_attempts(run_id)
        start = rows[-1].start
        digest = self.get_digest(run_id)
        return RunDetail(
            summary=self._summarise(rows),
            model_name=start.model_name,
            model_config=start.model_config,
            staleness_bound=start.staleness_bound,
            staleness_basis=start.staleness_basis,
            config=start.config,
            attempts=tuple(_describe_attempt(row, digest) for row in rows),
            sources=tuple(self._list_sources(rows, digest)),
            notes=self.list_notes(rows),
        )

    def list_attempts(self, run_id: str) -> Sequence[AttemptRow]:
        """Return a run's attempts in order. Raises `NotFoundError` when there is none."""
        rows = self._recent.ask(
            ("attempts", run_id),
            self._written(),
            lambda: end_superseded(self._reader.list_attempts(run_id)),
        )
        if not rows:
            raise NotFoundError(f"no run {run_id!r}", hint="GET /api/v1/runs lists all runs")
        return rows

    def list_claims(self, run_id: str) -> Sequence[RunStart]:
        """Return what tells whose a run is, and those that may have collided with its id; cheap.

        None of a run that is not known.
        """
        return self._claims.ask(run_id, self._written(), lambda: self._reader.list_claims(run_id))

    def get_project(self, run_id: str) -> str | None:
        """Return a run's project, None without one; cheap. Raises `NotFoundError`."""
        return self.list_attempts(run_id)[-1].start.project

    def get_start(self, run_id: str, attempt: int | None) -> RunStart:
        """Return an attempt's announcement, the newest one's when it made none.

        Raises:
            NotFoundError: There is no such run.
        """
        rows = self.list_attempts(run_id)
        return next((row.start for row in rows if row.start.attempt == attempt), rows[-1].start)

    def list_run_gpus(self, run_id: str) -> Sequence[RunGpu]:
        """Return the GPUs that a run holds or held."""
        return self._recent.ask(
            ("run GPUs", run_id), self._written(), lambda: self._reader.list_run_gpus(run_id)
        )

    def get_revision(self, run_id: str) -> int:
        """Return a number that grows when a run's steps, description or GPUs change."""
        return self._revisions.of(run_id)

    def get_token(self, run_id: str) -> Hashable:
        """Return what stays the same while a run's steps do; for a second at most."""
        return self._revisions.of(run_id), self._now_s() // _RECENT_S

    def get_digest(self, run_id: str) -> RunDigest:
        """Return a run's figures, read anew only when the run has changed."""
        self._renew_digests([run_id])
        return self._digests[run_id][1]

    def list_paces(self, run_id: str) -> Sequence[Pace]:
        """Return how fast a run's last 40 closed steps went, in order; none of an unknown run."""
        return self.get_digest(run_id).paces

    def _renew_digests(self, run_ids: Iterable[str]) -> None:
        """Read the figures of the runs that have changed since, many in one go."""
        # Taken before reading: what changes meanwhile makes the next call read again.
        revisions = {run_id: self._revisions.of(run_id) for run_id in run_ids}
        changed = [
            run_id
            for run_id, revision in revisions.items()
            if run_id not in self._digests or self._digests[run_id][0] != revision
        ]
        for first in range(0, len(changed), _RUNS_AT_ONCE):
            self._read_digests(changed[first : first + _RUNS_AT_ONCE], revisions)

    def _read_digests(self, run_ids: Sequence[str], revisions: Mapping[str, int]) -> None:
        """Read and keep figures; where so many take too much, of ever fewer at a time."""
        try:
            digests = read_digests(self._reader, run_ids)
        except StoreLimitError:
            if len(run_ids) == 1:
                raise
            middle = len(run_ids) // 2
            for part in (run_ids[:middle], run_ids[middle:]):
                self._read_digests(part, revisions)
            return
        for run_id, digest in digests.items():
            self._digests[run_id] = (revisions[run_id], digest)

    def list_notes(self, rows: Sequence[AttemptRow]) -> tuple[Note, ...]:
        """Return what was noted about a run when it came in, and about its GPUs."""
        came_in = [Note("run.note", "info", text) for row in rows for text in row.start.notes]
        gpus = self._list_gpu_notes(rows[-1].start.run_id)
        return (*came_in, *(Note("gpus.not_joined", "warning", text) for text in gpus))

    def _summarise(self, rows: Sequence[AttemptRow]) -> RunSummary:
        row = rows[-1]
        start = row.start
        digest = self.get_digest(start.run_id)
        open_stage = self._find_open_stage(row, digest)
        usual_s = max(
            (
                digest.usual[stage].median_s
                for stage in (STEP_STAGE, open_stage.stage if open_stage else STEP_STAGE)
                if stage in digest.usual
            ),
            default=None,
        )
        whole = digest.whole
        state = judge_state(row, digest.last_closed_ns, usual_s, self._now_ns(), self._lost_after_s)
        return RunSummary(
            run_id=start.run_id,
            name=start.name or start.run_id,
            project=start.project,
            system=start.system,
            system_version=start.system_version,
            algorithm=start.algorithm,
            mode=start.mode or digest.mode,
            # A log declares no mode: the importer reads it off the names of its values.
            mode_source="declared" if start.mode and not start.imported else "inferred",
            state=state,
            attempt=start.attempt,
            started_ns=rows[0].start.started_ns,
            last_seen_ns=max(other.last_seen_ns for other in rows),
            first_step=whole.first if whole else None,
            last_step=whole.last if whole else None,
            num_steps=whole.num_steps if whole else 0,
            gpu_count=start.gpu_count or digest.gpu_count,
            step_duration_s=digest.step_duration_s,
            throughput_tokens_per_s_per_gpu=digest.throughput_tokens_per_s_per_gpu,
            mfu_step=digest.mfu_step,
            staleness_max=digest.staleness_max,
            verdict=digest.verdict,
            confidence=digest.confidence,
            # Nobody watches a log that was imported.
            open_alerts=None if start.imported else self._count_alerts(start.run_id),
            open_stage=open_stage if state in _LISTED_FIRST else None,
            time_estimated=start.time_estimated,
        )

    def _find_open_stage(self, row: AttemptRow, digest: RunDigest) -> OpenStage | None:
        silent_ns = self._now_ns() - row.last_seen_ns
        if row.start.imported or row.end is not None or silent_ns > self._lost_after_s * 1e9:
            return None
        run_id, attempt = row.start.run_id, row.start.attempt
        since_ns = max(row.start.started_ns, digest.last_closed_ns or 0) - _CLOCK_SLACK_NS
        starts, spans = self._recent.ask(
            ("open", run_id, attempt, since_ns),
            self._written(),
            lambda: self._list_open(run_id, attempt, since_ns),
        )
        return find_open_stage(starts, spans, digest.usual)

    def _list_open(
        self, run_id: str, attempt: int, since_ns: int
    ) -> tuple[Sequence[StageStart], Sequence[StageSpan]]:
        """Return what the controller announced, and the finished windows of the newest step."""
        starts = choose_controller(self._reader.list_stage_starts(run_id, attempt, since_ns))
        if not starts:
            return (), ()
        step = max(starts, key=lambda start: start.start_ns).step
        return starts, self._reader.list_stage_spans(run_id, attempt, step)

    def _written(self) -> Hashable:
        return self._revisions.num_writes, self._now_s() // _RECENT_S

    def _list_sources(self, rows: Sequence[AttemptRow], digest: RunDigest) -> Iterable[Source]:
        run_id = rows[-1].start.run_id
        for process in self._recent.ask(
            ("processes", run_id), self._written(), lambda: self._reader.list_processes(run_id)
        ):
            yield Source(
                "process",
                process.host or None,
                process.pid or None,
                process.role or None,
                process.seen_ns,
            )
        if digest.gpu_hosts:
            seen = self._recent.ask(
                ("GPU hosts",),
                self._written(),
                lambda: self._reader.list_gpu_hosts(self._now_ns() - _DAY_NS),
            )
            for host, seen_ns in seen.items():
                if host in digest.gpu_hosts:
                    yield Source("agent", host, None, None, seen_ns)
        if rows[-1].start.imported:
            yield Source("import", None, None, None, rows[-1].last_seen_ns)


def _group_by_run(rows: Iterable[AttemptRow]) -> dict[str, list[AttemptRow]]:
    groups: defaultdict[str, list[AttemptRow]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.start.attempt):
        groups[row.start.run_id].append(row)
    return groups


def _describe_attempt(row: AttemptRow, digest: RunDigest) -> Attempt:
    extent = digest.extents.get(row.start.attempt)
    return Attempt(
        attempt=row.start.attempt,
        started_ns=row.start.started_ns,
        ended_ns=row.end.ended_ns if row.end else None,
        status=row.end.status if row.end else None,
        first_step=extent.first if extent else None,
        last_step=extent.last if extent else None,
        num_steps=extent.num_steps if extent else 0,
    )
