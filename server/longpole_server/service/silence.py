"""Whether a run of which nothing is heard is gone, or only does not speak meanwhile."""

from collections.abc import Sequence

from longpole.conventions.attributes import IMPORT_SERVICE, LEDGER_ROLES
from longpole_server.model.records import ProcessSeen, StageSpan, StageStart
from longpole_server.model.run import RunSummary
from longpole_server.read import Reader

# Heartbeats come every ten seconds; a window that was announced not long before the end counts.
_ANNOUNCED_NS = 600 * 10**9
# When something was heard is known to the second.
_RESOLUTION_NS = 2 * 10**9
_FOLLOWED = "a log is followed: nothing tells whether its trainer lives"
_AFTERWARDS = (
    "its stages are told once they are over, and nothing meanwhile (rl.stage.start would tell)"
)


def explain_silence(
    last_seen_ns: int,
    last_closed_ns: int | None,
    processes: Sequence[ProcessSeen],
    starts: Sequence[StageStart],
    spans: Sequence[StageSpan],
) -> str | None:
    """Return why hearing nothing of an attempt says nothing of its processes, None where it does.

    Args:
        last_seen_ns: When it was last heard of.
        last_closed_ns: End of its newest closed step, None without any.
        processes: Those of the attempt.
        starts: Windows that it announced while they were open, near the end of what was heard.
        spans: Windows of its newest step.
    """
    trainers = [process for process in processes if process.role in LEDGER_ROLES]
    if trainers and all(process.service == IMPORT_SERVICE for process in trainers):
        return _FOLLOWED
    if starts or not spans:
        return None
    newest_ns = max([last_closed_ns or 0, *(span.end_ns for span in spans)])
    return _AFTERWARDS if last_seen_ns <= newest_ns + _RESOLUTION_NS else None


def read_silence(
    reader: Reader,
    summary: RunSummary,
    last_closed_ns: int | None,
    processes: Sequence[ProcessSeen],
) -> str | None:
    """Return the same of a run's newest attempt; nothing is read of one that is not lost.

    Raises:
        StoreError: The database failed.
    """
    if summary.state != "lost":
        return None
    run_id, attempt, step = summary.run_id, summary.attempt, summary.last_step
    return explain_silence(
        summary.last_seen_ns,
        last_closed_ns,
        processes,
        reader.list_stage_starts(run_id, attempt, summary.last_seen_ns - _ANNOUNCED_NS),
        () if step is None else reader.list_stage_spans(run_id, attempt, step),
    )
