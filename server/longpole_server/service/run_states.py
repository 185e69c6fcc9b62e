"""What state a run is in, and what it is doing right now: pure functions of what was heard."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from longpole.conventions.attributes import LEDGER_ROLES, STEP_STAGE
from longpole_server.model.records import RunEnd, StageSpan, StageStart
from longpole_server.model.run import OpenStage, RunState
from longpole_server.read import AttemptRow

# A run without step progress for this many usual steps, and at least this long, is stalled.
STALLED_STEPS = 5.0
STALLED_AFTER_S = 120.0
# The same while no step has closed yet: loading models and compiling kernels takes its time.
FIRST_STEP_PATIENCE_S = 1_800.0
# What `rl.run.end` says when all is well; any other status is a crash.
FINISHED_STATUSES = frozenset({"finished", "completed", "success", "succeeded", "ok", "done"})
# Of an attempt that did not say how it ended before another one began.
SUPERSEDED = "superseded"
# Windows that are open repeat themselves every 10 s; one that misses three is over.
_HEARTBEATS_MISSED_NS = 35 * 10**9
# A span and the announcement of its start may read the clock apart.
_SAME_START_NS = 5_000_000


@dataclass(frozen=True, slots=True)
class Usual:
    """What a window usually takes, from earlier steps, seconds."""

    median_s: float
    max_s: float


def judge_state(
    row: AttemptRow,
    last_closed_ns: int | None,
    usual_step_s: float | None,
    now_ns: int,
    lost_after_s: float,
) -> RunState:
    """Return the state of an attempt.

    Args:
        row: The run's newest attempt.
        last_closed_ns: End of its newest closed step, None without any.
        usual_step_s: Median seconds of its closed steps, None without any.
        now_ns: Now, UTC nanoseconds.
        lost_after_s: Silence of all its processes after which it counts as lost.
    """
    if row.start.imported:
        return "imported"
    if row.end is not None:
        return "finished" if row.end.status.lower() in FINISHED_STATUSES else "crashed"
    if now_ns - row.last_seen_ns > lost_after_s * 1e9:
        return "lost"
    patience_s = (
        FIRST_STEP_PATIENCE_S
        if usual_step_s is None
        else max(STALLED_STEPS * usual_step_s, STALLED_AFTER_S)
    )
    last_progress_ns = max(row.start.started_ns, last_closed_ns or 0)
    return "stalled" if now_ns - last_progress_ns > patience_s * 1e9 else "live"


def end_superseded(rows: Sequence[AttemptRow]) -> list[AttemptRow]:
    """Return attempts so that those that a later one of their run followed have an end.

    One that never said that it ended is over when the next one starts, or with its own last sign
    of life where that came before. Its status is `superseded`.

    Args:
        rows: Attempts of any runs, in any order.

    Returns:
        The same by run and attempt.
    """
    in_order = sorted(rows, key=lambda row: (row.start.run_id, row.start.attempt))
    ended: list[AttemptRow] = []
    for row, following in itertools.zip_longest(in_order, in_order[1:]):
        start = row.start
        if row.end is None and following is not None and following.start.run_id == start.run_id:
            ended_ns = max(start.started_ns, min(following.start.started_ns, row.last_seen_ns))
            row = replace(row, end=RunEnd(start.run_id, start.attempt, ended_ns, SUPERSEDED))
        ended.append(row)
    return ended


def choose_controller(starts: Sequence[StageStart]) -> list[StageStart]:
    """Return the announcements of the process that announces steps, else of the ledger's roles."""
    steps = [start for start in starts if start.stage == STEP_STAGE]
    if steps:
        newest = max(steps, key=lambda start: start.start_ns)
        return [s for s in starts if (s.host, s.pid) == (newest.host, newest.pid)]
    return [start for start in starts if start.role in LEDGER_ROLES or not start.role]


def find_open_stage(
    starts: Sequence[StageStart], spans: Sequence[StageSpan], usual: Mapping[str, Usual]
) -> OpenStage | None:
    """Return what the controller is in, None when nothing is open.

    Args:
        starts: Announcements of the controller, newest heartbeat of each window.
        spans: Finished windows of the newest announced step.
        usual: By stage; `step` for the whole step.
    """
    if not starts:
        return None
    newest_seen_ns = max(start.seen_ns for start in starts)
    current = max(starts, key=lambda start: start.start_ns).step
    still_open = [
        start
        for start in starts
        if start.step == current
        and newest_seen_ns - start.seen_ns <= _HEARTBEATS_MISSED_NS
        and not any(_ends(span, start) for span in spans)
    ]
    if not still_open:
        return None
    step = next((start for start in still_open if start.stage == STEP_STAGE), None)
    inner = [start for start in still_open if start.stage != STEP_STAGE]
    # Stages nest: the one that opened last is the innermost.
    shown = max(inner, key=lambda start: start.start_ns) if inner else still_open[0]
    known = usual.get(shown.stage)
    return OpenStage(
        step=current if current >= 0 else None,
        stage=shown.stage,
        since_ns=shown.start_ns,
        seen_ns=shown.seen_ns,
        usual_s=known.median_s if known else None,
        usual_max_s=known.max_s if known else None,
        step_since_ns=step.start_ns if step else None,
    )


def _ends(span: StageSpan, start: StageStart) -> bool:
    """Tell whether a finished window is, or outlives, the announced one."""
    if span.pid and start.pid and (span.host, span.pid) != (start.host, start.pid):
        return False
    if span.is_loop:
        return span.end_ns > start.start_ns
    return span.stage == start.stage and span.start_ns >= start.start_ns - _SAME_START_NS
